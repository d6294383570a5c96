"""From a host of the matrix to a live one: its transport, and the words that start its engine's CLI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sistership.errors import HostUnfitError
from sistership.host.local import Local
from sistership.host.openssh import OpenSSH
from sistership.host.transport import Transport, quote
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
    """
    words: list[str] = []
    if host.sudo:
        words += ["sudo", "-n"]
    if host.docker_host:
        words += ["env", "-u", "DOCKER_CONTEXT", f"DOCKER_HOST={host.docker_host}"]
    return quote(*words, *host.docker.split())


def connect(host: Host) -> Peer:
    """A peer for `host`; nothing is connected before the first script.

    Raises:
        HostUnfitError: this machine's environment sends the local client to another machine.
    """
    transport: Transport
    if host.local:
        if not host.docker_host:
            refuse_redirected_client(host.name, os.environ)
        transport = Local(host.name)
    else:
        transport = OpenSSH(host.name, host.ssh or host.name, host.ssh_config)
    return Peer(host, transport, docker_words(host))


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
