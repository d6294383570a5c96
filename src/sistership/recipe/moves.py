"""What moved between two resolutions of a variant, for people and for pipelines. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sistership.recipe.lock import LockedVariant
    from sistership.recipe.patches import LockedPatch, Patch

_SHORT = 12


@dataclass(frozen=True)
class Move:
    """One thing that is another now.

    Attributes:
        what: "commit", "base build", "base runtime", "snapshot", "patch FILE", "patch order" or "tree".
        old: as it was, in full; None where there was none.
        new: as it is, in full; None where it is gone.
        note: what the values alone do not say: build numbers and dates of commits.
    """

    what: str
    old: str | None
    new: str | None
    note: str = ""

    def __str__(self) -> str:
        """One line for people, digests shortened."""
        note = f" ({self.note})" if self.note else ""
        if self.old is None or self.new is None:
            word, value = ("removed", self.old) if self.new is None else ("added", self.new)
            return f"{self.what} {word}: {short(value or '')}{note}"
        old, new = short(self.old), short(self.new)
        before, middle, digest = new.rpartition("@")
        if middle and old.startswith(before + middle):
            return f"{self.what} {before}: {old.removeprefix(before + middle)} → {digest}{note}"
        return f"{self.what} {old} → {new}{note}"


def short(value: str) -> str:
    """A digest, hash or reference for people: 12 hex digits are enough to see that it is another."""
    head, at, digest = value.rpartition("@sha256:")
    if at:
        return f"{head}@{digest[:_SHORT]}"
    value = value.removeprefix("sha256:")
    return value[:_SHORT] if len(value) in {40, 64} and not set(value) - set("0123456789abcdef") else value


def moved(old: LockedVariant | None, new: LockedVariant) -> tuple[Move, ...]:
    """What is another in `new`; everything, where there was nothing before."""
    return tuple(_moved(old, new))


def _moved(old: LockedVariant | None, new: LockedVariant) -> Iterator[Move]:
    if old is None or old.commit != new.commit:
        was = f"b{old.number} {old.date[:10]} → " if old else ""
        yield Move("commit", old.commit if old else None, new.commit, f"{was}b{new.number} {new.date[:10]}")
    for name in ("build", "runtime"):
        before = old.bases.get(name) if old else None
        if before != new.bases[name]:
            yield Move(f"base {name}", before, new.bases[name])
    if (old.snapshot if old else "") != new.snapshot:
        yield Move("snapshot", (old.snapshot or None) if old else None, new.snapshot or None)
    yield from _patches(old.patches if old else (), new.patches)
    if old is not None and old.tree != new.tree:
        yield Move("tree", old.tree, new.tree)


def _patches(old: Sequence[LockedPatch | Patch], new: Sequence[LockedPatch | Patch]) -> Iterator[Move]:
    before = {patch.file: patch.sha256 for patch in old}
    after = {patch.file: patch.sha256 for patch in new}
    for file in [*before, *(file for file in after if file not in before)]:
        if before.get(file) != after.get(file):
            yield Move(f"patch {file}", before.get(file), after.get(file))
    kept = [file for file in before if file in after]
    if kept != [file for file in after if file in before]:
        yield Move("patch order", ", ".join(before), ", ".join(after))


def asked(locked: LockedVariant, wants: Mapping[str, str], patches: Sequence[Patch]) -> tuple[Move, ...]:
    """What the matrix asks for now and did not when this was locked; needs neither network nor source.

    Args:
        wants: as `recipe.wants_of` gives it.
        patches: the variant's patches as they lie in the project.
    """
    return (*_wanted(locked.wants, wants), *_patches(locked.patches, patches))


def _wanted(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Move]:
    names = {
        "git": "fork",
        "commit": "commit",
        "build": "base build",
        "runtime": "base runtime",
        "snapshot": "snapshot",
    }
    for name, what in names.items():
        if old.get(name) != new.get(name):
            yield Move(what, old.get(name), new.get(name))
