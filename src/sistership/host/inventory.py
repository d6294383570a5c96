"""From a host of the matrix to a live one: its transport, and how its engine is spoken to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final

from sistership.errors import HostUnfitError, SistershipError
from sistership.host.commands import Commands
from sistership.host.kinds import commands
from sistership.host.lines import Line
from sistership.host.local import Local
from sistership.host.openssh import OpenSSH
from sistership.host.traced import Traced
from sistership.host.transport import Completed, Input, Sink, Transport
from sistership.matrix.model import EngineKind, Host


@dataclass(frozen=True)
class Peer:
    """A host with an open way to it.

    Attributes:
        host: as the inventory has it.
        transport: runs scripts there.
        engine: how its engine is spoken to.
    """

    host: Host
    transport: Transport
    engine: Commands

    @property
    def name(self) -> str:
        """The host's name in the inventory."""
        return self.host.name


class Refused:
    """A way to a host that must not be used: every script raises the reason, so it is that host's trouble alone."""

    def __init__(self, host: str, reason: SistershipError) -> None:
        self.host = host
        self._reason = reason

    def run(
        self,
        script: str,
        *,
        stdin: Input | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
        stall: float | None = None,
    ) -> Completed:
        """Raise the reason."""
        del script, stdin, sink, timeout, stall
        raise self._reason

    def dial(self, port: int) -> AbstractContextManager[Line]:
        """Raise the reason."""
        del port
        raise self._reason

    def close(self) -> None:
        """Nothing is open."""


def connect(host: Host) -> Peer:
    """A peer for `host`; nothing is connected, and nothing refused, before the first script."""
    transport: Transport
    if host.local:
        transport = Local(host.name)
        try:
            if not (host.docker_host or host.context):
                refuse_redirected_client(host.name, os.environ, host.engine)
        except HostUnfitError as error:
            transport = Refused(host.name, error)
    else:
        transport = over_ssh(host)
    return Peer(host, Traced(transport), commands(host))


def over_ssh(host: Host) -> Transport:
    """The system's ssh; paramiko where the matrix says so, or where there is no ssh program."""
    way = host.transport or ("openssh" if shutil.which("ssh") else "paramiko")
    destination = host.ssh or host.name
    if way == "openssh":
        return OpenSSH(host.name, destination, host.ssh_config)
    from sistership.host.paramiko_ssh import ParamikoSSH  # noqa: PLC0415 - slow to import and seldom needed

    return ParamikoSSH(host.name, destination, host.ssh_config)


#: Variables by which an engine's command is sent elsewhere: by address, by a name of its own configuration.
_REDIRECTIONS: Final[Mapping[EngineKind, tuple[str, str]]] = {
    "docker": ("DOCKER_HOST", "DOCKER_CONTEXT"),
    "podman": ("CONTAINER_HOST", "CONTAINER_CONNECTION"),
}


def refuse_redirected_client(
    name: str, environ: dict[str, str] | os._Environ[str], kind: EngineKind = "docker"
) -> None:
    """A `local: true` host must be this machine: DOCKER_HOST or DOCKER_CONTEXT may say otherwise, and Podman's own.

    Raises:
        HostUnfitError: they do (moby/moby#12548: images loaded on the wrong machine).
    """
    address, named = _REDIRECTIONS.get(kind, ("", ""))
    elsewhere = environ.get(address, "")
    if elsewhere and not elsewhere.startswith("unix://"):
        raise HostUnfitError(
            f"{address}={elsewhere} sends the local client to another machine",
            where=name,
            hint=f"unset {address}, or name that machine in the matrix with `ssh:`",
        )
    context = environ.get(named, "")
    if context and context != "default" and not elsewhere:
        raise HostUnfitError(
            f"{named}={context} may send the local client to another engine",
            where=name,
            hint=f"unset {named}, or set `docker_host:` for this host in the matrix",
        )


@contextmanager
def connected(hosts: Sequence[Host]) -> Iterator[tuple[Peer, ...]]:
    """Peers for `hosts`, closed at the end whatever happens."""
    peers: list[Peer] = []
    try:
        peers.extend(connect(host) for host in hosts)
        yield tuple(peers)
    finally:
        for peer in peers:
            peer.transport.close()
