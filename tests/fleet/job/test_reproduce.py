"""The same recipe again, from nothing: the same bytes, or the file, the place, the cause and the cure."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.job.conftest import Project


def test_second_build_gives_the_same_image(project: Project) -> None:
    """Without any cache, compiler cache included, the sample gives one config digest; nothing recorded changes."""
    lock = (project.folder / "buildmatrix.lock.json").read_bytes()
    out = project.run("reproduce", "--variant", "sample").out
    assert out.startswith("same:")
    assert (project.folder / "buildmatrix.lock.json").read_bytes() == lock


def test_time_of_the_build_in_a_program_is_found(project: Project, tmp_path: Path) -> None:
    """A source that writes the time into a program: exit 14, naming layer, file, section, cause and cure."""
    source = tmp_path / "clock"
    subprocess.run(["git", "clone", "-q", str(project.fleet.files.sample), str(source)], check=True)
    server = next((source / "tools" / "server").glob("*.cpp"))
    clock = 'extern "C" const char *built_at() { return "at " __DATE__ " " __TIME__; }'
    server.write_text(f"{server.read_text()}\n{clock}\n")
    commit = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qam"]
    subprocess.run([*commit, "clock"], check=True)
    local = ("--source", f"sample={source}")
    try:
        project.run("lock", "--upgrade", *local)
        project.run("build", *local)
        done = project.run("reproduce", "--variant", "sample", "--json", *local, code=14)
        found = json.loads(done.out)  # one document, although the run fails
        assert found["type"] == "diff"
        paths = {difference["path"] for difference in found["differences"]}
        assert "/app/bin/llama-server" in {f"/{path.lstrip('/')}" for path in paths}
        assert "__TIME__" in done.out
        text = project.run("reproduce", "--variant", "sample", *local, code=14)
        assert "llama-server" in text.out
        assert ".rodata" in text.out
    finally:
        project.run("lock", "--upgrade")


def test_diff_tells_two_images_apart(project: Project) -> None:
    """An image compared with itself is the same, exit 0; with another of the lock it differs, exit 14."""
    assert project.run("diff", "sample", "sample").out.startswith("same:")
    keys = list(project.lock()["images"])
    now = project.verify(code=None).json()["images"][0]["recipe"]
    other = next((key for key in keys if key != now), None)
    assert other, "an earlier test recorded a second image"
    done = project.run("diff", "sample", other[:12], "--json", code=14)
    assert any("llama-server" in str(difference["path"]) for difference in done.json()["differences"])
