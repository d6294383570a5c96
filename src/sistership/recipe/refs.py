"""What `commit:` of a variant may be, and which commit that is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from sistership.errors import SourceError
from sistership.recipe.git import GitError, git

if TYPE_CHECKING:
    from collections.abc import Callable

    from sistership.matrix.model import Fork

_FULL: Final = re.compile(r"[0-9a-fA-F]{40}")
#: Git itself takes no fewer than four digits.
_SHORT: Final = re.compile(r"[0-9a-fA-F]{4,39}")
_LISTED: Final = 4


def is_full(commit: str) -> bool:
    """Whether `commit` is a complete hash, which nothing can move."""
    return _FULL.fullmatch(commit) is not None


@dataclass(frozen=True)
class Origin:
    """Where a fork's commits come from.

    Attributes:
        fork: its name in the matrix.
        address: what git is given: a URL, or the absolute path of a local repository.
        folder: that path, if it is local.
    """

    fork: str
    address: str
    folder: Path | None = None

    @classmethod
    def of(cls, fork: Fork, local: Path | None = None) -> Origin:
        """The origin of `fork`, replaced by the clone in `local` where one is given.

        Raises:
            SourceError: the folder is missing or holds no git repository.
        """
        folder = local or _folder(fork.git)
        if folder is None:
            return cls(fork.name, fork.git)
        folder = folder.expanduser().absolute()
        try:
            git("rev-parse", "--git-dir", repo=folder)
        except GitError as error:
            raise SourceError(
                f"the source of fork {fork.name} is not a git repository that can be read",
                where=str(folder),
                why=error.reason,
                hint=f"--source {fork.name}=DIR wants a clone" if local else "check `git:` of the fork",
            ) from error
        return cls(fork.name, str(folder), folder)

    def require(self, commit: str) -> None:
        """Raise SourceError if a local repository lacks `commit`; a remote one says so itself."""
        if self.folder is None:
            return
        try:
            git("cat-file", "-e", f"{commit}^{{commit}}", repo=self.folder, env={"GIT_NO_LAZY_FETCH": "1"})
        except GitError as error:
            raise SourceError(
                f"fork {self.fork} has no commit {commit}",
                where=str(self.folder),
                why="the local repository was not fetched since, or it is a clone of something else",
                hint=f"git -C {self.folder} fetch --all --tags",
            ) from error


def _folder(address: str) -> Path | None:
    if address.startswith("file://"):
        return Path(unquote(urlsplit(address).path))
    return Path(address) if address.startswith(("/", "./", "../", "~")) else None


def commit_of(origin: Origin, name: str, history: Callable[[], Path]) -> str:
    """The commit that `name` (tag, branch, full ref name, short hash) means at `origin` now.

    Args:
        origin: asked with `git ls-remote`.
        name: as written in the matrix.
        history: gives a repository that knows all commits; called only if no ref has that name.

    Raises:
        SourceError: nothing or more than one commit has that name.
        GitError: the origin does not answer.
    """
    refs = _refs(origin, name)
    if len(set(refs.values())) > 1:
        raise _ambiguous(origin, name, tuple(f"{ref} is {commit}" for ref, commit in refs.items()))
    if refs:
        return next(iter(refs.values()))
    found = _by_prefix(history(), name.lower()) if _SHORT.fullmatch(name) else ()
    if len(found) > 1:
        raise _ambiguous(origin, name, found)
    if not found:
        raise SourceError(
            f"fork {origin.fork} has no commit, tag or branch {name}",
            where=origin.address,
            why="a short hash is looked up in the branches and tags only" if _SHORT.fullmatch(name) else None,
            hint="write the commit's 40 hex digits",
        )
    return found[0]


def _refs(origin: Origin, name: str) -> dict[str, str]:
    """Ref name → commit, for the refs that `name` may mean; annotated tags are followed."""
    if name == "HEAD" or name.startswith("refs/"):
        wanted = [name]
    else:
        wanted = [f"refs/tags/{name}", f"refs/heads/{name}"]
        wanted += [f"refs/remotes/origin/{name}"] if origin.folder else []
    listing = git("ls-remote", "--", origin.address, *wanted, *(f"{ref}^{{}}" for ref in wanted)).decode()
    found = {ref: oid for oid, ref in (line.split("\t", 1) for line in listing.splitlines())}
    refs = {ref: found.get(f"{ref}^{{}}", found[ref]) for ref in wanted if ref in found}
    if f"refs/heads/{name}" in refs:  # a clone's own branch stands before what it last saw of its remote
        refs.pop(f"refs/remotes/origin/{name}", None)
    return refs


def _by_prefix(repo: Path, prefix: str) -> tuple[str, ...]:
    try:
        listed = git("rev-parse", f"--disambiguate={prefix}", repo=repo)
    except GitError:
        return ()
    local_only = {"GIT_NO_LAZY_FETCH": "1"}
    checked = git("cat-file", "--batch-check=%(objectname) %(objecttype)", repo=repo, stdin=listed, env=local_only)
    rows = (line.split() for line in checked.decode().splitlines())
    return tuple(row[0] for row in rows if row[1] == "commit")


def _ambiguous(origin: Origin, name: str, found: tuple[str, ...]) -> SourceError:
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return SourceError(
        f"{name} is ambiguous in fork {origin.fork}",
        where=origin.address,
        why=", ".join(found[:_LISTED]) + more,
        hint="write the commit's 40 hex digits",
    )
