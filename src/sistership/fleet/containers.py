"""Practice hosts as containers: made, given their files, started, looked at, removed."""

from __future__ import annotations

import functools
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.types import Mount

from sistership.errors import HostUnfitError
from sistership.fleet.contents import STORAGE, File, archive
from sistership.fleet.process import need
from sistership.fleet.spec import (
    CAPABILITIES,
    DISK,
    HOST_LABEL,
    LABEL,
    LABEL_VALUE,
    LABELS,
    NETWORK,
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
FILTER: Mapping[str, Any] = {"label": f"{LABEL}={LABEL_VALUE}"}


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
    """What a command in a host gave: exit code (124 when it took too long), standard output, standard error."""

    code: int
    out: str
    errors: str


def run(container: Container, argv: Sequence[str], seconds: int) -> Done:
    """Run `argv` as root inside a running host, for at most `seconds`.

    By the command line, since docker-py loses what a short command prints: it reads past the buffer into which the
    first bytes came together with the answer's headers (4 of 300 calls of `echo` on a busy machine).
    """
    bounded = ["timeout", "-k", "2", str(seconds), *argv]
    done = subprocess.run(
        [need("docker", "docker.io"), "exec", str(container.id), *bounded],
        # The engine that docker-py asks: it knows no contexts.
        env={**os.environ, "DOCKER_CONTEXT": "default"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


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
    mounts = [
        *(Mount(folder, None, type="volume", labels=dict(LABELS)) for folder in (*DISK, *spec.volumes)),
        Mount("/sys/fs/cgroup", "/sys/fs/cgroup", type="bind"),
    ]
    if spec.registry:
        mounts.append(Mount(STORAGE, str(state.registry), type="bind", read_only=True))
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
