from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sistership.errors import SourceError
from sistership.matrix.model import Fork
from sistership.recipe import source as rooms
from sistership.recipe.git import environment, git
from sistership.recipe.source import Sources


@pytest.fixture(scope="session")
def made(tmp_path_factory, make):
    """The repositories of `history`, made once."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "fork").mkdir()
    repository = make.repository(folder / "fork")
    repository.git("init", "--quiet", "--initial-branch=main")
    commits = []
    for number in range(12):
        repository.write("a", f"{number}\n")
        commits.append(repository.commit(f"change {number}"))
    repository.git("checkout", "--quiet", "-b", "side", commits[4])
    repository.write("b", "side\n")
    side = repository.commit("side")
    repository.git("checkout", "--quiet", "main")
    repository.git("tag", "light", commits[6])
    repository.git("tag", "-a", "-m", "annotated", "heavy", commits[7])
    repository.git("clone", "--quiet", "--bare", str(repository.folder), str(folder / "bare.git"))
    return folder, commits, side


@pytest.fixture
def history(made, tmp_path):
    """Twelve commits on main and one on another branch, in a clone (`fork`) and a bare repository.

    Gives (the bare repository, commits of main, commit of the other branch).
    """
    folder, commits, side = made
    shutil.copytree(folder / "bare.git", tmp_path / "bare.git")
    shutil.copytree(folder / "fork", tmp_path / "fork")
    return tmp_path / "bare.git", commits, side


@pytest.fixture
def clone(make, tmp_path):
    """The clone beside the bare repository of `history`."""
    return make.repository(tmp_path / "fork")


@pytest.fixture
def remote(monkeypatch):
    """Treat paths as remote addresses, so that the protocol of a server is used."""
    monkeypatch.setattr("sistership.recipe.refs._folder", lambda address: None)


def sources(tmp_path: Path, **local: Path) -> Sources:
    """Sources with a cache of the test's own."""
    return Sources(tmp_path / "cache", local)


def fork(address: Path) -> Fork:
    """A fork at a bare repository."""
    return Fork("fork", f"file://{address}", "https://git.example/fork")


def test_pin_behind_the_tip(history, tmp_path, remote):
    """A commit three behind the tip, without a tag, is fetched by its hash and checked (MISP/misp-docker#197)."""
    bare, commits, _ = history
    got = sources(tmp_path).fetch(fork(bare), commits[-4])
    assert (got.commit, got.number) == (commits[-4], 9)
    assert git("cat-file", "blob", f"{got.commit}:a", repo=got.repo) == b"8\n"
    assert got.date == "2023-11-14T22:22:20Z"


def test_pin_on_another_branch(history, tmp_path, remote):
    """A commit that only another branch has is fetched just the same."""
    bare, _, side = history
    got = sources(tmp_path).fetch(fork(bare), side)
    assert (got.commit, got.number) == (side, 6)


def test_only_one_commit_is_fetched(history, tmp_path, remote):
    """The source cache holds the pin alone; the number still counts the whole history."""
    bare, commits, _ = history
    got = sources(tmp_path).fetch(fork(bare), commits[-1])
    assert git("rev-list", "--count", got.commit, repo=got.repo) == b"1\n"
    assert got.number == 12


def test_history_without_trees(history, tmp_path, remote):
    """The history cache asks for commits only, where the server can leave the rest out."""
    bare, commits, _ = history
    git("config", "uploadpack.allowFilter", "true", repo=bare)
    got = sources(tmp_path).fetch(fork(bare), commits[-1])
    kinds = git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)", repo=got.repo.parent / "history.git")
    assert set(kinds.split()) == {b"commit"}


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize(("name", "index"), [("light", 6), ("heavy", 7), ("main", 11), ("refs/heads/main", 11)])
def test_names_are_resolved(history, tmp_path, name, index, local, monkeypatch):
    """Tags (annotated ones followed) and branches become the commit they mean."""
    bare, commits, _ = history
    if not local:
        monkeypatch.setattr("sistership.recipe.refs._folder", lambda address: None)
    assert sources(tmp_path).resolve(fork(bare), name) == commits[index]


@pytest.mark.parametrize("local", [False, True])
def test_short_hash(history, tmp_path, local, monkeypatch):
    """A short hash is looked up in the history, wherever its commit is."""
    bare, commits, side = history
    if not local:
        monkeypatch.setattr("sistership.recipe.refs._folder", lambda address: None)
    for commit in (commits[2], side):
        assert sources(tmp_path).resolve(fork(bare), commit[:10]) == commit


def test_full_hash_in_capitals(history, tmp_path):
    """Hashes are compared in small letters."""
    bare, commits, _ = history
    assert sources(tmp_path).fetch(fork(bare), commits[0].upper()).commit == commits[0]


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("name", ["nothing", "deadbee", "--upload-pack=x", "0" * 39 + "1"])
def test_unknown(history, tmp_path, name, local, monkeypatch):
    """An unknown ref is an error that names fork, address, ref and what to do."""
    bare, _, _ = history
    if not local:
        monkeypatch.setattr("sistership.recipe.refs._folder", lambda address: None)
    with pytest.raises(SourceError) as raised:
        sources(tmp_path).fetch(fork(bare), name)
    said = str(raised.value)
    assert name in said
    assert "fork" in said
    assert str(bare) in said
    assert raised.value.hint
    assert raised.value.code == 11


def test_tag_and_branch_of_one_name(history, tmp_path, clone):
    """A name that means two commits is refused with both."""
    bare, commits, _ = history
    git("branch", "light", commits[0], repo=bare)
    with pytest.raises(SourceError, match="light is ambiguous") as raised:
        sources(tmp_path).resolve(fork(bare), "light")
    assert commits[0] in str(raised.value)
    assert commits[6] in str(raised.value)


def test_ambiguous_short_hash(repository, tmp_path):
    """A short hash of two commits is refused with both."""
    seen: dict[str, str] = {}
    for number in range(2000):
        commit = repository.git("commit-tree", "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "-m", str(number))
        other = seen.setdefault(commit[:4], commit)
        if other != commit:
            break
        if number == 0:
            repository.git("hash-object", "-t", "tree", "-w", "/dev/null")
    repository.git("branch", "one", commit)
    repository.git("branch", "two", other)
    with pytest.raises(SourceError, match="ambiguous") as raised:
        sources(tmp_path).resolve(Fork("fork", str(repository.folder)), commit[:4])
    assert commit in str(raised.value)
    assert other in str(raised.value)


def test_tag_object_is_no_commit(history, tmp_path, remote):
    """The hash of an annotated tag is refused with the commit it leads to."""
    bare, commits, _ = history
    tag = git("rev-parse", "heavy", repo=bare).decode().strip()
    with pytest.raises(SourceError, match="not a commit") as raised:
        sources(tmp_path).fetch(fork(bare), tag)
    assert commits[7] in str(raised.value)


def test_cached_needs_no_network(history, tmp_path, remote):
    """Once fetched, a pin is there without its source."""
    bare, commits, _ = history
    first = sources(tmp_path).fetch(fork(bare), commits[3])
    bare.rename(bare.with_name("gone"))
    assert sources(tmp_path).fetch(fork(bare), commits[3]) == first
    with pytest.raises(SourceError, match="cannot be fetched"):
        sources(tmp_path).fetch(fork(bare), commits[4])


def test_local_clone_replaces_the_fork(history, clone, tmp_path):
    """`--source FORK=DIR` takes commit and history from a clone, without the fork's address."""
    _, commits, _ = history
    got = sources(tmp_path, fork=clone.folder).fetch(Fork("fork", "https://nowhere.invalid/x"), commits[5])
    assert (got.commit, got.number) == (commits[5], 6)
    assert got.repo != clone.folder


def test_shallow_clone_cannot_count(history, clone, tmp_path):
    """A number from a shallow clone is refused with the command that completes it (ggml-org/llama.cpp#23242)."""
    bare, commits, _ = history
    shallow = tmp_path / "shallow"
    clone.git("clone", "--quiet", "--depth=1", f"file://{bare}", str(shallow))
    here = sources(tmp_path, fork=shallow)
    with pytest.raises(SourceError, match=r"history is cut off[\s\S]*fetch --unshallow"):
        here.fetch(Fork("fork", "x"), commits[-1])
    git("fetch", "--quiet", "--unshallow", repo=shallow)
    assert here.fetch(Fork("fork", "x"), commits[-1]).number == 12


def test_local_clone_that_lacks_the_commit(history, clone, tmp_path):
    """A clone that was not updated is named with the command that updates it."""
    with pytest.raises(SourceError, match=r"has no commit[\s\S]*fetch --all"):
        sources(tmp_path, fork=clone.folder).fetch(Fork("fork", "x"), "1" * 40)


def test_folder_that_is_no_repository(tmp_path):
    """A folder without git is a user's mistake with the folder in the message."""
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceError, match="not a git repository"):
        sources(tmp_path, fork=tmp_path / "plain").fetch(Fork("fork", "x"), "1" * 40)


def test_interrupted_fetch_recovers(history, tmp_path, remote):
    """What a killed fetch leaves behind (locks, half a pack, half a repository) does not stop the next one."""
    bare, commits, _ = history
    here = sources(tmp_path)
    repo = here.fetch(fork(bare), commits[0]).repo
    for name in ("shallow.lock", "config.lock", "packed-refs.lock", f"refs/sistership/{commits[1]}.lock"):
        (repo / name).write_bytes(b"")
    (repo / "objects" / "pack" / "tmp_pack_x").write_bytes(b"PACK")
    (repo.parent / "source.new").mkdir()
    assert here.fetch(fork(bare), commits[1]).number == 2
    (repo / "HEAD").unlink()
    assert here.fetch(fork(bare), commits[2]).number == 3


def test_damaged_cache_is_made_anew(history, tmp_path, remote):
    """A cache whose objects are broken is fetched again."""
    bare, commits, _ = history
    here = sources(tmp_path)
    repo = here.fetch(fork(bare), commits[0]).repo
    for path in (repo / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"broken")
    got = here.fetch(fork(bare), commits[0])
    assert git("cat-file", "blob", f"{got.commit}:a", repo=got.repo) == b"0\n"


def test_killed_in_the_middle(history, tmp_path, remote, monkeypatch):
    """A process that dies during its fetch leaves a cache that the next one completes."""
    bare, commits, _ = history
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from sistership.recipe import refs, source\n"
        "from sistership.matrix.model import Fork\n"
        "refs._folder = lambda address: None\n"
        "source.git = lambda *a, **k: os._exit(9) if a[0] == 'fetch' else source.text(*a, repo=k.get('repo'))\n"
        "source.Sources(Path(sys.argv[1])).fetch(Fork('fork', sys.argv[2]), sys.argv[3])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(rooms.__file__).parents[2])}
    argv = [sys.executable, "-c", script, str(tmp_path / "cache"), f"file://{bare}", commits[3]]
    assert subprocess.run(argv, env=env, check=False).returncode == 9
    assert sources(tmp_path).fetch(fork(bare), commits[3]).number == 4


def test_two_runs_at_once(history, tmp_path, remote):
    """Runs that want the same and different commits share one cache."""
    bare, commits, _ = history
    wanted = [commits[8], commits[8], commits[9], commits[10]]
    got: list[tuple[str, int]] = []

    def run(commit: str) -> None:
        made = sources(tmp_path).fetch(fork(bare), commit)
        got.append((made.commit, made.number))

    threads = [threading.Thread(target=run, args=(commit,)) for commit in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted((commit, commits.index(commit) + 1) for commit in wanted)


def test_server_without_exact_fetch(history, tmp_path, remote, monkeypatch):
    """An old server that gives whole branches only is asked for them, and the pin is taken from there."""
    bare, commits, _ = history
    real = rooms.git

    def refusing(*args, **options):
        if "--depth=1" in args:
            raise rooms.GitError(args, 128, "error: Server does not allow request for unadvertised object x")
        return real(*args, **options)

    monkeypatch.setattr(rooms, "git", refusing)
    assert sources(tmp_path).fetch(fork(bare), commits[2]).number == 3


def test_replaced_objects_are_ignored(history, clone, tmp_path):
    """`git replace` in a clone changes neither the files nor the count."""
    _, commits, _ = history
    clone.git("replace", commits[5], commits[1])
    got = sources(tmp_path, fork=clone.folder).fetch(Fork("fork", "x"), commits[5])
    assert got.number == 6
    assert git("cat-file", "blob", f"{got.commit}:a", repo=got.repo) == b"5\n"


def test_never_asks(monkeypatch, tmp_path):
    """Git runs without questions, whatever the terminal."""
    assert environment()["GIT_TERMINAL_PROMPT"] == "0"
    monkeypatch.setenv("GIT_DIR", "x")
    assert "GIT_DIR" not in environment()


def test_git_missing(monkeypatch, tmp_path):
    """A machine without git gets a sentence."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="git is not installed"):
        git("version")
