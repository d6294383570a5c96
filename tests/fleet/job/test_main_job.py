"""The main job end to end: one build, the same image on three engines, proven."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project


def test_image_is_built_once(project: Project) -> None:
    """A second build starts nothing: no builder run, no new log, the lock unchanged (case D57)."""
    logs = project.folder / "logs"
    before = {path: path.stat().st_mtime_ns for path in logs.glob("build-*.log")}
    lock = (project.folder / "buildmatrix.lock.json").read_bytes()
    assert "already built" in project.run("build", "--variant", "sample").out
    assert {path: path.stat().st_mtime_ns for path in logs.glob("build-*.log")} == before
    assert (project.folder / "buildmatrix.lock.json").read_bytes() == lock


def test_every_engine_shows_the_id_that_was_known_before(project: Project) -> None:
    """IDs come from the lock alone, and each host then shows exactly its own one (case D55)."""
    expected = project.run("plan", "--json").json()["images"][0]["ids"]
    project.run("ship", "--variant", "sample")
    hosts = {host["host"]: host for host in project.verify().json()["hosts"]}
    assert hosts["classic20"]["id"] == hosts["builder"]["id"] == expected["classic"][0]
    assert hosts["containerd26"]["id"] in expected["containerd"]
    assert hosts["classic20"]["engine"]["version"].startswith("20.10")
    assert len({host["engine"]["id"] for host in hosts.values()}) == 3


def test_image_runs_on_every_engine(shipped: Project) -> None:
    """The programs run from the shipped image, report the pinned commit, and the worker has its stable name."""
    commit = shipped.lock()["variants"]["sample"]["commit"]
    for host in ("builder", "classic20", "containerd26"):
        said = shipped.fleet.ssh(host, "docker run --rm --network none job-sample:v1 llama-cli --version 2>&1")
        assert commit[: len(re.findall(r"\(([0-9a-f]+)\)", said)[0])] in said
        usage = shipped.fleet.ssh(host, "docker run --rm --network none job-sample:v1 llama-rpc-worker --help 2>&1")
        assert "--port" in usage


def test_labels_say_what_is_inside(shipped: Project) -> None:
    """OCI labels carry source revision, recipe key, patches (case E66)."""
    locked = shipped.lock()["variants"]["sample"]
    labels = shipped.fleet.ssh("classic20", "docker image inspect -f '{{json .Config.Labels}}' job-sample:v1")
    key = shipped.verify().json()["images"][0]["recipe"]
    for text in (locked["commit"], key, "rpc-zero-byte-tensor.patch"):
        assert text in labels


def test_second_ship_sends_nothing(shipped: Project) -> None:
    """A host that verifies gets no image bytes."""
    out = shipped.run("ship", "--variant", "sample").out
    assert re.findall(r"^(\S+) +0 % +0 B +ok", out, re.MULTILINE) == ["builder", "classic20", "containerd26"]


def test_nothing_is_left_in_the_staging_folder(shipped: Project) -> None:
    """After a ship no staged file remains on any host, and no container of the proof."""
    for host in ("classic20", "containerd26"):
        assert shipped.fleet.ssh(host, "ls ~/.cache/sistership/stage; docker ps -aq") == ""


def test_lost_store_is_filled_from_a_host_that_verifies(shipped: Project) -> None:
    """With the lock but without the store, the image comes back from a host, the same identity, without a build."""
    config = shipped.record()["config"]
    shutil.rmtree(shipped.folder / "store")
    out = shipped.run("build", "--variant", "sample").out
    assert "fetched from builder" in out
    assert shipped.record()["config"] == config
    assert shipped.run("build", "--variant", "sample").out.count("already built") == 1


def test_rendered_folder_stands_on_its_own(project: Project) -> None:
    """`docker build` with the rendered folder makes a runnable image, without sistership."""
    output = project.folder / "rendered"
    shutil.rmtree(output, ignore_errors=True)
    project.run("render", "--variant", "sample", "--output", str(output))
    context = subprocess.run(["tar", "-C", str(output / "sample"), "-c", "."], capture_output=True, check=True).stdout
    project.fleet.ssh("builder", "docker buildx build -q -t standalone:1 -", stdin=context, seconds=280)
    assert "version:" in project.fleet.ssh("builder", "docker run --rm standalone:1 llama-cli --version 2>&1")
    project.fleet.ssh("builder", "docker rmi standalone:1")
