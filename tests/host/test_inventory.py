"""From the matrix's host to the words that start its engine's CLI."""

from __future__ import annotations

from pathlib import Path

import pytest

from sistership.errors import HostUnfitError
from sistership.host.inventory import over_ssh, refuse_redirected_client
from sistership.host.kinds import commands
from sistership.host.openssh import OpenSSH
from sistership.host.paramiko_ssh import ParamikoSSH
from sistership.matrix.model import Host, Way


def cli(host: Host) -> str:
    """The words that start its engine's command."""
    return commands(host).cli


def test_sudo_never_asks() -> None:
    """sudo runs with -n, so no prompt ever waits or eats the image (case C35)."""
    assert cli(Host("h", ssh="h", sudo=True)) == "sudo -n docker"


def test_docker_host_is_used_by_every_command() -> None:
    """`docker_host:` is part of every engine command, as a flag that wins over variables and contexts (case C37)."""
    socket = "unix:///run/user/1000/docker.sock"
    assert cli(Host("h", docker_host=socket, docker="/opt/d/docker")) == f"/opt/d/docker --host {socket}"
    assert cli(Host("h", docker_host=socket, sudo=True)) == f"sudo -n docker --host {socket}"
    assert cli(Host("h", docker_host=socket, docker="podman", engine="podman")) == f"podman --url {socket}"


def test_context_is_used_by_every_command() -> None:
    """`context:` is part of every engine command."""
    assert cli(Host("h", context="rootless")) == "docker --context rootless"


@pytest.mark.parametrize(
    ("wanted", "programs", "kind"),
    [
        (None, "ssh", OpenSSH),
        (None, "", ParamikoSSH),
        ("paramiko", "ssh", ParamikoSSH),
        ("openssh", "", OpenSSH),
    ],
)
def test_way_to_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Way | None, programs: str, kind: type
) -> None:
    """The system's ssh where there is one, else paramiko; the matrix decides otherwise."""
    for program in programs.split():
        (tmp_path / program).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    transport = over_ssh(Host("h", ssh="h", transport=wanted))
    assert isinstance(transport, kind)
    transport.close()


@pytest.mark.parametrize("environ", [{"DOCKER_HOST": "ssh://peer"}, {"DOCKER_CONTEXT": "peer"}])
def test_local_means_this_machine(environ: dict[str, str]) -> None:
    """A redirected local client is refused instead of loading on another machine (case C54)."""
    with pytest.raises(HostUnfitError, match="DOCKER_"):
        refuse_redirected_client("gpu-main", environ)


@pytest.mark.parametrize("environ", [{}, {"DOCKER_HOST": "unix:///x.sock"}, {"DOCKER_CONTEXT": "default"}])
def test_this_machines_own_engine_is_fine(environ: dict[str, str]) -> None:
    """A socket of this machine (rootless) is no redirection."""
    refuse_redirected_client("gpu-main", environ)


def test_podman_has_variables_of_its_own() -> None:
    """Docker's say nothing to Podman; its own send it elsewhere just so, and ctr knows none."""
    for environ in ({"CONTAINER_HOST": "ssh://peer/run/podman.sock"}, {"CONTAINER_CONNECTION": "peer"}):
        with pytest.raises(HostUnfitError, match="unset CONTAINER_"):
            refuse_redirected_client("gpu-main", environ, "podman")
        refuse_redirected_client("gpu-main", environ)
        refuse_redirected_client("gpu-main", environ, "containerd")
    refuse_redirected_client("gpu-main", {"DOCKER_HOST": "ssh://peer"}, "podman")
