"""A fork's commit with its patches, as a git tree whose hash is the patched source's identity.

Patches go into a temporary index with `git apply --cached` and come out with `git write-tree`:
a user can repeat it by hand.
`git apply` has no fuzz, yet it accepts any offset, so each hunk's place is proven first (see `place`)
and what git made is compared with what was proven.

A patch file whose every line ends in CRLF came through a checkout with autocrlf; it is read as if it had LF,
so both spellings give the same bytes and the same hash. A patch whose *content* alone holds carriage returns
(for a source file with CRLF line ends) is taken as it is.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sistership import resources
from sistership.errors import PatchError
from sistership.recipe import place
from sistership.recipe.diff import DiffError, FileDiff, lines, parse
from sistership.recipe.git import GitError, git, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sistership.matrix.model import Variant
    from sistership.recipe.source import Source


@dataclass(frozen=True)
class Patch:
    """A patch file: its name in the matrix, and its bytes with LF line ends."""

    file: str
    data: bytes

    @property
    def sha256(self) -> str:
        """64 hex digits, of the normalised bytes."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class LockedPatch:
    """A patch as the lock knows it."""

    file: str
    sha256: str


@dataclass(frozen=True)
class Patched:
    """A patched source: `tree` is the 40 hex digits of the tree in the source's repository."""

    tree: str
    patches: tuple[LockedPatch, ...]


def normalised(data: bytes) -> bytes:
    """The patch with LF line ends, if all its lines end in CRLF; otherwise as it is."""
    rows = lines(data)
    if rows and all(row.endswith(b"\r\n") for row in rows):
        return b"".join(row[:-2] + b"\n" for row in rows)
    return data


def read(file: Path, name: str | None = None) -> Patch:
    """The patch in `file`, to be called `name`.

    Raises:
        PatchError: it is missing or empty.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise PatchError("the patch cannot be read", where=str(file), why=error.strerror) from error
    if not data.strip():
        raise PatchError("the patch is empty", where=str(file), hint="remove it from `patches:` or restore its text")
    return Patch(name or file.name, normalised(data))


def of_variant(project: Path, variant: Variant) -> tuple[Patch, ...]:
    """The variant's patches in the matrix's order: the project's own, else those that come with sistership.

    Raises:
        PatchError: one is missing or empty.
    """
    found: list[Patch] = []
    for ref in variant.patches:
        name = f"{variant.fork}/{ref.file}"
        path = resources.find(project, "patches", name)
        if path is None:
            raise PatchError(
                f"variant {variant.name} wants patches/{name}, which does not exist",
                where=variant.where or None,
                hint=f"put it at {project / 'patches' / name}",
            )
        found.append(read(path, ref.file))
    return tuple(found)


def apply(source: Source, patches: Sequence[Patch | Path]) -> Patched:
    """Apply `patches` in order to `source`'s commit, each on top of the one before.

    The objects of the result are written into `source.repo`; nothing there is moved or checked out.

    Raises:
        PatchError: names patch, file, hunk and commit; says whether the change is in the source already.
    """
    ready = [patch if isinstance(patch, Patch) else read(patch) for patch in patches]
    with tempfile.TemporaryDirectory(prefix="sistership-index-") as folder:
        index = _Index(source.repo, Path(folder) / "index")
        index.git("read-tree", source.commit)
        for patch in ready:
            _apply_one(index, patch, source.commit)
        tree = index.git("write-tree").decode().strip()
    return Patched(tree, tuple(LockedPatch(patch.file, patch.sha256) for patch in ready))


class _Index:
    """A temporary index over a bare repository."""

    def __init__(self, repo: Path, file: Path) -> None:
        self._repo = repo
        self._env = {"GIT_INDEX_FILE": str(file)}

    def git(self, *args: str, stdin: bytes | None = None) -> bytes:
        return git(*args, repo=self._repo, stdin=stdin, env=self._env)

    def read(self, path: bytes) -> bytes | None:
        """The file's bytes as the index has them now, or None."""
        entry = text("ls-files", "--stage", "-z", "--", _literal(path), repo=self._repo, env=self._env)
        if not entry:
            return None
        _, oid, _ = entry.split("\t", 1)[0].split(" ")
        return self.git("cat-file", "blob", oid)


def _literal(path: bytes) -> str:
    return ":(top,literal)" + path.decode(errors="surrogateescape")


def _apply_one(index: _Index, patch: Patch, commit: str) -> None:
    diffs = _parsed(patch, commit)
    expected = place.apply(diffs, index.read)
    if isinstance(expected, place.Misfit):
        raise _misfit(patch, commit, diffs, expected, index.read)
    try:
        index.git("apply", "--cached", "--whitespace=nowarn", "-p1", "-", stdin=patch.data)
    except GitError as error:
        raise PatchError(
            f"{patch.file} does not apply to {commit}", where=diffs[0].name, why=error.reason, hint=_hint(patch)
        ) from error
    for path, data in expected.items():
        if index.read(path) != data:
            raise PatchError(
                f"{patch.file} was put elsewhere by git than its hunks say, in {commit}",
                where=path.decode(errors="replace"),
                why="its lines have more than one place",
                hint=_hint(patch),
            )


def _parsed(patch: Patch, commit: str) -> tuple[FileDiff, ...]:
    try:
        return parse(patch.data)
    except DiffError as error:
        raise PatchError(
            f"{patch.file} cannot be applied to {commit}",
            where=patch.file,
            why=str(error),
            hint="make it anew with `git diff` or `git format-patch`",
        ) from error


def _misfit(
    patch: Patch,
    commit: str,
    diffs: tuple[FileDiff, ...],
    misfit: place.Misfit,
    reader: Callable[[bytes], bytes | None],
) -> PatchError:
    if place.contained(diffs, reader):
        return PatchError(
            f"{patch.file} is already in the source at {commit}",
            where=misfit.file,
            why="every line it would make is there",
            hint="take it out of the variant's `patches:`",
        )
    return PatchError(f"{patch.file} does not apply to {commit}", where=misfit.file, why=str(misfit), hint=_hint(patch))


def _hint(patch: Patch) -> str:
    return f"make {patch.file} anew for this commit, or pin the commit it was made for"
