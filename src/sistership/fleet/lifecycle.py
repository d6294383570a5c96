"""The fleet's three verbs: up, status, down."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from docker.errors import APIError, NotFound

from sistership.errors import HostUnfitError, UsageError
from sistership.fleet import bases, containers, keys, roots, samplerepo
from sistership.fleet.contents import files_of
from sistership.fleet.engines import ASK, Engine, read
from sistership.fleet.lock import held
from sistership.fleet.paths import ProjectFiles, State, project_files, state
from sistership.fleet.process import Reporter, together
from sistership.fleet.spec import BASES, HOSTS, LABEL, NETWORK, REPOSITORY, SHARED, SPEC_LABEL, HostSpec
from sistership.fleet.waiting import MENDING, PATIENCE, until_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    import docker
    from docker.models.containers import Container


@dataclass(frozen=True)
class HostState:
    """How a practice host is: container state ("running", "exited", "missing" …), address, engine.

    `engine` is None while no engine answers; `on_request` tells a host that the fleet does without.
    """

    name: str
    state: str
    address: str = ""
    engine: Engine | None = None
    why: str = ""
    on_request: bool = False

    def __str__(self) -> str:
        if self.on_request and self.state != "running":
            return f"{self.name}: {self.state}; start it again: sistership fleet.up --hosts {self.name}"
        if self.engine is None:
            return f"{self.name}: {self.state} {self.address}".rstrip()
        return f"{self.name}: {self.state} at {self.address}, {self.engine}"


def _silent(_line: str) -> None:
    """Report nothing."""


def chosen(names: Collection[str] | None) -> tuple[HostSpec, ...]:
    """Specifications of the hosts that `names` select, in the fleet's order.

    Args:
        names: names or globs; one that begins with ``^`` leaves out. None selects all but those on request, and so do
            names that only leave out.

    Raises:
        UsageError: one of them is no practice host, or all that they name is left out.
    """
    words = [] if names is None else list(names)
    left_out = {name for word in words if word.startswith("^") for name in _matches(word[1:])}
    taken = {name for word in words if not word.startswith("^") for name in _matches(word)}
    if names is None or (left_out and not taken):
        taken = {spec.name for spec in HOSTS.values() if not spec.on_request}
    if left_out and taken <= left_out:
        raise UsageError("every practice host that is named is left out", hint="leave out less")
    return tuple(spec for spec in HOSTS.values() if spec.name in taken - left_out)


def _matches(word: str) -> list[str]:
    found = [name for name in HOSTS if fnmatchcase(name, word)]
    if not found:
        raise UsageError(f'no practice host is called "{word}"', hint=f"known: {', '.join(HOSTS)}")
    return found


def up(project: Path, *, hosts: Collection[str] | None = None, report: Reporter = _silent) -> tuple[HostState, ...]:
    """Have the practice hosts running, and `project`'s files that reach them written.

    Can be called again at any time: what runs and is as it should be stays; what was interrupted, stopped or made from
    an older specification is repaired. The first time takes minutes (root filesystems), later ones seconds.

    Args:
        project: folder that gets ``.sistership/fleet/{ssh_config,key,known_hosts,sample.git}``.
        hosts: which, as `chosen` reads them; others that run keep running.
        report: takes one line per step.

    Raises:
        HostUnfitError: this machine lacks something, or a host did not come up in time.
        UsageError: an unknown host name.
        LockedError: another fleet command did not finish.
    """
    wanted = chosen(hosts)
    files, home = project_files(project), state()
    if not keys.paths_are_safe(files.root):
        raise UsageError("ssh cannot read files below this folder's name", where=str(project), hint='no % " $ in it')
    client = containers.connect()
    with held(home.lock, report), containers.explained():
        if commit := samplerepo.make(files.sample):
            report(f"sample: {files.sample} at {commit[:12]}")
        _materials(client, wanted, home, report)
        keys.ensure(home, HOSTS)
        containers.network(client)
        return _hosts_up(client, wanted, home, files, report)


def _materials(client: docker.DockerClient, wanted: tuple[HostSpec, ...], home: State, report: Reporter) -> None:
    """Have the images of the hosts and the bases; two at a time, as unpacking keeps a core busy."""
    stop = threading.Event()
    jobs: list[Callable[[], object]] = [
        partial(roots.image, root, client, home, stop, report) for root in dict.fromkeys(spec.root for spec in wanted)
    ]
    if any(spec.registry for spec in wanted):
        home.registry.mkdir(parents=True, exist_ok=True)
        jobs += [partial(bases.make, base, home, stop, report) for base in BASES]
    together(jobs, at_once=2, stop=stop)
    if any(spec.registry for spec in wanted):
        bases.make_cuda(home, stop, report)


@dataclass(frozen=True)
class _Raising:
    """One `up` under way: what its steps share."""

    client: docker.DockerClient
    home: State
    files: ProjectFiles
    report: Reporter
    stop: threading.Event
    addresses: threading.Lock

    def write_ssh_files(self) -> None:
        """Addresses are looked up and written by one thread at a time, so that the last writer knows them all."""
        with self.addresses:
            write_ssh_files(self.files, self.home, containers.all_of_fleet(self.client))

    def started(self, spec: HostSpec, resolv: str) -> bool:
        """Have the host's container running, as its specification says; True when it ran already."""
        files = files_of(spec, self.home)
        container = containers.find(self.client, spec.container)
        if container and not _usable(container, containers.spec_key(spec, files, self.home)):
            self.report(f"{spec.name}: making it anew")
            containers.remove(container)
            container = None
        if container is None:
            self.report(f"{spec.name}: making the container")
            container = containers.create(self.client, spec, self.home, files)
        if ran := container.status == "running":
            containers.give_nameservers(container, resolv)
            return ran
        container.start()
        container.reload()
        containers.give_nameservers(container, resolv)
        return ran

    def ready(self, spec: HostSpec, *, ran: bool) -> HostState:
        """Wait for the host; one that ran already but does not answer is restarted once.

        A practised fault that was never mended is gone after a restart.
        """
        container = self.client.containers.get(spec.container)
        try:
            found = until_ready(spec, container, self.files, self.stop, MENDING if ran else PATIENCE)
        except HostUnfitError as error:
            if not ran:
                raise
            self.report(f"{spec.name}: restarting it ({error.what})")
            container.restart(timeout=8)
            container.reload()
            containers.give_nameservers(container, containers.nameservers())
            self.write_ssh_files()
            found = until_ready(spec, container, self.files, self.stop)
        done = HostState(spec.name, "running", containers.address(container), found, spec.why, spec.on_request)
        self.report(str(done))
        return done


def _hosts_up(
    client: docker.DockerClient, wanted: tuple[HostSpec, ...], home: State, files: ProjectFiles, report: Reporter
) -> tuple[HostState, ...]:
    under_way = _Raising(client, home, files, report, threading.Event(), threading.Lock())
    resolv = containers.nameservers()
    ran: dict[str, bool] = {}
    states: dict[str, HostState] = {}

    def start(spec: HostSpec) -> None:
        ran[spec.name] = under_way.started(spec, resolv)

    def wait(spec: HostSpec) -> None:
        states[spec.name] = under_way.ready(spec, ran=ran[spec.name])

    together([partial(start, spec) for spec in wanted], at_once=len(wanted) or 1, stop=under_way.stop)
    under_way.write_ssh_files()
    together([partial(wait, spec) for spec in wanted], at_once=len(wanted) or 1, stop=under_way.stop)
    return tuple(states[spec.name] for spec in wanted)


def _usable(container: Container, spec_key: str) -> bool:
    """Whether a container can stay.

    One that was made but never started may lack its files; one that lost the network cannot be reached.
    """
    connected = NETWORK in (container.attrs["NetworkSettings"]["Networks"] or {})
    return container.labels.get(SPEC_LABEL) == spec_key and container.status in {"running", "exited"} and connected


def write_ssh_files(files: ProjectFiles, home: State, found: dict[str, Container]) -> None:
    """Write the project's ssh files for every host that has an address."""
    addresses = {name: containers.address(container) for name, container in found.items() if name in HOSTS}
    users = {name: HOSTS[name].users for name in addresses}
    keys.write(files, home, {name: value for name, value in addresses.items() if value}, users)


def _engine_of(spec: HostSpec, container: Container) -> Engine | None:
    found = read(spec.kind, containers.run(container, ["sh", "-c", ASK[spec.kind]], 5).out)
    return found if isinstance(found, Engine) else None


def status() -> tuple[HostState, ...]:
    """How every practice host is, running or not; of those that are started on request, the ones there are.

    Raises:
        HostUnfitError: no engine answers on this machine.
    """

    def look(spec: HostSpec) -> HostState:
        container = found.get(spec.name)
        if container is None:
            return HostState(spec.name, "missing", why=spec.why)
        answers = _engine_of(spec, container) if container.status == "running" else None
        return HostState(spec.name, container.status, containers.address(container), answers, spec.why, spec.on_request)

    with containers.explained():
        found = containers.all_of_fleet(containers.connect())
        return tuple(look(spec) for spec in HOSTS.values() if not spec.on_request or spec.name in found)


def down(*, purge: bool = False, report: Reporter = _silent) -> None:
    """Remove the hosts with their volumes, and the network; with `purge` also the cached images, files and keys.

    Only what carries the fleet's label is touched.
    """
    client = containers.connect()
    home = state()
    with held(home.lock, report), containers.explained():
        found = containers.all_of_fleet(client)
        _all_gone(found, report)
        _leftovers(client)
        if purge:
            _purge(client, home, report)


def remove(project: Path, *, hosts: Collection[str], report: Reporter = _silent) -> None:
    """Remove some hosts with their volumes, and forget them in `project`'s ssh files; all else stays.

    Args:
        project: see `up`.
        hosts: which, as `chosen` reads them; those that do not exist are passed over.
        report: takes one line per host.

    Raises:
        UsageError: see `chosen`.
    """
    names = {spec.name for spec in chosen(hosts)}
    client, home = containers.connect(), state()
    with held(home.lock, report), containers.explained():
        found = containers.all_of_fleet(client)
        _all_gone({name: container for name, container in found.items() if name in names}, report)
        write_ssh_files(project_files(project), home, {name: found[name] for name in found if name not in names})


def _all_gone(found: Mapping[str, Container], report: Reporter) -> None:
    jobs = [partial(_gone, name, found[name], report) for name in sorted(found)]
    together(jobs, at_once=8, stop=threading.Event())


def _gone(name: str, container: Container, report: Reporter) -> None:
    containers.remove(container)
    report(f"{name}: removed")


def _leftovers(client: docker.DockerClient) -> None:
    """The network, and volumes that a removal which was interrupted left behind."""
    for network in client.networks.list(filters=dict(containers.FILTER)):
        network.remove()
    for volume in client.volumes.list(filters=dict(containers.FILTER)):
        try:
            volume.remove()
        except (NotFound, APIError):
            continue


def _purge(client: docker.DockerClient, home: State, report: Reporter) -> None:
    for image in client.images.list(filters={"label": f"{LABEL}={SHARED}"}):
        for tag in image.tags:
            if tag.startswith(f"{REPOSITORY}/"):
                client.images.remove(tag)
                report(f"{tag}: removed")
    for folder in (home.roots, home.registry, home.wheels, home.keys, home.logs):
        shutil.rmtree(folder, ignore_errors=True)
    report(f"{home.root}: emptied")


def container_of(name: str) -> Container:
    """The container of practice host `name`, for those who practise faults.

    Raises:
        HostUnfitError: it does not exist.
    """
    with containers.explained():
        found = containers.find(containers.connect(), HOSTS[name].container)
    if found is None:
        raise HostUnfitError("practice host is missing", where=name, hint="fleet.up")
    return found
