"""Reading what an engine says of itself, and giving up in time."""

from __future__ import annotations

import threading

import pytest

from sistership.errors import HostUnfitError
from sistership.fleet import waiting
from sistership.fleet.paths import project_files
from sistership.fleet.process import Stopped
from sistership.fleet.spec import HOSTS

CLASSIC = {"ServerVersion": "20.10.24", "Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}
CONTAINERD = {
    "ServerVersion": "26.1.5",
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
}


class _Container:
    status = "running"

    def reload(self):
        """Nothing changes."""

    def logs(self, tail):
        """What the host said last."""
        return f"failed to start daemon (last {tail} lines)".encode()


def test_store_is_told_by_the_driver_type():
    """The store comes from DriverStatus, whatever the version."""
    assert waiting.engine(CLASSIC) == waiting.Engine("20.10.24", "overlay2", "classic")
    assert waiting.engine(CONTAINERD) == waiting.Engine("26.1.5", "overlayfs", "containerd")
    assert waiting.engine({**CONTAINERD, "DriverStatus": None}).store == "classic"


@pytest.mark.parametrize("driver", ["vfs", "fuse-overlayfs"])
def test_unreal_drivers_are_refused(driver):
    """A host whose engine copies layers, or stacks them in user space, is no picture of a real one."""
    assert driver in str(waiting.unfit(waiting.engine({**CLASSIC, "Driver": driver})))
    assert waiting.unfit(waiting.engine(CLASSIC)) is None
    assert waiting.unfit(waiting.engine(CONTAINERD)) is None


def _wait(monkeypatch, tmp_path, attempt, *, container=None, stop=None, seconds=0.0):
    monkeypatch.setattr(waiting, "_attempt", lambda *_: attempt)
    stop = stop or threading.Event()
    return waiting.until_ready(HOSTS["builder"], container or _Container(), project_files(tmp_path), stop, seconds)


def test_time_out_shows_the_log(monkeypatch, tmp_path):
    """A host that does not come up in time is an error with what it lacked and its last log lines."""
    with pytest.raises(HostUnfitError) as caught:
        _wait(monkeypatch, tmp_path, (None, "exit 255: Connection refused"))
    assert "Connection refused" in str(caught.value)
    assert "failed to start daemon" in str(caught.value)


def test_a_container_that_ended_is_noticed_at_once(monkeypatch, tmp_path):
    """There is no waiting for a host whose container is gone."""
    dead = _Container()
    dead.status = "exited"
    with pytest.raises(HostUnfitError, match="is exited"):
        _wait(monkeypatch, tmp_path, (None, "exit 255"), container=dead, seconds=60)


def test_interrupted(monkeypatch, tmp_path):
    """Waiting ends when the command is stopped."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        _wait(monkeypatch, tmp_path, (None, "exit 255"), stop=stop, seconds=60)
