"""`lock --archive-bases` and `--offline` before anything is fetched: what they refuse, and in which words."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from sistership.tasks.program import program

MATRIX = """\
version: 1
forks: {{own: {{git: {source}}}}}
variants:
  alpha:
    fork: own
    commit: main
    image: alpha
    tag: v1
    backend: cpu
    base: {{build: "debian:bookworm@sha256:{one}", runtime: "debian:bookworm-slim@sha256:{two}"}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project that locks without a network: a local fork, and bases that are pinned."""
    source = tmp_path / "source"
    source.mkdir()
    git = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    (source / "CMakeLists.txt").write_text("project(x)\n")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    text = MATRIX.format(source=source, one="1" * 64, two="2" * 64)
    (tmp_path / "buildmatrix.yaml").write_text(text)
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
    return code, out.getvalue(), err.getvalue()


def test_dry_run_archives_nothing(folder: Path) -> None:
    """It names every base that is not there yet; the store stays empty, and no builder is asked."""
    code, out, err = run(folder, "lock", "--archive-bases", "--dry-run")
    assert code == 0, err
    assert err.count("(linux/amd64): would be archived") == 2
    assert "archived: " not in out
    assert list((folder / "store" / "blobs" / "sha256").iterdir()) == []


def test_offline_takes_what_is_locked(folder: Path) -> None:
    """Without a lock a registry would have to be asked: exit 11, and nothing is resolved."""
    code, _, err = run(folder, "build", "--offline")
    assert code == 11
    assert "not locked yet" in err
    assert not (folder / "buildmatrix.lock.json").exists()


@pytest.mark.parametrize("words", [("build", "--offline"), ("build", "--offline", "--dry-run")])
def test_base_that_is_not_archived(folder: Path, words: tuple[str, ...]) -> None:
    """Exit 11 with the base, its platform and the command that archives it, before the builder is asked anything."""
    assert run(folder, "lock")[0] == 0
    code, out, err = run(folder, *words, "--json")
    assert code == 11, err
    error = json.loads(out.splitlines()[-1])["error"]
    assert error["what"].startswith("the base debian:bookworm@sha256:1111")
    assert error["what"].endswith("(linux/amd64) and 1 more is not in the store")
    assert error["next"] == "where its registry answers: sistership lock --variant alpha --archive-bases"
