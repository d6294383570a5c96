"""Two entries of the lock, or two lists of hashes: what can be said without the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from sistership.compare.causes import causes_of
from sistership.compare.layers import LayerSource, differing
from sistership.compare.model import Comparison, Difference, Kind, Side
from sistership.compare.values import leaves
from sistership.image.identity import Image

#: What follows from the build instead of deciding it.
_RESULTS: Final = ("config", "manifest", "manifest_plain", "layers", "files")


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
    return Comparison(sides[0], sides[1], same, (*found, *files, *layers), unread)


def inputs(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """Everything in two entries of the lock that is no result: commit, toolchain, packages, archs."""
    mine, theirs = (leaves({key: value for key, value in side.items() if key not in _RESULTS}) for side in (a, b))
    for name in sorted({*mine, *theirs}):
        one, two = mine.get(name, "nothing"), theirs.get(name, "nothing")
        if one != two:
            found = Difference(None, "", name, Kind.INPUT, f"{one} in A, {two} in B")
            yield replace(found, causes=causes_of(found))


def hashes(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[Difference]:
    """Files that differ by their sha256; both map a path to 64 hex digits."""
    for path in sorted({*a, *b}):
        one, two = a.get(path), b.get(path)
        if one is None or two is None:
            yield Difference(None, "", path, Kind.ADDED if one is None else Kind.REMOVED)
        elif one != two:
            yield Difference(None, "", path, Kind.CONTENT, f"sha256 {one[:12]} in A, {two[:12]} in B")


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
