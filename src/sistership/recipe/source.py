"""Where a fork's commits come from: a bare cache per source, filled by exact fetches, never by a branch clone.

    <cache>/git/<hash of the address>/
        source.git    the commits that are built, each fetched by its 40 hex digits at depth 1
        history.git   every commit without its trees, for the build number and short hashes
        numbers/      the build number of each commit that was counted
        lock          held while any of them changes

A build number counts the commit's whole history (`git rev-list --count`), as llama.cpp does; a shallow clone
would say 1 (ggml-org/llama.cpp#23242), so the two repositories are kept apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sistership.errors import SourceError
from sistership.recipe import files
from sistership.recipe.git import GitError, git, text
from sistership.recipe.refs import Origin, commit_of, is_full

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sistership.matrix.model import Fork

_KEPT: Final = "refs/sistership"
#: Old servers give whole branches only.
_NO_EXACT_FETCH: Final = re.compile(r"unadvertised object|does not support", re.IGNORECASE)
_UNKNOWN: Final = re.compile(r"not our ref|couldn't find remote ref|no such remote ref", re.IGNORECASE)
_DAMAGED: Final = re.compile(r"corrupt|bad object|not a git repository|unable to read|index-pack failed", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A commit whose files are at hand.

    Attributes:
        repo: bare git directory that holds the commit with all its trees and blobs.
        commit: 40 hex digits.
        number: commits in its history, itself included.
        date: when it was committed, UTC, as "2026-05-01T10:00:00Z".
    """

    repo: Path
    commit: str
    number: int
    date: str


class Sources:
    """Fetches commits of forks and keeps them.

    Args:
        cache: folder for everything fetched; shared by all projects and safe with several runs at once.
        local: fork name → a local clone that replaces the fork's address (`--source FORK=DIR`).
    """

    def __init__(self, cache: Path, local: Mapping[str, Path] | None = None) -> None:
        self._cache = cache / "git"
        self._local = dict(local or {})

    def origin(self, fork: Fork) -> Origin:
        """Where `fork` is fetched from."""
        return Origin.of(fork, self._local.get(fork.name))

    def resolve(self, fork: Fork, commit: str) -> str:
        """The 40 hex digits of `commit` (a full or short hash, a tag, a branch).

        A full hash costs no look-up. Everything else asks the source, so the lock keeps the answer.

        Raises:
            SourceError: unknown, ambiguous, or the source does not answer.
        """
        if is_full(commit):
            return commit.lower()
        origin = self.origin(fork)
        with self._box(origin) as (box, descriptor), explained(origin, commit):
            return commit_of(origin, commit, lambda: self._all_commits(box, origin, descriptor))

    def fetch(self, fork: Fork, commit: str) -> Source:
        """The commit with its files, build number and date; a commit that is cached needs no network.

        Raises:
            SourceError: it cannot be resolved or fetched, or its history is cut off.
        """
        full = self.resolve(fork, commit)
        origin = self.origin(fork)
        with self._box(origin) as (box, descriptor), explained(origin, full):
            repo = _kept(box / "source.git", full) or self._fetch_exact(box, origin, full, descriptor)
            found = text("rev-parse", "--verify", f"{_KEPT}/{full}^{{commit}}", repo=repo)
            if found != full:
                raise SourceError(
                    f"{full} of fork {origin.fork} is not a commit; it leads to {found}",
                    where=origin.address,
                    hint=f"write commit: {found}",
                )
            number = self._number(box, origin, full, descriptor)
            return Source(repo, full, number, _date(repo, full))

    @contextlib.contextmanager
    def _box(self, origin: Origin) -> Iterator[tuple[Path, int]]:
        box = self._cache / hashlib.sha256(origin.address.encode(errors="surrogateescape")).hexdigest()[:16]
        with files.locked(box) as descriptor:
            yield box, descriptor

    def _fetch_exact(self, box: Path, origin: Origin, commit: str, descriptor: int) -> Path:
        origin.require(commit)
        repo = box / "source.git"
        ref = f"+{commit}:{_KEPT}/{commit}"
        try:
            _fetch(repo, descriptor, "--depth=1", "--", origin.address, ref)
        except GitError as error:
            if not _NO_EXACT_FETCH.search(error.stderr):
                raise
            everything = ("+refs/heads/*:refs/origin/heads/*", "+refs/tags/*:refs/origin/tags/*")
            _fetch(repo, descriptor, "--", origin.address, *everything)
            git("update-ref", f"{_KEPT}/{commit}", commit, repo=repo)
        return repo

    def _number(self, box: Path, origin: Origin, commit: str, descriptor: int) -> int:
        note = box / "numbers" / commit
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(note.read_text())
        repo = origin.folder or self._history(box, origin, commit, descriptor)
        if text("rev-parse", "--is-shallow-repository", repo=repo) == "true":
            raise SourceError(
                f"the build number of {commit} cannot be counted: the history is cut off",
                where=str(origin.folder or origin.address),
                why="a shallow clone counts only the commits it has",
                hint=f"git -C {origin.folder} fetch --unshallow" if origin.folder else "use the complete repository",
            )
        number = int(text("rev-list", "--count", commit, repo=repo))
        files.write_atomic(note, f"{number}\n".encode())
        return number

    @staticmethod
    def _history(box: Path, origin: Origin, commit: str, descriptor: int) -> Path:
        repo = box / "history.git"
        if not _kept(repo, commit):
            _fetch_history(repo, origin, descriptor, f"+{commit}:{_KEPT}/{commit}")
        return repo

    @staticmethod
    def _all_commits(box: Path, origin: Origin, descriptor: int) -> Path:
        """A repository that knows every commit of the source's branches and tags."""
        if origin.folder:
            return origin.folder
        repo = box / "history.git"
        everything = ("+refs/heads/*:refs/origin/heads/*", "+refs/tags/*:refs/origin/tags/*")
        _fetch_history(repo, origin, descriptor, *everything)
        return repo


@contextlib.contextmanager
def explained(origin: Origin, ref: str) -> Iterator[None]:
    """Turn git's failure into a SourceError that names fork, address and ref."""
    try:
        yield
    except GitError as error:
        known = _UNKNOWN.search(error.stderr) is None
        raise SourceError(
            f"{ref} of fork {origin.fork} cannot be fetched" if known else f"fork {origin.fork} has no commit {ref}",
            where=origin.address,
            why=error.reason,
            hint=f"check the address and the network, or use a local clone: --source {origin.fork}=DIR"
            if known
            else "check `commit:` of the variant and `git:` of the fork",
        ) from error


def _kept(repo: Path, commit: str) -> Path | None:
    """`repo` if an earlier fetch completed there: git writes the ref after all its objects."""
    try:
        git("rev-parse", "--verify", "--quiet", f"{_KEPT}/{commit}^{{commit}}", repo=repo)
    except GitError:
        return None
    return repo


def _fetch(repo: Path, descriptor: int, *args: str) -> None:
    """`git fetch` into `repo`, made or cleaned up first; a damaged repository is made anew once."""
    fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", *args)
    _prepare(repo)
    try:
        git(*fetch, repo=repo, keep_open=[descriptor])
    except GitError as error:
        if not _DAMAGED.search(error.stderr) or _UNKNOWN.search(error.stderr):
            raise
        shutil.rmtree(repo)
        _prepare(repo)
        git(*fetch, repo=repo, keep_open=[descriptor])


def _fetch_history(repo: Path, origin: Origin, descriptor: int, *refs: str) -> None:
    _prepare(repo)
    for key, value in (("url", origin.address), ("promisor", "true"), ("partialclonefilter", "tree:0")):
        git("config", f"remote.origin.{key}", value, repo=repo)
    _fetch(repo, descriptor, "--filter=tree:0", "--", "origin", *refs)


def _prepare(repo: Path) -> None:
    """An empty bare repository, or an existing one without the leavings of a killed fetch.

    The caller holds the lock that a running git holds too, so whatever looks busy here belongs to nobody.
    """
    if (repo / "HEAD").is_file():
        for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/pack/*.lock"):
            for left in repo.glob(pattern):
                left.unlink()
        return
    shutil.rmtree(repo, ignore_errors=True)
    fresh = repo.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    git("init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(fresh))
    fresh.rename(repo)


def _date(repo: Path, commit: str) -> str:
    seconds = int(text("log", "-1", "--no-show-signature", "--format=%ct", commit, repo=repo))
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
