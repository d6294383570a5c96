"""Two layers: which paths differ and in what, straight from what their tars say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from sistership.compare import files, headers
from sistership.compare.causes import causes_of
from sistership.compare.files import Scratch
from sistership.compare.layers import LayerSource, Pair
from sistership.compare.model import Difference, Kind
from sistership.image.spans import Span
from sistership.image.tarstream import Entry, entries, show
from sistership.image.tarstream import Kind as Type

#: Files of one layer whose inside is looked into; a layer where everything differs has one cause, not a thousand.
DEEPEST: Final = 60

_SHOWN: Final = 12
_TYPES: Final = {
    Type.FILE: "a file",
    Type.HARDLINK: "a hard link",
    Type.SYMLINK: "a symlink",
    Type.CHARACTER: "a character device",
    Type.BLOCK: "a block device",
    Type.DIRECTORY: "a directory",
    Type.FIFO: "a pipe",
}

Tree = Mapping[bytes, Entry]


def compare(pair: Pair, scratch: Scratch) -> Iterator[Difference]:
    """What differs in one pair of layers whose diffIDs differ, by path, causes included; something always does.

    Args:
        pair: both, or one where the other image has no such layer.
        scratch: makes temporary files, gone when closed.

    Raises:
        BuildError: a layer is damaged.
    """
    for found in _found(pair, scratch):
        yield replace(found, causes=causes_of(found))


def _found(pair: Pair, scratch: Scratch) -> Iterator[Difference]:
    mine, theirs = pair
    if mine is None or theirs is None:
        there, side = (mine, "A") if mine else (theirs, "B")
        if there:
            yield _whole(there, Kind.LAYER, f"{side} alone has this layer")
        return
    if mine.open is None or theirs.open is None:
        digests = f"{mine.diff_id[7:19]} in A, {theirs.diff_id[7:19]} in B"
        yield _whole(mine, Kind.LAYER, f"{digests}; its bytes are not at hand")
        return
    if mine.base and theirs.base:
        digests = f"{mine.diff_id[7:19]} in A, {theirs.diff_id[7:19]} in B"
        yield _whole(mine, Kind.LAYER, f"the base image's own layer is {digests}")
        return
    with mine.open() as one, theirs.open() as two:
        count = 0
        for found in between(one, two, scratch):
            count += 1
            yield replace(found, layer=mine.number, instruction=mine.instruction)
        for kind, detail in headers.compare(one, two):
            count += 1
            yield _whole(mine, kind, detail)
        if not count:
            yield _whole(mine, Kind.FORM, "the same entries, written down another way: another version made this tar")


def _whole(layer: LayerSource, kind: Kind, detail: str) -> Difference:
    return Difference(layer.number, layer.instruction, "", kind, detail)


def alone(layer: LayerSource, others: Sequence[LayerSource], scratch: Scratch, *, in_a: bool) -> Iterator[Difference]:
    """What a layer that one image alone has does to its files: each against what the other image has at its path.

    Layers of a base are not looked into: they are large, and their own digest has told already.

    Args:
        layer: the layer.
        others: all layers of the other image, from the lowest on.
        scratch: makes temporary files, gone when closed.
        in_a: the layer is A's.

    Raises:
        BuildError: a layer is damaged.
    """
    if layer.base or layer.open is None:
        return
    with layer.open() as span, ExitStack() as stack:
        # Directories are there for their attributes alone: every entry comes with its ancestors.
        mine = {one.path: one for one in entries(span, layer.instruction) if one.kind is not Type.DIRECTORY}
        theirs = _held(set(mine), others, stack)
        a, b = (mine, theirs) if in_a else (theirs, mine)
        for found in _between(a, b, scratch):
            told = replace(found, layer=layer.number, instruction=layer.instruction)
            yield replace(told, causes=causes_of(told))


def _held(paths: set[bytes], layers: Sequence[LayerSource], stack: ExitStack) -> Tree:
    """What an image's own layers have at these paths, the topmost of each; the stack keeps their bytes open."""
    found: dict[bytes, Entry] = {}
    left = set(paths)
    for layer in reversed(layers):
        if not left or layer.base or layer.open is None:
            continue
        tree = {entry.path: entry for entry in entries(stack.enter_context(layer.open()), layer.instruction)}
        found |= {path: tree[path] for path in left & tree.keys()}
        left -= tree.keys()
    return found


def between(a: Span, b: Span, scratch: Scratch) -> Iterator[Difference]:
    """What differs between two uncompressed layers, sorted by path; without layer and causes.

    Raises:
        BuildError: one of them is damaged.
    """
    mine, theirs = ({entry.path: entry for entry in entries(span, name)} for span, name in ((a, "A"), (b, "B")))
    yield from _between(mine, theirs, scratch)


def _between(mine: Tree, theirs: Tree, scratch: Scratch) -> Iterator[Difference]:
    left = DEEPEST
    for path in sorted({*mine, *theirs}):
        one, two = mine.get(path), theirs.get(path)
        if one is None or two is None:
            there, kind = (two, Kind.ADDED) if one is None else (one, Kind.REMOVED)
            if there:
                yield _at(path, kind, _described(there))
            continue
        yield from (_at(path, kind, detail) for kind, detail in _attributes(one, two))
        versions = _contents(one, two, mine, theirs)
        if versions and not versions[0].same_bytes(versions[1]):
            parts = files.compare(*versions, scratch) if left > 0 else ()
            left -= 1
            yield replace(_at(path, Kind.CONTENT, _sizes(*versions)), parts=parts)


def _at(path: bytes, kind: Kind, detail: str) -> Difference:
    return Difference(None, "", show(path), kind, detail)


def _described(entry: Entry) -> str:
    size = f" of {entry.content.size} bytes" if entry.content else ""
    target = f" to {entry.link.decode('utf-8', 'backslashreplace')}" if entry.link else ""
    return _TYPES[entry.kind] + size + target


def _attributes(one: Entry, two: Entry) -> Iterator[tuple[Kind, str]]:
    if one.kind is not two.kind:
        link = Type.HARDLINK in {one.kind, two.kind}
        yield Kind.LINK if link else Kind.TYPE, f"{_described(one)} in A, {_described(two)} in B"
    elif one.link != two.link:
        yield Kind.LINK, f"{_described(one)} in A, {_described(two)} in B"
    if one.mode != two.mode:
        yield Kind.MODE, f"{one.mode:04o} in A, {two.mode:04o} in B"
    if (one.uid, one.gid) != (two.uid, two.gid):
        yield Kind.OWNER, f"{one.uid}:{one.gid} in A, {two.uid}:{two.gid} in B"
    if one.kind is two.kind and one.device != two.device:
        yield Kind.DEVICE, f"{one.device} in A, {two.device} in B"
    if one.xattrs != two.xattrs:
        yield Kind.XATTR, f"{_xattrs(one, two)} in A, {_xattrs(two, one)} in B"


def _xattrs(mine: Entry, theirs: Entry) -> str:
    only = [pair for pair in mine.xattrs if pair not in theirs.xattrs]
    return ", ".join(f"{name.decode(errors='replace')}={value[:_SHOWN].hex()}" for name, value in only) or "none"


def _contents(one: Entry, two: Entry, mine: Tree, theirs: Tree) -> tuple[Span, Span] | None:
    """Both contents where both are files, by their own name or through a hard link on one side only."""
    left, right = (entry.content or _linked(entry, tree) for entry, tree in ((one, mine), (two, theirs)))
    if left is None or right is None or one.kind is two.kind is Type.HARDLINK:
        return None
    return left, right


def _linked(entry: Entry, tree: Tree) -> Span | None:
    target = tree.get(entry.link) if entry.kind is Type.HARDLINK else None
    return target.content if target else None


def _sizes(a: Span, b: Span) -> str:
    return f"{a.size} bytes" if a.size == b.size else f"{a.size} bytes in A, {b.size} in B"
