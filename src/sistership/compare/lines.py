"""Two texts: which lines only one of them has, and whether only their order differs."""

from __future__ import annotations

import codecs
from collections import Counter
from typing import Final

from sistership.compare.extent import LONGEST, MOST
from sistership.compare.model import Part, What
from sistership.image.spans import Span

#: Larger texts are compared as bytes.
LARGEST: Final = 8 << 20
#: How a note begins when only the order of the lines differs.
ORDER: Final = "the same lines in another order"
ENDS: Final = "only line ends differ"

_HEAD: Final = 64 << 10


def is_text(span: Span) -> bool:
    """Whether this is a text small enough to compare by lines: UTF-8 without zero bytes, as far as its head says."""
    head = span.read(0, _HEAD)
    if not head or span.size > LARGEST or b"\0" in head:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=span.size <= _HEAD)
    except UnicodeDecodeError:
        return False
    return True


def compare(a: Span, b: Span) -> list[Part]:
    """One part with the lines that differ; its place is the first line that does, counted from 1."""
    mine, theirs = (span.read(0, span.size).split(b"\n") for span in (a, b))
    pairs = zip(mine, theirs, strict=False)
    at = next((number for number, (one, two) in enumerate(pairs) if one != two), min(len(mine), len(theirs)))
    left, right = Counter(mine), Counter(theirs)
    only = _shown(left - right), _shown(right - left)
    return [Part((f"line {at + 1}",), What.LINES, (a.size, b.size), only=only, note=_note(mine, theirs, left == right))]


def _note(mine: list[bytes], theirs: list[bytes], permuted: bool) -> str:
    if permuted:
        bytewise = [name for name, side in (("A", mine), ("B", theirs)) if [*filter(None, side)] == _sorted(side)]
        return ORDER + (f"; {bytewise[0]} is sorted by byte" if len(bytewise) == 1 else "")
    if [line.rstrip(b"\r") for line in mine] == [line.rstrip(b"\r") for line in theirs]:
        return ENDS
    return f"{len(mine)} lines in A, {len(theirs)} in B" if len(mine) != len(theirs) else ""


def _sorted(lines: list[bytes]) -> list[bytes]:
    return sorted(filter(None, lines))


def _shown(lines: Counter[bytes]) -> tuple[str, ...]:
    texts = (line.decode("utf-8", "backslashreplace").rstrip("\r")[:LONGEST] for line in lines)
    return tuple(text for _, text in zip(range(MOST), texts, strict=False))
