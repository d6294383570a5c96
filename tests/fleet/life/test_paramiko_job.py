"""The main job without an ssh program."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from sistership.host.openssh import OpenSSH
from sistership.host.paramiko_ssh import ParamikoSSH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fleet.conftest import Fleet
    from tests.fleet.life.conftest import Project

PEERS = ("classic20", "classic26", "containerd26")


def test_ship_and_verify_as_over_openssh(project: Project) -> None:
    """Probe, ship and verify over paramiko to three engines; both ways then tell the same of every host."""
    config = project.fleet.files.ssh_config
    slow = {f"p-{host}": f"{{ssh: {host}, ssh_config: {config}, transport: paramiko}}" for host in PEERS}
    project.hosts(slow)
    for host in PEERS:
        project.forget(host)
    names = ",".join(slow)
    project.run("ship", "--variant", "sample", "--hosts", names)
    over_paramiko = project.verify(names)
    project.hosts(dict.fromkeys(PEERS, f"{{ssh_config: {config}, transport: openssh}}"))
    over_ssh = project.verify(",".join(PEERS))
    for host in PEERS:
        one, other = over_paramiko[f"p-{host}"], over_ssh[host]
        assert (one["verdict"], one["id"], one["engine"]) == ("ok", other["id"], other["engine"])
        assert other["verdict"] == "ok"


def test_without_an_ssh_program(project: Project, tmp_path: Path) -> None:
    """Where PATH has no ssh, paramiko is taken by itself."""
    project.hosts({"classic26": f"{{ssh_config: {project.fleet.files.ssh_config}}}"})
    found = project.verify("classic26", code=None, environ={"PATH": str(tmp_path)})
    assert found["classic26"]["engine"]["version"].startswith("26.1")


def test_uploads_are_not_quadratic(fleet: Fleet) -> None:
    """300 MB go up at no less than a quarter of OpenSSH's rate, even as one bytes object."""
    data = bytes(300_000_000)

    def seconds(kind: type[OpenSSH | ParamikoSSH], stdin: bytes | Iterator[bytes]) -> float:
        transport = kind("classic26", "classic26", fleet.files.ssh_config)
        try:
            transport.run("true")
            started = time.monotonic()
            assert transport.run("wc -c", stdin=stdin).text.strip() == str(len(data))
            return time.monotonic() - started
        finally:
            transport.close()

    assert seconds(ParamikoSSH, data) < 4 * seconds(OpenSSH, data) + 2
