"""What a build does when something is wrong: with the source, with the store, with what was recorded."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.job.conftest import Project


def test_failing_build_shows_its_last_lines(project: Project, tmp_path: Path) -> None:
    """A compile error: exit 13, the compiler's own words, the log's path, nothing recorded."""
    source = tmp_path / "broken"
    subprocess.run(["git", "clone", "-q", str(project.fleet.files.sample), str(source)], check=True)
    server = next((source / "tools" / "server").glob("*.cpp"))
    server.write_text(server.read_text() + "\nint broken( {\n")
    commit = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qam"]
    subprocess.run([*commit, "broken"], check=True)
    images = project.lock()["images"]
    try:
        project.run("lock", "--upgrade", "--source", f"sample={source}")
        done = project.run("build", "--source", f"sample={source}", code=13)
        assert "error: expected" in done.err
        assert "build-sample-" in done.err
        assert project.lock()["images"] == images
    finally:
        project.run("lock", "--upgrade")


@pytest.mark.full
def test_lost_everywhere_is_built_again_and_compared(project: Project) -> None:
    """Store and hosts lost it: the rebuild gives the recorded image; another result is refused with exit 14."""
    config = project.record()["config"]
    for host in ("builder", "classic20", "containerd26"):
        names = project.fleet.ssh(host, "docker images --format '{{.Repository}}:{{.Tag}}'").split()
        ours = [name for name in names if "job-sample" in name]
        project.fleet.ssh(host, f"docker rmi -f {' '.join(ours)}" if ours else "true")
    shutil.rmtree(project.folder / "store")
    assert ": built:" in project.run("build").out
    assert project.record()["config"] == config
    lock = project.folder / "buildmatrix.lock.json"
    before = lock.read_text()
    document = json.loads(before)
    for record in document["images"].values():
        record["config"] = "sha256:" + "0" * 64
    lock.write_text(json.dumps(document))
    try:
        done = project.run("build", code=14)
        assert "recorded 000000000000" in done.err
    finally:
        lock.write_text(before)
    project.run("build")
