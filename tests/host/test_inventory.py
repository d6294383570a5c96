"""From the matrix's host to the words that start its engine's CLI."""

from __future__ import annotations

import pytest

from sistership.errors import HostUnfitError
from sistership.host.inventory import docker_words, refuse_redirected_client
from sistership.matrix.model import Host


def test_sudo_never_asks() -> None:
    """sudo runs with -n, so no prompt ever waits or eats the image (case C35)."""
    assert docker_words(Host("h", ssh="h", sudo=True)) == "sudo -n docker"


def test_docker_host_is_used_by_every_command() -> None:
    """`docker_host:` goes in front of every engine command, quoted, and wins over a context (case C37)."""
    words = docker_words(Host("h", ssh="h", docker_host="unix:///run/user/1000/docker.sock", docker="/opt/d/docker"))
    assert words == "env -u DOCKER_CONTEXT DOCKER_HOST=unix:///run/user/1000/docker.sock /opt/d/docker"


@pytest.mark.parametrize("environ", [{"DOCKER_HOST": "ssh://peer"}, {"DOCKER_CONTEXT": "peer"}])
def test_local_means_this_machine(environ: dict[str, str]) -> None:
    """A redirected local client is refused instead of loading on another machine (case C54)."""
    with pytest.raises(HostUnfitError, match="DOCKER_"):
        refuse_redirected_client("gpu-main", environ)


@pytest.mark.parametrize("environ", [{}, {"DOCKER_HOST": "unix:///x.sock"}, {"DOCKER_CONTEXT": "default"}])
def test_this_machines_own_engine_is_fine(environ: dict[str, str]) -> None:
    """A socket of this machine (rootless) is no redirection."""
    refuse_redirected_client("gpu-main", environ)
