"""`buildmatrix.lock.json`: what the matrix resolved to, and what was built. Sorted and stable, to be committed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from sistership.errors import LockError
from sistership.recipe import files
from sistership.recipe.patches import LockedPatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

NAME: Final = "buildmatrix.lock.json"
VERSION: Final = 1


@dataclass(frozen=True)
class LockedVariant:
    """What one variant resolved to.

    Attributes:
        inputs: sha256 over everything in the matrix that decides the resolution; another value means: stale.
        commit: 40 hex digits.
        tree: tree of the patched source, 40 hex digits.
        number: commits in its history.
        date: of the commit, "2026-05-01T10:00:00Z".
        bases: "build" and "runtime" → image reference with `@sha256:…`.
        snapshot: the moment as of which the package stage reads its archive, "20260501T000000Z"; "" where it floats.
        patches: in the order they are applied.
        wants: the parts of the matrix behind it ("git", "commit", "build", "runtime", "snapshot" where there is one),
            to re-lock only what changed.
    """

    inputs: str
    commit: str
    tree: str
    number: int
    date: str
    bases: Mapping[str, str] = field(hash=False)
    patches: tuple[LockedPatch, ...] = ()
    wants: Mapping[str, str] = field(default_factory=dict, hash=False)
    snapshot: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the lock file has it."""
        snapshot = {"snapshot": self.snapshot} if self.snapshot else {}
        return {
            **snapshot,
            "inputs": self.inputs,
            "commit": self.commit,
            "tree": self.tree,
            "number": self.number,
            "date": self.date,
            "bases": dict(self.bases),
            "patches": [{"file": patch.file, "sha256": patch.sha256} for patch in self.patches],
            "wants": dict(self.wants),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LockedVariant:
        """The counterpart of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the value has another shape.
        """
        return cls(
            inputs=_text(value["inputs"]),
            commit=_text(value["commit"]),
            tree=_text(value["tree"]),
            number=int(value["number"]),
            date=_text(value["date"]),
            bases={_text(name): _text(ref) for name, ref in value["bases"].items()},
            patches=tuple(LockedPatch(_text(patch["file"]), _text(patch["sha256"])) for patch in value["patches"]),
            wants={_text(name): _text(part) for name, part in value.get("wants", {}).items()},
            snapshot=_text(value.get("snapshot", "")),
        )


@dataclass(frozen=True)
class Lock:
    """The whole lock. `images` maps a recipe key to its record, plain JSON whose keys the image room knows."""

    variants: Mapping[str, LockedVariant] = field(default_factory=dict, hash=False)
    images: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    def with_variant(self, name: str, locked: LockedVariant) -> Lock:
        """This lock with the variant `name` resolved anew."""
        return replace(self, variants={**self.variants, name: locked})

    def with_image(self, key: str, record: Mapping[str, Any]) -> Lock:
        """This lock with what the recipe `key` made."""
        return replace(self, images={**self.images, key: dict(record)})

    def dumps(self) -> bytes:
        """The file's bytes: sorted keys, two spaces, a newline at the end."""
        value = {
            "version": VERSION,
            "variants": {name: locked.to_json() for name, locked in self.variants.items()},
            "images": {key: dict(record) for key, record in self.images.items()},
        }
        return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def load(path: Path) -> Lock:
    """The lock in `path`; a missing file is an empty lock.

    Raises:
        LockError: it is damaged, or of a newer version; with the line where that is known.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Lock()
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _damaged(f"{path}:{error.lineno}:{error.colno}", error.msg, conflict="<<<<<<<" in text) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    return _lock(path, value)


def save(lock: Lock, path: Path) -> bool:
    """Write `lock` to `path`, whole or not at all; True if the file changed.

    Raises:
        LockError: the folder cannot be written.
    """
    data = lock.dumps()
    try:
        if path.is_file() and path.read_bytes() == data:
            return False
        files.write_atomic(path, data)
    except OSError as error:
        raise LockError("the lock cannot be written", where=str(path), why=error.strerror) from error
    return True


def update(path: Path, change: Callable[[Lock], Lock]) -> Lock:
    """Change the lock in `path` as it is now, so that two runs at once lose nothing of each other; gives the result.

    Raises:
        LockError: it is damaged, or cannot be written.
    """
    try:
        with files.locked(path.parent / ".sistership"):
            lock = change(load(path))
            save(lock, path)
            return lock
    except OSError as error:
        raise LockError("the lock cannot be written", where=str(path), why=error.strerror) from error


def _lock(path: Path, value: Any) -> Lock:
    if not isinstance(value, dict) or not isinstance(value.get("version"), int):
        raise _damaged(path, "it has no version")
    if value["version"] != VERSION:
        raise LockError(
            f"the lock has version {value['version']}, this sistership reads version {VERSION}",
            where=str(path),
            hint="use the sistership that wrote it, or remove the file and run `sistership lock`",
        )
    variants: dict[str, LockedVariant] = {}
    for name, row in value.get("variants", {}).items():
        try:
            variants[name] = LockedVariant.from_json(row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"variant {name}: {type(error).__name__} {error}") from error
    return Lock(variants, value.get("images", {}))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {value!r}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice} occurs twice")
    return found


def _damaged(where: object, why: str, *, conflict: bool = False) -> LockError:
    return LockError(
        "the lock cannot be read",
        where=str(where),
        why="it holds merge conflict markers" if conflict else why,
        hint="restore it from version control, or remove it and run `sistership lock`",
    )
