"""What `verify --expect FILE` measures hosts by: exports, an identity, or a lock from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sistership.errors import LockError, SistershipError, UsageError
from sistership.image import disk
from sistership.image.exchange import is_archive
from sistership.image.exported import KIND, of_document
from sistership.image.imports import opened
from sistership.image.release import Release
from sistership.recipe import lock as locks
from sistership.recipe.recipe import recipe_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sistership.matrix.model import Matrix
    from sistership.recipe.lock import Lock


def expected(path: Path, matrix: Matrix, variants: Sequence[str] | None = None) -> tuple[Release, ...]:
    """What hosts should hold, from a file that came from elsewhere.

    Args:
        path: an export, its `sistership.json`, a lock file, or a folder of exports.
        matrix: tells which of several images of a foreign lock is meant.
        variants: names to keep; None keeps all.

    Raises:
        UsageError: the file is none of these, or holds nothing of these variants.
        LockError: a lock that is damaged, or whose images cannot be told apart.
        SistershipError: an export or identity that is damaged.
    """
    files = sorted(path.glob("*.tar")) if path.is_dir() else [path]
    releases = [release for file in files for release in _releases(file, matrix, variants)]
    _refuse_two(path, releases)
    kept = tuple(each for each in releases if variants is None or each.variant in variants)
    if not kept:
        held = ", ".join(sorted({each.variant for each in releases})) or "no image at all"
        raise UsageError(f"--expect {path}: it holds nothing of that variant", why=f"it holds {held}")
    return kept


def _refuse_two(path: Path, releases: Sequence[Release]) -> None:
    seen: dict[tuple[str, str], Release] = {}
    for each in releases:
        other = seen.setdefault((each.variant, each.image.platform), each)
        if other.image.config != each.image.config:
            raise UsageError(
                f"--expect {path}: it holds two images of {each.variant} for {each.image.platform}",
                why=f"config {other.image.config[7:19]} and {each.image.config[7:19]}",
                hint="name the one file that is meant",
            )


def _releases(path: Path, matrix: Matrix, variants: Sequence[str] | None) -> tuple[Release, ...]:
    if not path.is_file():
        raise UsageError(f"--expect {path}: there is no such file")
    if is_archive(path):
        return (_of_export(path),)
    with disk.explained(path, "the file cannot be read"):
        data = path.read_bytes()
    try:
        value: Any = json.loads(data)
    except ValueError as error:
        raise _unknown(path) from error
    if isinstance(value, dict) and value.get("kind") == KIND:
        return (of_document(value, str(path)).release,)
    if isinstance(value, dict) and "images" in value:
        return releases_of(locks.load(path), path, matrix, variants)
    raise _unknown(path)


def _of_export(path: Path) -> Release:
    """The image of an export; config and manifests are checked, its layers are not read."""
    with opened(path) as export:
        fields = export.check_documents()
        return Release.from_record(export.exported.key, export.exported.record, fields)


def releases_of(lock: Lock, path: Path, matrix: Matrix, variants: Sequence[str] | None = None) -> tuple[Release, ...]:
    """One release per variant and platform of a foreign lock.

    Where the lock holds several images of one variant and platform, this project's matrix with that lock's
    resolution says which is meant.

    Args:
        path: of the lock, for messages.
        variants: names to look at; None looks at all.

    Raises:
        LockError: it does not say.
    """
    found: dict[tuple[str, str], list[Release]] = {}
    for key, record in lock.images.items():
        try:
            release = Release.from_record(key, record)
        except (KeyError, TypeError, AttributeError) as error:
            raise LockError(f"the image {key[:12]} is damaged", where=str(path), why=str(error)) from error
        if variants is None or release.variant in variants:
            found.setdefault((release.variant, release.image.platform), []).append(release)
    return tuple(_the_one(each, lock, path, matrix) for _, each in sorted(found.items()))


def _the_one(releases: list[Release], lock: Lock, path: Path, matrix: Matrix) -> Release:
    if len(releases) == 1:
        return releases[0]
    name, platform = releases[0].variant, releases[0].image.platform
    variant, locked = matrix.variants.get(name), lock.variants.get(name)
    key = recipe_of(matrix, variant, platform, locked).key if variant and locked else None
    for release in releases:
        if release.key == key:
            return release
    raise LockError(
        f"the lock holds {len(releases)} images of {name} for {platform}, and which is meant is not known here",
        where=str(path),
        why="none of them is what this project's matrix asks for with that lock",
        hint="take the export or its sistership.json instead: it holds one image",
    )


def _unknown(path: Path) -> SistershipError:
    return UsageError(
        f"--expect {path}: neither an export, nor its sistership.json, nor a lock",
        hint="sistership export --variant NAME --output FILE makes one",
    )
