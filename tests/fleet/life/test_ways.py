"""ssh configurations as people have them: the machine that `ssh` would reach, or a refusal that names the directive."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership.errors import HostUnreachableError
from sistership.fleet import faults
from sistership.host.openssh import OpenSSH
from sistership.host.paramiko_ssh import ParamikoSSH

if TYPE_CHECKING:
    from tests.fleet.life.conftest import Life, Project

HOST = "classic26"
WAYS = ("openssh", "paramiko")
KINDS = {"openssh": OpenSSH, "paramiko": ParamikoSSH}


def row(config: Path, way: str, more: str = "") -> str:
    """A host of the matrix."""
    return f"{{ssh_config: {config}, transport: {way}{', ' if more else ''}{more}}}"


@pytest.mark.parametrize("way", WAYS)
def test_include_match_jump_and_ipv6(shipped: Project, life: Life, tmp_path: Path, way: str) -> None:
    """An included file, a Match block and a jump host lead to an IPv6 address behind it (cases C43, C47)."""
    jump = life.alias("plain", name="edge")
    (tmp_path / "jumps.conf").write_text(jump)
    inner = life.alias("plain", name="inner", address="::1").replace(f"    Port {2222}\n", "")
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path}/jumps.conf\nMatch originalhost inner user plain\n    Port 1\n"
        f"Match originalhost inner\n    ProxyJump edge\n    Port 2222\n{inner}"
    )
    shipped.hosts({"inner": row(config, way)})
    assert shipped.verify("inner")["inner"]["verdict"] == "ok"
    transport = KINDS[way]("inner", "inner", config)
    try:
        assert transport.run("echo $SSH_CONNECTION").text.split()[2] == "::1"
    finally:
        transport.close()


@pytest.fixture
def agent(life: Life) -> Iterator[Path]:
    """An agent at a socket of its own that holds our key."""
    path = Path(f"/tmp/sship-life-{os.getpid()}")
    path.unlink(missing_ok=True)
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    while not path.exists():
        time.sleep(0.01)
    environ = {**os.environ, "SSH_AUTH_SOCK": str(path)}
    subprocess.run(["ssh-add", "-q", str(life.key)], env=environ, check=True, capture_output=True)
    yield path
    process.terminate()
    process.wait(5)
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("way", WAYS)
def test_key_in_an_agent_alone(shipped: Project, life: Life, tmp_path: Path, agent: Path, way: str) -> None:
    """IdentityAgent in ssh_config is enough, without SSH_AUTH_SOCK and without a key file (case C45)."""
    config = tmp_path / "config"
    config.write_text(f"IdentityAgent {agent}\n" + life.alias("plain", key=tmp_path / "nothing").replace("yes", "no"))
    shipped.hosts({"plain": row(config, way)})
    assert shipped.verify("plain", environ={"SSH_AUTH_SOCK": ""})["plain"]["verdict"] == "ok"


def test_control_path_that_would_be_too_long(shipped: Project, life: Life, tmp_path: Path) -> None:
    """Neither the user's own ControlPath nor a long TMPDIR makes a ship fail (case C50)."""
    long = Path("/tmp") / f"sship-{'x' * 90}"
    long.mkdir(exist_ok=True)
    config = life.config(f"ControlMaster auto\nControlPath {tmp_path}/{'y' * 120}-%r@%h:%p\n")
    shipped.hosts({"plain": row(config, "openssh")})
    try:
        assert shipped.verify("plain", environ={"TMPDIR": str(long)})["plain"]["verdict"] == "ok"
        assert list(long.iterdir()) == []
    finally:
        long.rmdir()


@pytest.mark.parametrize("way", WAYS)
def test_changed_host_key(shipped: Project, life: Life, tmp_path: Path, way: str) -> None:
    """Another key than the known one: both fingerprints, exit 20, known_hosts untouched, others ok (case C49)."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    other = (tmp_path / "other.pub").read_text()
    known = tmp_path / "known_hosts"
    known.write_text(f"[{life.address}]:2222 {other}")
    config = tmp_path / "config"
    config.write_text(life.alias("plain", known=known))
    shipped.hosts({"plain": row(config, way), "fish": row(life.config(), way)})
    found = shipped.verify("plain,fish", code=20)
    assert (found["plain"]["verdict"], found["fish"]["verdict"]) == ("unreachable", "ok")
    assert "host key changed; nothing was sent" in found["plain"]["why"]
    assert len(set(re.findall(r"SHA256:[A-Za-z0-9+/]{43}", found["plain"]["why"]))) == 2
    assert "ssh-keygen" in found["plain"]["next"]
    assert known.read_text() == f"[{life.address}]:2222 {other}"


def test_paramiko_refuses_what_it_cannot_honour(shipped: Project, life: Life, tmp_path: Path) -> None:
    """A ProxyCommand works with ssh; without it the host is refused by the directive's name, the other host is ok."""
    config = tmp_path / "config"
    config.write_text(
        "Match originalhost plain\n    ProxyCommand bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'\n"
    )
    config.write_text(config.read_text() + life.alias("plain"))
    rows = {"plain": row(config, "paramiko"), "fish": row(life.config(), "paramiko")}
    shipped.hosts({**rows, "same": row(config, "openssh", "ssh: plain")})
    found = shipped.verify("plain,fish,same", code=21)
    assert {name: host["verdict"] for name, host in found.items()} == {"plain": "not fit", "fish": "ok", "same": "ok"}
    assert "ProxyCommand in its ssh configuration" in found["plain"]["why"]
    assert f"{config}:2" in found["plain"]["why"]


@pytest.mark.parametrize("way", WAYS)
def test_docker_off_the_path(shipped: Project, life: Life, way: str) -> None:
    """A docker command that no PATH leads to is named in the refusal's cure; with its path the host verifies."""
    config = life.config()
    shipped.hosts({"plain": row(config, way), "fish": row(config, way, "docker: /opt/life/bin/docker")})
    faults.run(HOST, ["sh", "-c", "mkdir -p /opt/life/bin && mv /usr/bin/docker /opt/life/bin/docker"])
    try:
        found = shipped.verify("plain,fish", code=21)
    finally:
        faults.run(HOST, ["mv", "/opt/life/bin/docker", "/usr/bin/docker"])
    assert {name: host["verdict"] for name, host in found.items()} == {"plain": "not fit", "fish": "ok"}
    assert "docker: /path/to/docker" in found["plain"]["next"]


@pytest.mark.parametrize("way", WAYS)
def test_session_that_dies_in_the_middle(life: Life, way: str) -> None:
    """When the host's sshd kills the session the script fails as cut, at once; the next script connects anew."""
    transport = KINDS[way]("noisy", "noisy", life.config())
    try:
        transport.run("true")
        kill = threading.Timer(0.5, faults.run, (HOST, ["sh", "-c", "pkill -KILL -u noisy sshd; true"]))
        kill.start()
        started = time.monotonic()
        with pytest.raises(HostUnreachableError) as caught:
            transport.run("echo begun; sleep 60", stdin=None)
        kill.join()
        assert caught.value.what == "the connection was cut"
        assert time.monotonic() - started < 20
        assert transport.run("echo again").text == "again\n"
    finally:
        transport.close()
