"""containerd without Docker, as Kubernetes nodes have it: every verb that works on a host works by ctr alone."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership import fleet as practice
from sistership.fleet import containers, faults
from sistership.host.facts import probe, same_daemons
from sistership.host.inventory import connected
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.registry.place import Place
from sistership.report.events import Event, Step
from sistership.report.listeners import Silent
from sistership.ship.older import Ours
from sistership.ship.plan import HostPlan
from sistership.ship.prune import Older, Pruned, prune_all
from sistership.ship.road import Road
from sistership.ship.ship import Shipped, plan_all, ship_all
from sistership.verify.hosts import verify_all
from sistership.verify.verdict import Verdict

from . import test_difference, test_registry
from .test_difference import Made, Steps, states
from .test_registry import USER, Running

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

#: Three releases of files that nothing runs: no builder is needed.
made = test_difference.made
running = test_registry.running
#: The first for all tests, the other where versions of containerd differ.
NAMES = ("containerd", "containerd2")
#: As Kubernetes writes the name of the difference test's image.
PEOPLE = "docker.io/library/difference-sample:v1"
CTR = "ctr --namespace k8s.io"
WIPE = f"""
{CTR} containers ls -q | xargs -r {CTR} containers rm
{CTR} images ls -q | xargs -r {CTR} images rm --sync >/dev/null
rm -rf ~/.cache/sistership/stage
"""
#: What containerd reads of a registry, as the kubelet's runtime does.
HOSTS_TOML = """
server = "https://{host}"
[host."https://{host}"]
  ca = "{folder}/ca.crt"
  [host."https://{host}".header]
    authorization = ["Basic {login}"]
"""
#: Somebody with a login and sudo.
WORKER = """
set -e
useradd --password '*' -m worker
echo 'worker ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/worker
mkdir -p ~worker/.ssh
cp /etc/practice/authorized_keys ~worker/.ssh/
chown -R worker: ~worker/.ssh
"""
NO_WORKER = """
userdel -rf worker 2>/dev/null
rm -f /etc/sudoers.d/worker
"""

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


@dataclass(frozen=True)
class Node:
    """A host with containerd alone."""

    fleet: Fleet
    name: str

    def ssh(self, command: str, stdin: bytes = b"") -> str:
        """What a command prints there."""
        return self.fleet.ssh(self.name, command, stdin=stdin)

    def row(self, **changes: object) -> Host:
        """The host as a matrix names it."""
        config = self.fleet.files.ssh_config
        row = Host(self.name, ssh=self.name, ssh_config=config, docker="ctr", engine="containerd", namespace="k8s.io")
        return replace(row, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def node(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Node]:
    """The host; if it was not there before, it is gone afterwards."""
    name = getattr(request, "param", NAMES[0])
    before = {name: host.id for name, host in containers.all_of_fleet(containers.connect()).items()}
    states = practice.up(fleet.project, hosts=[name], report=print)
    yield Node(replace(fleet, states={**fleet.states, **{state.name: state for state in states}}), name)
    if name not in before:
        practice.remove(fleet.project, hosts=[name], report=print)
        assert {name: host.id for name, host in containers.all_of_fleet(containers.connect()).items()} == before


@pytest.fixture
def empty(node: Node) -> Iterator[Node]:
    """That host without any image."""
    node.ssh(WIPE)
    yield node
    node.ssh(WIPE)


def ship(node: Node, made: Made, number: int, *, minimize: bool = False) -> tuple[Shipped, HostPlan]:
    """Ship a release, look into all of its files there; what came of it and what was planned before."""
    with connected([node.row()]) as peers:
        (plan,) = plan_all(peers, [made.releases[number]], made.store, minimize=minimize)
        assert isinstance(plan, HostPlan), plan
        (shipped,) = ship_all(peers, [made.releases[number]], made.store, Silent(), lambda *_: None, minimize=minimize)
    assert shipped.code == 0, (shipped.verdict, shipped.error)
    assert verdict(node, made.releases[number], deep=True).kind.value == "ok"
    return shipped, plan


def verdict(node: Node, release: Release, *, deep: bool = False) -> Verdict:
    """What verify says."""
    with connected([node.row()]) as peers:
        return verify_all(peers, [release], deep=deep)[0].verdict


def prune(node: Node, made: Made, current: Sequence[int], *, keep: int = 0) -> Pruned:
    """Remove what is old, when these releases are what the lock says."""
    releases = [made.releases[number] for number in current]
    ours = Ours({releases[0].reference: "difference"}, frozenset({releases[0].reference}), tuple(releases))
    with connected([node.row()]) as peers:
        return prune_all(peers, Older(ours, keep), Silent(), act=True)[0]


def names(node: Node) -> dict[str, str]:
    """Name → manifest digest of everything in the namespace."""
    rows = [line.split() for line in node.ssh(f"{CTR} images ls").splitlines()[1:]]
    return {row[0]: row[2] for row in rows}


def snapshot_file(node: Node, path: str) -> str:
    """Where a file of an unpacked layer lies on the host's disk."""
    folder = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
    return node.ssh(f"find {folder} -path '*/fs/{path}' | tail -n 1").strip()


@pytest.mark.parametrize("node", NAMES, indirect=True)
def test_ship_verify_and_only_what_is_missing(empty: Node, made: Made) -> None:
    """Whole, then only a changed program: the ID is M, names are as Kubernetes writes them, pinned; nothing stays."""
    first, second = made.releases[1], made.releases[2]
    assert verdict(empty, first).kind.value == "missing"
    shipped, plan = ship(empty, made, 1)
    assert shipped.verdict.shown == first.image.manifest
    assert states(plan) == ["send", "send", "send"]
    assert names(empty) == {
        # The CRI plugin's own.
        first.image.config: first.image.manifest,
        PEOPLE: first.image.manifest,
        first.unique: first.image.manifest,
    }
    shipped, plan = ship(empty, made, 2)
    assert states(plan) == ["have", "have", "send"]
    assert shipped.sent == plan.send < 10_000
    held = names(empty)
    assert held[PEOPLE] == held[second.unique] == second.image.manifest
    (rollback,) = [name for name in held if ":rollback-" in name]
    assert held[rollback] == first.image.manifest
    pinned = f"{CTR} images ls | grep io.cri-containerd.pinned=pinned | cut -d' ' -f1"
    assert set(empty.ssh(pinned).split()) == {PEOPLE, first.unique, second.unique, rollback}
    shipped, plan = ship(empty, made, 2)
    assert shipped.sent == 0
    left = f"ls ~/.cache/sistership/stage; {CTR} containers ls -q; {CTR} snapshots ls | grep -v Committed | tail -n +2"
    assert empty.ssh(f"{left}; {CTR} leases ls -q; ls -d /tmp/sistership.* 2>/dev/null; true") == ""


def test_the_new_image_outlives_the_one_below(empty: Node, made: Made) -> None:
    """After a partial load prune takes the older image, the CRI plugin's name of it too; the new one stays whole."""
    ship(empty, made, 1)
    ship(empty, made, 2)
    assert prune(empty, made, [2]).freed is not None
    new = made.releases[2]
    assert names(empty) == dict.fromkeys((new.image.config, PEOPLE, new.unique), new.image.manifest)
    held = set(empty.ssh(f"{CTR} content ls -q").split())
    assert {layer.digest for layer in new.image.layers} <= held
    assert made.releases[1].image.layers[2].digest not in held
    assert verdict(empty, new, deep=True).kind.value == "ok"


@pytest.mark.parametrize("node", NAMES, indirect=True)
def test_prune_keeps_what_a_container_lies_on(empty: Node, made: Made) -> None:
    """A container made by a name that has moved to another image since still keeps its own; it is told by which."""
    ship(empty, made, 1)
    empty.ssh(f"{CTR} containers create {PEOPLE} worker /app/bin/x")
    ship(empty, made, 2)
    found = prune(empty, made, [2])
    (kept,) = [fate for fate in found.fates if fate.image.id == made.releases[1].image.manifest]
    assert kept.keep == "used by container worker"
    empty.ssh(f"{CTR} containers rm worker")
    found = prune(empty, made, [2])
    assert [fate.image.id for fate in found.going] == [made.releases[1].image.manifest]


@pytest.mark.parametrize("node", NAMES, indirect=True)
@pytest.mark.parametrize("blob", [1, 2])
def test_a_lost_layer_is_found_and_sent(empty: Node, made: Made, blob: int) -> None:
    """An image without one of its layers is incomplete whatever its ID says; a ship sends what is not there."""
    release = made.releases[1]
    ship(empty, made, 1)
    digest = release.image.layers[blob].digest
    # Unpacked it would still run: what was unpacked goes too, as after a repair of the node's disk.
    lose = f"""
    {CTR} content label {release.image.config} containerd.io/gc.ref.snapshot.overlayfs= >/dev/null
    for n in 1 2 3; do
      {CTR} snapshots ls | awk 'NR > 1 {{ print $1 }}' | while read -r key; do
        {CTR} snapshots rm "$key" 2>/dev/null
      done
    done
    {CTR} content rm {digest} >/dev/null
    """
    empty.ssh(lose)
    assert verdict(empty, release).kind.value == "incomplete"
    shipped, _ = ship(empty, made, 1)
    assert shipped.sent >= release.image.layers[blob].size


def test_a_changed_file_is_found(empty: Node, made: Made) -> None:
    """A file changed on the node's disk keeps every ID; the deep look names it, and the snapshot is looked at alone."""
    ship(empty, made, 1)
    path = snapshot_file(empty, "app/bin/x")
    empty.ssh(f"printf x >> {path}")
    assert verdict(empty, made.releases[1]).kind.value == "ok"
    found = verdict(empty, made.releases[1], deep=True)
    assert found.kind.value != "ok"
    assert "/app/bin/x" in str(found.why)


def test_a_changed_library_costs_its_difference(empty: Node, made: Made) -> None:
    """The old bytes come out of a mounted image, what containerd has compressed out of an export."""
    ship(empty, made, 0)
    shipped, plan = ship(empty, made, 1, minimize=True)
    assert states(plan)[:2] == ["copy", "difference"]
    assert 0 < shipped.sent == plan.send < made.stored(1) / 100
    assert shipped.verdict.shown == made.releases[1].image.manifest_plain
    assert empty.ssh("ls ~/.cache/sistership/stage") == ""
    shipped, plan = ship(empty, made, 2)
    assert shipped.sent < 10_000


class Kills(Steps):
    """Kills containerd when a host begins to load; what systemd does then, happens here: it is started again.

    ctr waits for a containerd that went away, so without that it would wait for ever.
    """

    def tell(self, event: Event) -> None:
        """Note a step."""
        super().tell(event)
        if isinstance(event, Step) and event.text == "loading":
            kill = 'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != containerd ] || kill -KILL ${p#/proc/}; done'
            faults.run(event.host, ["sh", "-c", f"{{ {kill}; }} 2>/dev/null; true"])
            host = containers.find(containers.connect(), f"{containers.NETWORK}-{event.host}")
            assert host is not None
            host.exec_run(["/usr/local/sbin/practice-engine"], detach=True)


def test_containerd_is_killed_when_it_loads(empty: Node, made: Made) -> None:
    """The old image stays what it was; what is called done is whole; the next ship sends nothing twice."""
    ship(empty, made, 0)
    before, steps = names(empty), Kills()
    with connected([empty.row()]) as peers:
        (first,) = ship_all(peers, [made.releases[1]], made.store, steps, lambda *_: None)
        assert first.code in {0, 21, 22}, (first.code, steps.said)
        practice.up(empty.fleet.project, hosts=[empty.name])
        if first.code:
            held = names(empty)
            assert {name: held.get(name) for name in before} == before
            assert verdict(empty, made.releases[0], deep=True).kind.value == "ok"
        (again,) = ship_all(peers, [made.releases[1]], made.store, Silent(), lambda *_: None)
    assert (again.code, again.sent) == (0, 0), str(again.error)
    assert verdict(empty, made.releases[1], deep=True).kind.value == "ok"


def test_another_namespace_is_another_store(empty: Node, made: Made) -> None:
    """Images of k8s.io are missing elsewhere, and two names of one namespace are noticed as one engine."""
    ship(empty, made, 1)
    rows = [empty.row(), empty.row(name="again"), empty.row(name="other", namespace="practice")]
    with connected(rows) as peers:
        assert [each.verdict.kind.value for each in verify_all(peers, [made.releases[1]])] == ["ok", "ok", "missing"]
        facts = {peer.name: probe(peer) for peer in peers}
    assert same_daemons(facts) == ((empty.name, "again"),)


@pytest.mark.parametrize("node", NAMES, indirect=True)
def test_by_a_registry(
    empty: Node, made: Made, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulled by digest, with the login and the authority that the kubelet's own registry configuration has there."""
    monkeypatch.setenv("DOCKER_CONFIG", running.docker_config(tmp_path / "docker"))
    monkeypatch.setenv("SSL_CERT_FILE", str(running.authority))
    road, wanted = Road(Place(running.host, "team/node")), made.releases[1]
    folder = f"/etc/containerd/certs.d/{running.host}"
    login = base64.b64encode(f"{USER}:{running.password}".encode()).decode()
    toml = HOSTS_TOML.format(host=running.host, folder=folder, login=login)
    with connected([empty.row()]) as peers:
        (refused,) = ship_all(peers, [wanted], made.store, Silent(), lambda *_: None, road=road)
        assert refused.code == 21
        assert "does not trust the registry's certificate" in str(refused.error)
        assert f"{folder}/hosts.toml: ca" in str(refused.error)
        empty.ssh(f"mkdir -p {folder} && cat > {folder}/ca.crt", stdin=running.authority.read_bytes())
        empty.ssh(f"cat > {folder}/hosts.toml", stdin=toml.encode())
        try:
            for number, fetched in ((1, made.stored(1)), (2, made.releases[2].image.layers[2].size)):
                (plan,) = plan_all(peers, [made.releases[number]], made.store, road=road)
                assert isinstance(plan, HostPlan)
                assert plan.send == fetched
                (shipped,) = ship_all(peers, [made.releases[number]], made.store, Silent(), lambda *_: None, road=road)
                assert (shipped.code, shipped.sent) == (0, fetched), str(shipped.error)
        finally:
            empty.ssh(f"rm -r {folder}")
    new = made.releases[2].image
    assert verdict(empty, made.releases[2], deep=True).shown == new.manifest
    assert [name for name in names(empty) if "@" in name] == []


def test_by_sudo(empty: Node, made: Made) -> None:
    """Somebody without root's rights is told what to do; with `sudo: true` all of it works, reading files too."""
    empty.ssh(WORKER)
    try:
        row = empty.row(ssh=f"worker@{empty.name}")
        with connected([row]) as peers:
            (found,) = verify_all(peers, [made.releases[1]])
            assert found.verdict.hint == "set `sudo: true` for this host in the matrix, or log in as root"
        with connected([replace(row, sudo=True)]) as peers:
            (shipped,) = ship_all(peers, [made.releases[1]], made.store, Silent(), lambda *_: None)
            assert shipped.code == 0, shipped
            assert verify_all(peers, [made.releases[1]], deep=True)[0].verdict.kind.value == "ok"
    finally:
        empty.ssh(NO_WORKER)
