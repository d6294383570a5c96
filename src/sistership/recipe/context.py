"""The build context as a tar stream: the same bytes for the same recipe.

A folder as context gives stale content with constant times, so the builder gets a tar on its standard input
(measured with Engine 20.10, 26.1 and 28.5). The source comes object by object from git, never from `git archive`,
which would expand `export-subst` and leave out `export-ignore`.
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final

from sistership.recipe.git import Objects, git

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sistership.recipe.recipe import Recipe

#: One constant for every entry (2025-01-01): a time from the commit would change layers whose content did not change.
MTIME: Final = 1_735_689_600
_SYMLINK: Final = "120000"
_SUBMODULE: Final = "160000"
_EXECUTABLE: Final = "100755"


@dataclass(frozen=True)
class Entry:
    """A path of the patched source: git's mode, object, and the path as git spells it."""

    mode: str
    oid: str
    path: str


def write_context(recipe: Recipe, repo: Path, out: BinaryIO) -> None:
    """Write the context of `recipe` to `out`: `Dockerfile`, `sistership/`, `src/`.

    Args:
        recipe: names Dockerfile, scripts and tree.
        repo: git directory that holds the tree.
        out: gets an uncompressed tar; need not be seekable.

    Raises:
        SourceError: the repository lacks an object.
    """
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape") as tar:
        # First, and with a plain header: after a pax header buildx takes the tar for the Dockerfile itself.
        _add_file(tar, "Dockerfile", recipe.dockerfile.encode())
        _add_scripts(tar, recipe.scripts)
        _add_source(tar, entries(repo, recipe.tree), repo)


def write_scripts(recipe: Recipe, out: BinaryIO) -> None:
    """Write a context without the source: `Dockerfile` and `sistership/`, enough for stages that do not copy it."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        _add_file(tar, "Dockerfile", recipe.dockerfile.encode())
        _add_scripts(tar, recipe.scripts)


def entries(repo: Path, tree: str) -> tuple[Entry, ...]:
    """Every file, symlink and submodule of `tree`, sorted by path."""
    rows = git("ls-tree", "-r", "-z", "--full-tree", tree, repo=repo).decode(errors="surrogateescape").split("\0")
    found = []
    for row in filter(None, rows):
        meta, path = row.split("\t", 1)
        mode, _, oid = meta.split(" ")
        found.append(Entry(mode, oid, path))
    return tuple(sorted(found, key=lambda entry: entry.path))


def _add_scripts(tar: tarfile.TarFile, scripts: Mapping[str, bytes]) -> None:
    _add_folder(tar, "sistership")
    for name in sorted(scripts):
        _add_file(tar, f"sistership/{name}", scripts[name], executable=True)


def _add_source(tar: tarfile.TarFile, source: Iterable[Entry], repo: Path) -> None:
    made = {PurePosixPath("src")}
    _add_folder(tar, "src")
    with Objects(repo) as objects:
        for entry in source:
            path = PurePosixPath("src") / entry.path
            for folder in reversed(path.parents[:-1]):
                if folder not in made:
                    made.add(folder)
                    _add_folder(tar, str(folder))
            if entry.mode == _SUBMODULE:
                _add_folder(tar, str(path))  # as a checkout without submodules leaves it
            elif entry.mode == _SYMLINK:
                _add_link(tar, str(path), objects.read(entry.oid).decode(errors="surrogateescape"))
            else:
                _add_file(tar, str(path), objects.read(entry.oid), executable=entry.mode == _EXECUTABLE)


def _header(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.mode, header.mtime = kind, mode, MTIME
    return header


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    tar.addfile(_header(name, tarfile.DIRTYPE, 0o755))


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    header = _header(name, tarfile.SYMTYPE, 0o777)
    header.linkname = target
    tar.addfile(header)


def _add_file(tar: tarfile.TarFile, name: str, data: bytes, *, executable: bool = False) -> None:
    header = _header(name, tarfile.REGTYPE, 0o755 if executable else 0o644)
    header.size = len(data)
    tar.addfile(header, io.BytesIO(data))
