"""The sample fork's repository."""

from __future__ import annotations

import subprocess

import pytest

from sistership.fleet import samplerepo


def _git(repo, *args):
    return subprocess.run(["git", "-C", repo, *args], capture_output=True, text=True, check=True, timeout=30).stdout


@pytest.fixture
def content(tmp_path):
    """A small source tree: a script, a folder, odd names, bytes that are no text."""
    root = tmp_path / "content"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a b.cpp").write_text("int main() { return 0; }\n")
    (root / "src" / "deep" / "data.bin").write_bytes(b"commit refs/heads/main\n\x00\xff")
    (root / "CMakeLists.txt").write_text("project(x)\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o644)
    return root


def test_same_content_same_commit(content, tmp_path, monkeypatch):
    """Two repositories made at different times, by different people, from files with other times have one commit."""
    first = samplerepo.make(tmp_path / "one.git", content)
    (content / "CMakeLists.txt").touch()
    monkeypatch.setenv("GIT_AUTHOR_NAME", "someone")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
    assert samplerepo.make(tmp_path / "two.git", content) == first
    assert len(first) == 40


def test_commit_is_a_known_one(tmp_path):
    """The commit of a given content never changes between versions of this project."""
    root = tmp_path / "content"
    root.mkdir()
    (root / "a").write_text("a\n")
    (root / "b").write_text("b\n")
    assert samplerepo.make(tmp_path / "x.git", root) == "bb40ef9eb8d99655996d5359ac9d1c84d65dc580"


def test_checkout_is_the_content(content, tmp_path):
    """What a clone holds is byte for byte the content; a script is executable whatever its mode was."""
    repo = tmp_path / "r.git"
    samplerepo.make(repo, content)
    clone = tmp_path / "clone"
    _git(tmp_path, "clone", "--quiet", repo, clone)
    assert samplerepo.content(clone) == samplerepo.content(content)
    assert (clone / "run.sh").stat().st_mode & 0o100
    assert not (clone / "CMakeLists.txt").stat().st_mode & 0o100


def test_history_counts(content, tmp_path):
    """There is one commit per top-level entry, so a build number is more than one, on branch main."""
    repo = tmp_path / "r.git"
    samplerepo.make(repo, content)
    assert _git(repo, "rev-list", "--count", "main").strip() == "3"
    assert _git(repo, "symbolic-ref", "HEAD").strip() == "refs/heads/main"


def test_again_writes_nothing(content, tmp_path):
    """The same content a second time leaves the repository's objects and branch untouched."""
    repo = tmp_path / "r.git"
    samplerepo.make(repo, content)

    def files():
        # git refreshes the time of objects that it finds again; a rewritten one would be another inode.
        return {path: path.stat().st_ino for path in repo.rglob("*") if path.is_file() and "objects" in path.parts}

    before = files()
    samplerepo.make(repo, content)
    assert files() == before


def test_older_commit_can_still_be_fetched(content, tmp_path):
    """After the content changed, a lock that names the old commit is still served, by its hash and with a filter."""
    repo = tmp_path / "r.git"
    old = samplerepo.make(repo, content)
    (content / "CMakeLists.txt").write_text("project(y)\n")
    assert samplerepo.make(repo, content) != old
    cache = tmp_path / "cache.git"
    _git(tmp_path, "init", "--quiet", "--bare", cache)
    _git(cache, "fetch", "--quiet", "--filter=tree:0", f"file://{repo}", old)
    assert _git(cache, "rev-parse", "FETCH_HEAD").strip() == old


def test_leftovers_are_no_content(content, tmp_path):
    """What an interpreter or a build left in the folder does not change the commit."""
    first = samplerepo.make(tmp_path / "one.git", content)
    for name in ("build", "src/__pycache__"):
        (content / name).mkdir()
        (content / name / "x").write_text("x")
    assert samplerepo.make(tmp_path / "two.git", content) == first


def test_no_sample(tmp_path):
    """Without content no repository is made."""
    assert samplerepo.make(tmp_path / "r.git", tmp_path / "missing") is None
    assert not (tmp_path / "r.git").exists()
