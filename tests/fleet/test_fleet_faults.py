"""Each fault does what it says, and is mended afterwards."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sistership import fleet as practice
from sistership.errors import HostUnfitError
from sistership.fleet import faults, lifecycle

HOST = "classic20"

pytestmark = pytest.mark.timeout(300)


def _ssh(fleet, command="true"):
    return subprocess.run(
        ["ssh", "-F", fleet.files.ssh_config, "-o", "BatchMode=yes", "-o", "ConnectTimeout=2", HOST, command],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def _works(fleet):
    return _ssh(fleet, "docker version").returncode == 0


def test_cut_and_mended(fleet):
    """A cut host answers nothing, yet can still be looked into; afterwards it answers."""
    with faults.cut(HOST):
        assert "timed out" in _ssh(fleet).stderr
        assert faults.run(HOST, ["hostname"]) == f"{HOST}\n"
    assert _works(fleet)


def test_powered_off_and_on(fleet):
    """A host that is off is seen as off; it comes back with its engine and its images."""
    fleet.ssh(HOST, "tar c -T /dev/null | docker import - fleet-test-kept:1")
    try:
        with faults.powered_off(HOST, fleet.project):
            assert _ssh(fleet).returncode == 255
            assert {s.name: s.state for s in practice.status()}[HOST] == "exited"
            with pytest.raises(HostUnfitError, match="exited"):
                faults.run(HOST, ["true"])
        assert "fleet-test-kept" in fleet.ssh(HOST, "docker images")
    finally:
        fleet.ssh(HOST, "docker rmi -f fleet-test-kept:1")


def test_without_engine(fleet):
    """With dockerd dead the host still takes logins, and the engine comes back."""
    with faults.without_engine(HOST):
        done = _ssh(fleet, "docker version")
        assert (done.returncode, "Cannot connect to the Docker daemon" in done.stderr) == (1, True)
    assert _works(fleet)


def test_without_sshd(fleet):
    """With sshd dead connections are refused while the engine runs on."""
    with faults.without_sshd(HOST):
        assert "refused" in _ssh(fleet).stderr
        faults.run(HOST, ["docker", "version"])
    assert _works(fleet)


def test_small_disk(fleet):
    """A small disk takes what fits, refuses the rest, and is gone afterwards."""
    with faults.small_disk(HOST, "/root/fleet-test-disk", 1 << 20):
        done = _ssh(fleet, "dd if=/dev/zero of=/root/fleet-test-disk/f bs=1M count=2")
        assert "No space left on device" in done.stderr
    assert not fleet.ssh(HOST, "ls /root/fleet-test-disk; rmdir /root/fleet-test-disk")


def test_stand_in(fleet):
    """A program is what the test says, for logins too, and itself again afterwards; quotes arrive as they are."""
    faults.stand_in(HOST, "sha256sum", "#!/bin/sh\nprintf '%s' \"$1 it's me\"\n")
    try:
        assert fleet.ssh(HOST, "sha256sum --version") == "--version it's me"
    finally:
        faults.honest(HOST)
    assert "coreutils" in fleet.ssh(HOST, "sha256sum --version")


def test_shaped(fleet):
    """At 100 Mbit/s ten megabytes take their 0.8 s, and far less when the shaper is gone."""
    data = bytes(10_000_000)

    def seconds():
        start = time.monotonic()
        fleet.ssh(HOST, "cat >/dev/null", stdin=data)
        return time.monotonic() - start

    with faults.shaped(HOST, "100mbit"):
        slow = seconds()
    assert slow > 0.75
    assert seconds() < slow


def test_a_fault_is_mended_when_the_body_fails(fleet):
    """An exception inside a fault does not leave the host broken."""
    with pytest.raises(ZeroDivisionError), faults.cut(HOST):
        _ = 1 / 0
    assert _works(fleet)


def test_run_is_bounded(fleet):
    """A command inside a host that hangs is ended."""
    start = time.monotonic()
    with pytest.raises(HostUnfitError, match="124"):
        faults.run(HOST, ["sleep", "60"], seconds=1)
    assert time.monotonic() - start < 10


@pytest.mark.full
def test_run_loses_nothing(fleet):
    """What a command prints arrives, however short it is and however many run at once."""
    with ThreadPoolExecutor(12) as pool:
        said = list(pool.map(lambda _: faults.run(HOST, ["echo", "out"]), range(150)))
    assert set(said) == {"out\n"}


def test_up_mends_a_host_whose_engine_died(fleet, monkeypatch):
    """`up` restarts a running host that does not answer; others stay as they are."""
    monkeypatch.setattr(lifecycle, "MENDING", 5.0)
    faults.run(HOST, ["sh", "-c", "kill -KILL $(cat /run/docker.pid)"])
    said: list[str] = []
    practice.up(fleet.project, report=said.append)
    assert any(line.startswith(f"{HOST}: restarting") for line in said)
    assert not any(line.startswith("builder: re") for line in said)
    assert _works(fleet)


def test_two_ups_at_once(fleet):
    """A second `up` waits for the first; both end well."""
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: practice.up(fleet.project), range(2)))
    assert [len(states) for states in done] == [4, 4]
