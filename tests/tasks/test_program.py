"""The command line without any host: what it refuses, in which words, with which exit code."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from sistership.tasks.program import program

MATRIX = """\
version: 1
forks:
  upstream: {git: https://example.invalid/llama.cpp}
variants:
  alpha:
    fork: upstream
    commit: 84e908c625fb60992b4cdef8180fb12fa9b4c4bf
    image: alpha
    tag: v1
    backend: cpu
    base: {build: "debian:bookworm", runtime: "debian:bookworm-slim"}
hosts:
  gpu-a: {ssh: gpu-a}
groups:
  workers: [gpu-a]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a small matrix."""
    (tmp_path / "buildmatrix.yaml").write_text(MATRIX)
    return tmp_path


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `sistership WORDS`, in this process: that spares its imports."""
    own = {f"SISTERSHIP_{name}": str(folder / name.lower()) for name in ("STORE", "CACHE", "LOGS")}
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, own),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            program().run(["sistership", *words])
        except SystemExit as end:
            code = int(end.code or 0)
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["shipp"], 2, "shipp"),
        (["ship", "--dry"], 2, "--dry-run"),
        (["--dry", "ship"], 2, "--dry-run"),
        (["ship", "-R"], 2, "--dry-run"),
        (["ship", "--command-timeout", "3"], 2, "no verb here knows"),
        (["verify", "--hosts"], 2, "--hosts needs a value"),
        (["render", "--output", "/dev/null/x", "--variant", "alpha"], 11, "next:"),
        (["ship", "--host", "x"], 2, "--host"),
        (["chekc"], 2, "did you mean check?"),
        (["ship", "--host", "x"], 2, "ship knows no --host\n  next: did you mean --hosts? sistership --help ship"),
        (["check"], 2, "check needs WHAT: built variants"),
        (["diff", "alpha"], 2, "diff needs SECOND: what it is compared with\n  next: sistership --help diff"),
        (["reproduce", "--builder", "gpu-x"], 2, '--builder: no host or group "gpu-x"'),
        (["verify", "--hosts", ""], 2, "empty"),
        (["plan", "--jobs", "0"], 2, "--jobs 0: not a whole number from 1"),
        (["render", "--variant", "alhpa"], 2, "alpha"),
        (["build", "--matrix", "nope.yaml", "--variant", "alpha"], 2, "there is no such file"),
        (["build", "--source", "upstream"], 2, "FORK=DIR"),
        (["build", "--source", "other=."], 2, "no fork of that name"),
        (["build", "--variant", "alpha", "--locked"], 11, "sistership lock"),
        (["ship", "--hosts", "workers"], 11, "sistership build --variant alpha"),
        (["verify", "--variant", "alpha"], 11, "sistership build --variant alpha"),
    ],
)
def test_mistakes_are_told_with_the_next_step(project: Path, words: list[str], code: int, told: str) -> None:
    """Every mistake has its exit code and says what to do; none is a traceback."""
    found, _, err = run(project, *words)
    assert (found, told in err) == (code, True), err


def test_all_matrix_problems_at_once(project: Path) -> None:
    """An invalid matrix is exit 10, with file, line and column of each fault (cases A14, A16)."""
    matrix = project / "buildmatrix.yaml"
    matrix.write_text(MATRIX.replace("commit:", "comit:").replace("ssh: gpu-a", "shs: gpu-a"))
    code, _, err = run(project, "render")
    assert code == 10
    assert "buildmatrix.yaml:7:5:" in err
    assert "buildmatrix.yaml:13:11:" in err
    assert "commit" in err


def test_no_project_here(tmp_path: Path) -> None:
    """Outside a project the error says where a matrix is looked for."""
    code, _, err = run(tmp_path, "plan")
    assert code == 2
    assert "no buildmatrix.yaml here or in a folder above" in err


def test_matrix_is_found_from_below(project: Path) -> None:
    """Verbs work in a folder below the project, as git does."""
    below = project / "a" / "b"
    below.mkdir(parents=True)
    code, out, _ = run(below, "render", "--variant", "alpha")
    assert code == 0
    assert "FROM debian:bookworm" in out


def test_render_needs_no_lock_and_no_network(project: Path) -> None:
    """Printing a Dockerfile works at once and says what is not resolved yet (case E64)."""
    code, out, _ = run(project, "render", "--variant", "alpha")
    assert code == 0
    assert "NOT RESOLVED" in out
    assert "sha256:<not resolved: run sistership lock>" in out
    assert not (project / "buildmatrix.lock.json").exists()


def test_no_single_letter_flags(project: Path) -> None:
    """`-h` can never mean --hosts: no verb has short flags."""
    for verb in ("lock", "render", "build", "plan", "ship", "verify", "fleet.up", "fleet.down", "fleet.status"):
        code, out, _ = run(project, "--help", verb)
        assert code == 0
        flags = [word for line in out.split("Options:")[-1].splitlines() for word in line.split()[:1]]
        assert all(flag.startswith("--") for flag in flags if flag.startswith("-")), verb


def test_short_help_never_ships(project: Path) -> None:
    """`ship -h` shows the verb's help."""
    code, out, _ = run(project, "ship", "-h")
    assert (code, "--hosts=STRING" in out) == (0, True)


def test_damaged_lock_names_the_line(project: Path) -> None:
    """A lock with merge conflict markers is told as such, exit 11."""
    (project / "buildmatrix.lock.json").write_text('{\n<<<<<<< ours\n"version": 1}\n')
    code, _, err = run(project, "verify")
    assert code == 11
    assert "merge conflict" in err


@pytest.mark.parametrize("verb", [["lock", "--dry-run"], ["build", "--dry-run"]])
def test_dry_run_writes_no_lock(project: Path, verb: list[str]) -> None:
    """A dry run resolves and tells, and leaves no lock file behind."""
    source = project / "source"
    source.mkdir()
    git = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    (source / "CMakeLists.txt").write_text("project(x)\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    pinned = MATRIX.replace("84e908c625fb60992b4cdef8180fb12fa9b4c4bf", head)
    pinned = pinned.replace("debian:bookworm-slim", f"debian:bookworm-slim@sha256:{'1' * 64}")
    pinned = pinned.replace('"debian:bookworm"', f'"debian:bookworm@sha256:{"2" * 64}"')
    (project / "buildmatrix.yaml").write_text(pinned)
    code, out, err = run(project, *verb, "--source", f"upstream={source}")
    assert code == 0, err
    assert "alpha" in out
    assert not (project / "buildmatrix.lock.json").exists()
