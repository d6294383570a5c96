"""Two ranges of bytes: how many differ, where, and which strings only one of them has; in constant memory."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from sistership.image.spans import CHUNK, Span

#: Strings kept per side.
MOST: Final = 200
#: A longer string is cut.
LONGEST: Final = 500

_BLOCK: Final = 4096
_AROUND: Final = 1024
#: How much of two ranges of unequal size is searched for strings, per side.
_WINDOW: Final = 8 << 20
_STRING: Final = re.compile(rb"[\t\x20-\x7e]{4,}")

Strings = tuple[tuple[str, ...], tuple[str, ...]]


class Extent(NamedTuple):
    """How far two ranges differ: offset of the first difference, number of differing bytes (None: unequal sizes)."""

    first: int | None
    differing: int | None


def extent(a: Span, b: Span) -> Extent:
    """Where two ranges begin to differ, and in how many bytes."""
    first, count, offset = None, 0, 0
    for mine, theirs in zip(a.chunks(), b.chunks(), strict=False):
        if mine != theirs:
            at, differing = _between(mine, theirs)
            if first is None and (differing or a.size == b.size):
                first = offset + at
            count += differing
            if a.size != b.size and first is not None:
                break
        offset += CHUNK
    if a.size != b.size:
        return Extent(min(a.size, b.size) if first is None else first, None)
    return Extent(first, count)


def _between(mine: bytes, theirs: bytes) -> tuple[int, int]:
    """Offset of the first differing byte and their number, over the shorter of the two."""
    size = min(len(mine), len(theirs))
    mixed = int.from_bytes(mine[:size], "big") ^ int.from_bytes(theirs[:size], "big")
    raw = mixed.to_bytes(size, "big")
    return size - len(raw.lstrip(b"\0")), size - raw.count(0)


def strings(a: Span, b: Span) -> Strings:
    """Printable strings of four characters or more that only A and that only B has, around what differs."""
    windows = _same_size(a, b) if a.size == b.size else _other_size(a, b)
    # dicts keep the order in which the strings stand in the file
    found: tuple[dict[bytes, None], dict[bytes, None]] = ({}, {})
    for mine, theirs in windows:
        one, two = _STRING.findall(mine), _STRING.findall(theirs)
        both = {*one} & {*two}
        for side, texts in zip(found, (one, two), strict=True):
            side.update((text, None) for text in texts if text not in both)
        if all(len(side) >= MOST for side in found):
            break
    return _shown(found[0], found[1]), _shown(found[1], found[0])


def _shown(texts: Iterable[bytes], others: Container[bytes]) -> tuple[str, ...]:
    only = (text[:LONGEST].decode("ascii") for text in texts if text not in others)
    return tuple(islice(only, MOST))


def _same_size(a: Span, b: Span) -> Iterator[tuple[bytes, bytes]]:
    """Blocks that differ with what is around them; neighbours are taken together."""
    start = end = -1
    for offset in range(0, a.size, CHUNK):
        mine, theirs = a.read(offset, CHUNK), b.read(offset, CHUNK)
        if mine == theirs:
            continue
        for inner in range(0, len(mine), _BLOCK):
            if mine[inner : inner + _BLOCK] == theirs[inner : inner + _BLOCK]:
                continue
            at = offset + inner
            if start >= 0 and at <= end + _AROUND and at - start < CHUNK:
                end = at + _BLOCK
                continue
            if start >= 0:
                yield _window(a, b, start, end)
            start, end = at, at + _BLOCK
    if start >= 0:
        yield _window(a, b, start, end)


def _window(a: Span, b: Span, start: int, end: int) -> tuple[bytes, bytes]:
    start = max(0, start - _AROUND)
    size = end + _AROUND - start
    return a.read(start, size), b.read(start, size)


def _other_size(a: Span, b: Span) -> Iterator[tuple[bytes, bytes]]:
    """What is between the common beginning and the common end, in one window."""
    first = extent(a, b).first or 0
    tail = _common_end(a, b, min(a.size, b.size) - first)
    start = max(0, first - _AROUND)

    def middle(span: Span) -> bytes:
        return span.read(start, min(_WINDOW, span.size - tail + _AROUND - start))

    yield middle(a), middle(b)


def _common_end(a: Span, b: Span, most: int) -> int:
    """How many whole blocks at the end are equal, in bytes."""
    done = 0
    while done + _BLOCK <= most:
        step = done + _BLOCK
        if a.read(a.size - step, _BLOCK) != b.read(b.size - step, _BLOCK):
            break
        done = step
    return done
