"""Two entries of the lock, or two lists of hashes: what can be said without the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from sistership.compare.causes import causes_of
from sistership.compare.layers import LayerSource, differing
from sistership.compare.model import Comparison, Difference, Kind, Side
from sistership.compare.values import leaves
from sistership.image.identity import Image

#: What follows from the build instead of deciding it.
_RESULTS: Final = ("config", "manifest", "manifest_plain", "layers", "files")
#: What decides a build, what explains most first. An entry may lack one: made before it was kept, or not measured.
INPUTS: Final = ("toolchain", "packages", "bases", "snapshot", "patches", "flags", "commit", "tree")


class Moved(NamedTuple):
    """An input that two entries do not share.

    Attributes:
        group: the field of the entry: `packages`.
        name: inside it: `gcc-12`; "" where the field is one value.
        old: the value in A; "" where A has none.
        new: the value in B; "" where B has none.
    """

    group: str
    name: str
    old: str
    new: str

    @property
    def path(self) -> str:
        """Group and name as one."""
        return f"{self.group}.{self.name}" if self.name else self.group


def records(a: Mapping[str, Any], b: Mapping[str, Any], *, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Compare two entries of the lock's `images`: inputs that moved, layers, files by hash.

    Raises:
        LockError: an entry is damaged.
    """
    one, two = Image.from_json(a), Image.from_json(b)
    sides = [Side(name, image.config, image.platform) for name, image in zip(names, (one, two), strict=True)]
    same = (one.config, one.diff_ids, one.platform) == (two.config, two.diff_ids, two.platform)
    found = [*inputs(a, b)]
    files = [*hashes(a.get("files", {}), b.get("files", {}))]
    layers = [] if files else [*_layers(one, two)]
    unread = () if same else ("the bytes: only what the lock says was compared",)
    return Comparison(sides[0], sides[1], same, (*found, *files, *layers), (*unread, *unrecorded(a, b, names)))


def moved(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Moved, ...]:
    """Everything in two entries of the lock that is no result and not the same, what explains most first.

    A field that one entry lacks as a whole is unknown there, and nothing is claimed of it.
    """
    lacking = {name for name in INPUTS if (name in a) != (name in b)}
    left_out = {*_RESULTS, *lacking}
    groups = [*INPUTS, *sorted({*a, *b} - {*INPUTS})]
    return tuple(row for group in groups if group not in left_out for row in _moved(group, a.get(group), b.get(group)))


def inputs(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """What `moved` finds, as differences with causes."""
    for row in moved(a, b):
        detail = f"{row.old or 'nothing'} in A, {row.new or 'nothing'} in B"
        found = Difference(None, "", row.path, Kind.INPUT, detail)
        yield replace(found, causes=causes_of(found))


def unrecorded(a: Mapping[str, Any], b: Mapping[str, Any], names: tuple[str, str] = ("A", "B")) -> tuple[str, ...]:
    """In words: the inputs that could not be compared, since one entry does not have them."""
    lacking = [[name for name in INPUTS if name in there and name not in here] for here, there in ((a, b), (b, a))]
    return tuple(
        f"inputs that {side} does not record: {', '.join(missing)}"
        for side, missing in zip(names, lacking, strict=True)
        if missing
    )


def hashes(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    """Files that differ by their sha256; both map a path to 64 hex digits."""
    for path in sorted({*a, *b}):
        one, two = a.get(path), b.get(path)
        if one is None or two is None:
            yield Difference(None, "", path, Kind.ADDED if one is None else Kind.REMOVED)
        elif one != two:
            yield Difference(None, "", path, Kind.CONTENT, f"sha256 {one[:12]} in A, {two[:12]} in B")


def _moved(group: str, one: Any, two: Any) -> Iterator[Moved]:
    mine, theirs = (leaves(value, group) for value in (one, two))
    for path in sorted({*mine, *theirs}):
        old, new = mine.get(path, ""), theirs.get(path, "")
        if old != new:
            yield Moved(group, path[len(group) + 1 :], old, new)


def _layers(one: Image, two: Image) -> Iterator[Difference]:
    sides = (
        [
            LayerSource(number, layer.created_by, layer.base, layer.diff_id, None)
            for number, layer in enumerate(image.layers, start=1)
        ]
        for image in (one, two)
    )
    for mine, theirs in differing(*sides):
        there = mine or theirs
        if there:
            both = f"{mine.diff_id[7:19]} in A, {theirs.diff_id[7:19]} in B" if mine and theirs else ""
            detail = both or f"{'A' if mine else 'B'} alone has this layer"
            yield Difference(there.number, there.instruction, "", Kind.LAYER, detail)
