"""Which kind of engine a host of the matrix has."""

from __future__ import annotations

from sistership.host.commands import Commands
from sistership.host.containerd import KUBERNETES, Containerd, containerd_words
from sistership.host.docker import Docker
from sistership.host.engines import engine_chosen
from sistership.host.podman import Podman
from sistership.host.transport import quote
from sistership.matrix.model import Host


def commands(host: Host) -> Commands:
    """How to speak to the engine of a host, as the matrix has it."""
    if host.engine == "podman":
        return Podman(words(host, "--url"))
    if host.engine == "containerd":
        return Containerd(containerd_words(host), host.namespace or KUBERNETES, host.sudo)
    return Docker(words(host, "--host"), engine_chosen(host))


def words(host: Host, address: str) -> str:
    """The engine's CLI on `host` as quoted shell words.

    `sudo -n` never asks for a password: a prompt would wait for ever, or eat the image as its answer.
    The engine is named by a flag, not by a variable: sudo drops variables, and its rules often allow docker alone.

    Args:
        address: the flag that says where the command finds its engine.
    """
    found = ["sudo", "-n"] if host.sudo else []
    found.append(host.docker)
    if host.docker_host:
        found += [address, host.docker_host]
    if host.context:
        found += ["--context", host.context]
    return quote(*found)
