"""Reading what the engine of a practice host says of itself."""

from __future__ import annotations

import json

import pytest

from sistership.fleet import engines

CLASSIC = {"ServerVersion": "20.10.24", "Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]]}
CONTAINERD = {
    "ServerVersion": "26.1.5",
    "Driver": "overlayfs",
    "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
}
PODMAN = {"version": {"Version": "5.4.2"}, "store": {"graphDriverName": "overlay"}}
#: As containerd 1.7.24 prints it.
CTR = """Client:
  Version:  1.7.25
  Go version: go1.24.4

Server:
  Version:  1.7.24~ds1
  UUID: e3bcb9ae-f199-4f07-9895-4b637cfb00ea
TYPE                                   ID                       PLATFORMS      STATUS
io.containerd.snapshotter.v1           btrfs                    linux/amd64    skip
io.containerd.snapshotter.v1           overlayfs                linux/amd64    ok
"""


def test_store_is_told_by_the_driver_type():
    """The store comes from DriverStatus, whatever the version."""
    assert engines.engine(CLASSIC) == engines.Engine("20.10.24", "overlay2", "classic")
    assert engines.engine(CONTAINERD) == engines.Engine("26.1.5", "overlayfs", "containerd")
    assert engines.engine({**CONTAINERD, "DriverStatus": None}).store == "classic"


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("docker", json.dumps(CLASSIC), "Docker 20.10.24, classic store (overlay2)"),
        ("podman", json.dumps(PODMAN), "podman 5.4.2 (overlay)"),
        ("containerd", CTR, "containerd 1.7.24~ds1 (overlayfs)"),
        ("containerd", CTR.replace("linux/amd64    ok", "linux/amd64    skip"), "containerd 1.7.24~ds1 (none)"),
        ("docker", json.dumps({"ServerErrors": ["no daemon"]}), "engine: no daemon"),
        ("containerd", "Client:\n  Version:  1.7.24\n", "ctr tells no version"),
        ("podman", "[]", "the engine's answer is '[]'"),
        ("docker", "", "the engine's answer is ''"),
    ],
)
def test_each_kind_is_read(kind, text, shown):
    """What an engine says becomes one line; what is no answer is told as the problem."""
    assert str(engines.read(kind, text)) == shown


@pytest.mark.parametrize("driver", ["vfs", "fuse-overlayfs", "none"])
def test_unreal_drivers_are_refused(driver):
    """A host whose engine copies layers, or stacks them in user space, is no picture of a real one."""
    assert driver in str(engines.unfit(engines.engine({**CLASSIC, "Driver": driver})))
    assert engines.unfit(engines.engine(CLASSIC)) is None
    assert engines.unfit(engines.engine(CONTAINERD)) is None
