"""The report of a real build, read wherever the image is. Builds that a check ends are in test_checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project

FOREIGN = "printf hello > /tmp/f && tar -C /tmp -c f | docker import - foreign:1 >/dev/null"


def test_every_place_has_the_same_report(shipped: Project) -> None:
    """Store, export, and both kinds of engine store give one report, all ok; no container is left behind."""
    (built,) = shipped.run("check", "sample", "--json").json()["images"]
    assert built["result"] == "ok"
    assert {"programs", "libraries", "instructions", "version"} <= {each["check"] for each in built["checks"]}
    shipped.run("export", "--variant", "sample", "--output", "image.tar")
    for word in ("image.tar", "classic20:sample", "containerd26:job-sample:v1"):
        (found,) = shipped.run("check", word, "--json").json()["images"]
        assert found["checks"] == built["checks"], word
    for host in ("classic20", "containerd26"):
        assert shipped.fleet.ssh(host, "docker ps -aq") == ""


def test_image_of_someone_else(shipped: Project) -> None:
    """An image without a report is exit 15 on either store, one that is not there exit 22."""
    for host in ("classic20", "containerd26"):
        shipped.fleet.ssh(host, FOREIGN)
        try:
            assert "carries no report" in shipped.run("check", f"{host}:foreign:1", code=15).out
        finally:
            shipped.fleet.ssh(host, "docker rmi foreign:1")
        shipped.run("check", f"{host}:foreign:1", code=22)
