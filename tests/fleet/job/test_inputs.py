"""What a build was made of is in the lock, and a second build says which of it moved."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fleet.job.conftest import Project


@contextmanager
def older(project: Project) -> Iterator[None]:
    """The lock as if the recorded image had been built with another gcc and with one package fewer."""
    path = project.folder / "buildmatrix.lock.json"
    before = path.read_bytes()
    lock = json.loads(before)
    record = lock["images"][project.verify(code=None).json()["images"][0]["recipe"]]
    record["toolchain"]["gcc"] = "gcc (Debian 1.2.3) 1.2.3"
    del record["packages"]["zlib1g"]
    path.write_text(json.dumps(lock))
    try:
        yield
    finally:
        path.write_bytes(before)


def test_lock_says_what_it_was_built_with(project: Project) -> None:
    """Tools and packages of the stage that compiled, as the stage itself tells them, beside what the recipe fixed."""
    record = project.record()
    assert {"as", "cmake", "g++", "gcc", "ld", "ninja"} <= set(record["toolchain"])
    assert "12.2.0" in record["toolchain"]["gcc"]
    assert {"cmake", "g++-12", "libc6", "ninja-build", "zlib1g"} <= set(record["packages"])
    assert record["packages"]["cmake"].startswith("3.25")
    locked = project.lock()["variants"]["sample"]
    assert record["bases"] == locked["bases"]
    assert record["commit"] == locked["commit"]
    assert record["flags"]["GGML_RPC"] == "ON"
    # Builds that were meant to fail may have left logs of the same name before this one.
    logs = [path.read_text() for path in (project.folder / "logs").glob("build-sample-*.log")]
    assert any("sh /sistership/inputs.sh" in log for log in logs)


def test_same_image_from_other_inputs(project: Project) -> None:
    """Without any cache, compiler cache included, the sample gives one config digest.

    Inputs that moved and changed nothing are told in one line, exit 0; lock and log of the first build stay.
    """
    logs = {path: path.read_bytes() for path in (project.folder / "logs").glob("build-sample-*.log")}
    with older(project):
        lock = (project.folder / "buildmatrix.lock.json").read_bytes()
        out = project.run("reproduce", "--variant", "sample").out
        assert (project.folder / "buildmatrix.lock.json").read_bytes() == lock
    assert out.startswith("same:")
    record = project.record()
    gcc, zlib = record["toolchain"]["gcc"], record["packages"]["zlib1g"]
    moved = f"a tool moved: gcc (Debian 1.2.3) 1.2.3 → {gcc}; a package moved: zlib1g {zlib} is new"
    assert out.splitlines()[1:] == [f"the same although {moved}"]
    assert {path: path.read_bytes() for path in logs} == logs
    assert list((project.folder / "logs").glob("reproduce-sample-*.log"))


@pytest.mark.full
def test_other_image_names_the_input_that_moved(project: Project, tmp_path: Path) -> None:
    """A source that writes the time into a program: exit 14 with layer, file, section, cause and cure.

    The error names the two inputs that moved, none of those that did not, and what else there is.
    """
    source = tmp_path / "clock"
    subprocess.run(["git", "clone", "-q", str(project.fleet.files.sample), str(source)], check=True)
    server = next((source / "tools" / "server").glob("*.cpp"))
    server.write_text(f'{server.read_text()}\nextern "C" const char *made_at() {{ return "at " __TIME__; }}\n')
    commit = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qam"]
    subprocess.run([*commit, "clock"], check=True)
    local = ("--source", f"sample={source}")
    try:
        project.run("lock", "--upgrade", *local)
        project.run("build", *local)
        found = project.run("reproduce", "--variant", "sample", "--json", *local, code=14).json()
        assert found["type"] == "diff"  # one document, although the run fails
        assert "/app/bin/llama-server" in {f"/{each['path'].lstrip('/')}" for each in found["differences"]}
        with older(project):
            done = project.run("reproduce", "--variant", "sample", *local, code=14)
        assert "llama-server" in done.out
        assert ".rodata" in done.out
        why = next(line for line in done.err.splitlines() if "why:" in line)
        assert "a tool moved: gcc (Debian 1.2.3) 1.2.3 → gcc (Debian 12.2.0" in why
        assert "; a package moved: zlib1g " in why
        assert "; besides, " in why
        assert "__TIME__" in why
    finally:
        project.run("lock", "--upgrade")


@pytest.mark.full
def test_diff_tells_two_images_apart(project: Project) -> None:
    """An image compared with itself is the same, exit 0; with another of the lock it differs, exit 14."""
    assert project.run("diff", "sample", "sample").out.startswith("same:")
    keys = list(project.lock()["images"])
    now = project.verify(code=None).json()["images"][0]["recipe"]
    other = next((key for key in keys if key != now), None)
    assert other, "the test before recorded a second image"
    done = project.run("diff", "sample", other[:12], "--json", code=14)
    assert any("llama-server" in str(difference["path"]) for difference in done.json()["differences"])
