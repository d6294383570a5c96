"""Practice hosts as containers: made, given their files, started, looked at, removed."""

from __future__ import annotations

import functools
import io
import json
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.types import Mount

from sistership.errors import HostUnfitError
from sistership.fleet.keys import key_pair
from sistership.fleet.spec import (
    CAPABILITIES,
    HOST_LABEL,
    LABEL,
    LABEL_VALUE,
    LABELS,
    NETWORK,
    REGISTRY,
    SECURITY,
    SPEC_LABEL,
    HostSpec,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from docker.models.containers import Container

    from sistership.fleet.paths import State

#: What rootless engines may use: a network in user space, and file systems in user space.
_DEVICES = ("/dev/net/tun", "/dev/fuse")
_STORAGE = "/var/lib/practice-registry"
_CUT = 125
FILTER: Mapping[str, Any] = {"label": f"{LABEL}={LABEL_VALUE}"}


@dataclass(frozen=True)
class File:
    """A file for a host: absolute path there, text, mode."""

    path: str
    text: str
    mode: int = 0o644


@functools.cache
def _client() -> docker.DockerClient:
    """One for the whole process: its connections stay open and may be used by all threads."""
    return docker.from_env(timeout=120)


def connect() -> docker.DockerClient:
    """The machine's own engine.

    Raises:
        HostUnfitError: no engine answers.
    """
    try:
        client = _client()
        client.ping()
    except (DockerException, OSError) as error:
        raise HostUnfitError(
            "no Docker Engine answers on this machine",
            where="practice fleet",
            why=str(error).splitlines()[0],
            hint="scripts/setup, or start dockerd; your user needs access to its socket",
        ) from error
    return client


@contextmanager
def explained() -> Iterator[None]:
    """Turn an engine's refusal into an error of ours."""
    try:
        yield
    except DockerException as error:
        raise HostUnfitError(
            "this machine's Docker Engine refused a step",
            where="practice fleet",
            why=str(getattr(error, "explanation", None) or error).splitlines()[0],
            hint="fleet.down, then fleet.up",
        ) from error


@dataclass(frozen=True)
class Done:
    """What a command in a host gave: exit code, standard output, standard error.

    A code of 124 says that it took too long, 125 that nothing was heard of its end.
    """

    code: int
    out: str
    errors: str


def run(container: Container, argv: Sequence[str], seconds: int) -> Done:
    """Run `argv` as root inside a running host, for at most `seconds`."""
    done = container.exec_run(["timeout", "-k", "2", str(seconds), *argv], demux=True)
    out, errors = cast("tuple[bytes | None, bytes | None]", done.output)
    # No code: the connection to this machine's engine ended before the command did.
    code = _CUT if done.exit_code is None else done.exit_code
    return Done(code, (out or b"").decode(errors="replace"), (errors or b"").decode(errors="replace"))


def files_of(spec: HostSpec, state: State) -> tuple[File, ...]:
    """What makes a plain root filesystem into this host."""
    scripts = resources.files(__package__).joinpath("host")
    host_key = key_pair(state, f"host-{spec.name}")
    sshd = ["HostKey /etc/practice/host_key", "AuthorizedKeysFile /etc/practice/authorized_keys", *spec.sshd]
    # What PAM tells a session of a real host.
    sshd += [f"Match User {user}\n    SetEnv XDG_RUNTIME_DIR=/run/user/{uid}" for uid, user in _uids(spec)]
    files = [
        *(
            File(f"/usr/local/sbin/{name}", scripts.joinpath(file).read_text(), 0o755)
            for name, file in _scripts(spec).items()
        ),
        File("/etc/docker/daemon.json", json.dumps(dict(spec.daemon), sort_keys=True) + "\n"),
        File("/etc/practice/host_key", host_key.private.decode(), 0o600),
        # Read with the rights of who logs in.
        File("/etc/practice/authorized_keys", key_pair(state, "user").public + "\n", 0o644 if spec.users else 0o600),
        File("/etc/ssh/sshd_config.d/practice.conf", "\n".join(sshd) + "\n"),
    ]
    if spec.registry:
        files.append(File("/etc/practice/registry.yml", _registry_config()))
    if spec.users:
        files.append(File("/etc/practice/users", "".join(f"{uid} {user}\n" for uid, user in _uids(spec))))
    if spec.without:
        files.append(File("/etc/practice/without", "".join(f"{name}\n" for name in spec.without)))
    if spec.kind == "podman":
        files.append(File("/etc/containers/containers.conf", _PODMAN))
    return tuple(files)


def _uids(spec: HostSpec) -> list[tuple[int, str]]:
    return list(enumerate(spec.users, 1000))


#: crun refuses a machine that has cgroups of both versions; runc runs on every kind.
_PODMAN = '[engine]\nruntime = "runc"\n'


def _scripts(spec: HostSpec) -> dict[str, str]:
    """Program on the host → our file of it; hosts of old kinds keep theirs, so that none is made anew."""
    names = {name: name for name in ("practice-host", "practice-engine", "practice-sshd")}
    if spec.kind != "docker" or spec.users:
        names["practice-engine"] = f"practice-engine-{'rootless' if spec.kind == 'docker' else spec.kind}"
        names["practice-prepare"] = "practice-prepare"
    return names


def _registry_config() -> str:
    """The registry only hands out: its storage belongs to the fleet."""
    return (
        "version: 0.1\nlog: {level: warn}\n"
        f"storage:\n  filesystem: {{rootdirectory: {_STORAGE}}}\n  maintenance: {{readonly: {{enabled: true}}}}\n"
        f"http: {{addr: '{REGISTRY}'}}\n"
    )


def archive(files: tuple[File, ...]) -> bytes:
    """A tar of `files` for ``put_archive`` at ``/``."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for file in files:
            data = file.text.encode()
            info = tarfile.TarInfo(file.path.lstrip("/"))
            info.size, info.mode = len(data), file.mode
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def spec_key(spec: HostSpec, files: tuple[File, ...], state: State) -> str:
    """Changes when a container made from `spec` would differ."""
    return spec.key({**{file.path: file.text for file in files}, "registry": str(state.registry)})


def find(client: docker.DockerClient, name: str) -> Container | None:
    """The container `name`, None when there is none.

    Raises:
        HostUnfitError: one of that name is not the fleet's.
    """
    try:
        container = client.containers.get(name)
    except NotFound:
        return None
    if container.labels.get(LABEL) != LABEL_VALUE:
        raise HostUnfitError(
            f"container {name} exists and is not of the fleet", hint=f"docker rename {name} other-name"
        )
    return container


def all_of_fleet(client: docker.DockerClient) -> dict[str, Container]:
    """Host name → container, of every host there is."""
    return {
        container.labels[HOST_LABEL]: container
        for container in client.containers.list(all=True, filters=dict(FILTER))
        if HOST_LABEL in container.labels
    }


def network(client: docker.DockerClient) -> None:
    """Have the private network."""
    for found in client.networks.list(names=[NETWORK]):
        if found.name != NETWORK:
            continue
        if (found.attrs.get("Labels") or {}).get(LABEL) != LABEL_VALUE:
            raise HostUnfitError(
                f"network {NETWORK} exists and is not of the fleet", hint=f"docker network rm {NETWORK}"
            )
        return
    client.networks.create(NETWORK, driver="bridge", labels=dict(LABELS))


def _mounts(spec: HostSpec, state: State) -> list[Mount]:
    """Engines keep their layers on real volumes: overlay2 does not stack on overlay."""
    mounts = [
        Mount("/var/lib/docker", None, type="volume", labels=dict(LABELS)),
        Mount("/var/lib/containerd", None, type="volume", labels=dict(LABELS)),
        *(Mount(folder, None, type="volume", labels=dict(LABELS)) for folder in spec.volumes),
        Mount("/sys/fs/cgroup", "/sys/fs/cgroup", type="bind"),
    ]
    if spec.registry:
        mounts.append(Mount(_STORAGE, str(state.registry), type="bind", read_only=True))
    return mounts


def create(client: docker.DockerClient, spec: HostSpec, state: State, files: tuple[File, ...]) -> Container:
    """Make the host's container and put its files in; it is not started yet."""
    host_config = client.api.create_host_config(
        cap_add=list(CAPABILITIES),
        security_opt=list(SECURITY),
        network_mode=NETWORK,
        mounts=_mounts(spec, state),
        cgroupns="host",
        devices=[f"{device}:{device}:rwm" for device in _DEVICES if spec.users and Path(device).exists()],
        # What engines leave there is gone when a machine boots, and rootless ones tell by it that it did.
        tmpfs={"/run": "mode=755,exec"} if spec.without else None,
    )
    # What the CLI makes of `--security-opt systempaths=unconfined`: runc inside has to write below /proc/sys.
    host_config.update({"MaskedPaths": [], "ReadonlyPaths": []})
    made = client.api.create_container(
        spec.root.image,
        ["/usr/local/sbin/practice-host"],
        name=spec.container,
        hostname=spec.name,
        host_config=host_config,
        labels={**LABELS, HOST_LABEL: spec.name, SPEC_LABEL: spec_key(spec, files, state)},
    )
    container = client.containers.get(made["Id"])
    container.put_archive("/", archive(files))
    return container


def remove(container: Container, grace: int = 8) -> None:
    """Stop a host (its engine gets `grace` seconds to end its own containers) and remove it with its volumes."""
    try:
        if container.status == "running":
            container.stop(timeout=grace)
        container.remove(v=True, force=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # noqa: PLR2004  Conflict: another call removes it already
            raise


def address(container: Container) -> str:
    """The host's address on the private network, "" while it has none."""
    networks = container.attrs["NetworkSettings"]["Networks"] or {}
    return str((networks.get(NETWORK) or {}).get("IPAddress") or "")


def log_tail(container: Container, lines: int = 8) -> str:
    """The last lines that the host's engine, sshd and registry said."""
    try:
        return container.logs(tail=lines).decode(errors="replace").strip()
    except DockerException as error:
        return f"(no log: {error})"


def nameservers(paths: tuple[Path, ...] = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))) -> str:
    """Text of a resolv.conf with this machine's name servers that containers can reach, "" when there are none.

    Engines drop loopback name servers from what they hand to containers; a user-defined network has nothing else,
    so containers inside a practice host could resolve nothing.
    """
    for path in paths:
        if not path.is_file():
            continue
        lines = [line for line in path.read_text().splitlines() if line.startswith(("nameserver ", "search "))]
        kept = [line for line in lines if not line.startswith(("nameserver 127.", "nameserver ::1"))]
        if any(line.startswith("nameserver ") for line in kept):
            return "\n".join(kept) + "\n"
    return ""


def give_nameservers(container: Container, text: str) -> None:
    """Let the running host, and the containers it runs, resolve names; kept for its next start."""
    if text:
        container.put_archive("/", archive((File("/etc/practice/resolv.conf", text),)))
        run(container, ["sh", "-c", "cat /etc/practice/resolv.conf > /etc/resolv.conf"], 10)
