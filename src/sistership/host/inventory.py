"""From a host of the matrix to a live one: its transport, and the words that start its engine's CLI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from sistership.errors import HostUnfitError, SistershipError
from sistership.host.local import Local
from sistership.host.openssh import OpenSSH
from sistership.host.traced import Traced
from sistership.host.transport import Completed, Sink, Transport, quote
from sistership.matrix.model import Host


@dataclass(frozen=True)
class Peer:
    """A host with an open way to it.

    Attributes:
        host: as the inventory has it.
        transport: runs scripts there.
        docker: shell words that start the engine's CLI there, quoted.
    """

    host: Host
    transport: Transport
    docker: str

    @property
    def name(self) -> str:
        """The host's name in the inventory."""
        return self.host.name


def docker_words(host: Host) -> str:
    """The engine's CLI on `host` as quoted shell words.

    `sudo -n` never asks for a password: a prompt would wait for ever, or eat the image as its answer.
    The engine is named by a flag, not by a variable: sudo drops variables, and its rules often allow docker alone.
    """
    words = ["sudo", "-n"] if host.sudo else []
    words.append(host.docker)
    if host.docker_host:
        words += ["--url" if PurePosixPath(host.docker).name.startswith("podman") else "--host", host.docker_host]
    if host.context:
        words += ["--context", host.context]
    return quote(*words)


class Refused:
    """A way to a host that must not be used: every script raises the reason, so it is that host's trouble alone."""

    def __init__(self, host: str, reason: SistershipError) -> None:
        self.host = host
        self._reason = reason

    def run(
        self,
        script: str,
        *,
        stdin: bytes | Iterable[bytes] | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
        stall: float | None = None,
    ) -> Completed:
        """Raise the reason."""
        del script, stdin, sink, timeout, stall
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
                refuse_redirected_client(host.name, os.environ)
        except HostUnfitError as error:
            transport = Refused(host.name, error)
    else:
        transport = over_ssh(host)
    return Peer(host, Traced(transport), docker_words(host))


def over_ssh(host: Host) -> Transport:
    """The system's ssh; paramiko where the matrix says so, or where there is no ssh program."""
    way = host.transport or ("openssh" if shutil.which("ssh") else "paramiko")
    destination = host.ssh or host.name
    if way == "openssh":
        return OpenSSH(host.name, destination, host.ssh_config)
    from sistership.host.paramiko_ssh import ParamikoSSH  # noqa: PLC0415 - slow to import and seldom needed

    return ParamikoSSH(host.name, destination, host.ssh_config)


def engine_chosen(host: Host) -> bool:
    """Whether the matrix says which of several engines of a host is meant; sudo means that of root."""
    return bool(host.docker_host or host.context or host.sudo)


def refuse_redirected_client(name: str, environ: dict[str, str] | os._Environ[str]) -> None:
    """A `local: true` host must be this machine: DOCKER_HOST or DOCKER_CONTEXT may say otherwise.

    Raises:
        HostUnfitError: they do (moby/moby#12548: images loaded on the wrong machine).
    """
    elsewhere = environ.get("DOCKER_HOST", "")
    if elsewhere and not elsewhere.startswith("unix://"):
        raise HostUnfitError(
            f"DOCKER_HOST={elsewhere} sends the local client to another machine",
            where=name,
            hint="unset DOCKER_HOST, or name that machine in the matrix with `ssh:`",
        )
    context = environ.get("DOCKER_CONTEXT", "")
    if context and context != "default" and not elsewhere:
        raise HostUnfitError(
            f"DOCKER_CONTEXT={context} may send the local client to another engine",
            where=name,
            hint="unset DOCKER_CONTEXT, or set `docker_host:` for this host in the matrix",
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
