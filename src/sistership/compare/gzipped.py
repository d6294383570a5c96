"""Two gzip files: the header, which holds a time and a name (RFC 1952), and what is packed in them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import BinaryIO, Final

from sistership.compare.model import Part, What
from sistership.image.spans import CHUNK, Span

MAGIC: Final = b"\x1f\x8b\x08"
PACKED: Final = "packed"
#: More is not unpacked: a small file may hold any amount of zeros.
LARGEST: Final = 1 << 30

_HAS_NAME: Final = 0x08
_HAS_EXTRA: Final = 0x04


def is_gzip(span: Span) -> bool:
    """Whether these bytes begin a gzip stream."""
    return span.read(0, len(MAGIC)) == MAGIC


def compare(
    a: Span, b: Span, inside: Callable[[Span, Span], Sequence[Part]], scratch: Callable[[], BinaryIO]
) -> list[Part]:
    """Header fields that differ, then where the packed bytes do.

    Args:
        inside: tells where two files differ.
        scratch: makes temporary files for the unpacked bytes.
    """
    mine, theirs = _header(a), _header(b)
    parts = []
    if mine != theirs:
        only = tuple(text for text in mine if text not in theirs), tuple(text for text in theirs if text not in mine)
        parts.append(Part(("gzip header",), What.HEADER, only=only))
    with ExitStack() as stack:
        plain = [_unpacked(span, stack.enter_context(scratch())) for span in (a, b)]
        one, two = plain
        if one is None or two is None:
            return [*parts, Part((PACKED,), What.BYTES, note="it was not unpacked: damaged, or larger than 1 GiB")]
        if not one.same_bytes(two):
            parts += [replace(part, place=(PACKED, *part.place)) for part in inside(one, two)]
        elif not parts:
            parts.append(Part((PACKED,), What.BYTES, (a.size, b.size), note="the same bytes, packed another way"))
    return parts


def _header(span: Span) -> tuple[str, ...]:
    head = span.read(0, 1024)
    flags, mtime = head[3], int.from_bytes(head[4:8], "little")
    fields = [f"time {mtime}", f"level {head[8]}", f"system {head[9]}"]
    if flags & _HAS_NAME and not flags & _HAS_EXTRA:
        fields.append(f"name {head[10:].split(bytes(1), 1)[0].decode('latin-1')}")
    return tuple(fields)


def _unpacked(span: Span, file: BinaryIO) -> Span | None:
    try:
        for chunk in _members(span):
            file.write(chunk)
            if file.tell() > LARGEST:
                return None
    except zlib.error:
        return None
    file.flush()
    return Span.whole(file)


def _members(span: Span) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    for chunk in span.chunks():
        data = chunk
        while data:
            if member.eof:
                member = zlib.decompressobj(wbits=31)
            yield member.decompress(data, CHUNK)
            data = member.unused_data if member.eof else member.unconsumed_tail
    yield member.flush()
