"""Static libraries (`ar`): their members, and two of them compared.

The format is that of ar(5): 60-byte headers in ASCII; GNU's "//" table and BSD's "#1/" hold long names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from sistership.compare.extent import MOST
from sistership.compare.model import Part, What
from sistership.image.spans import Span

MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60
_LONGEST_TABLE: Final = 16 << 20
#: GNU's and BSD's symbol tables.
_INDEXES: Final = ("/", "/SYM64/", "__.SYMDEF", "__.SYMDEF SORTED")

Inside = Callable[[Span, Span], Sequence[Part]]


class ArchiveError(ValueError):
    """The file begins as an archive, but is damaged or thin."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a member's header says beside its name: all of it is the builder's, none of it the code's."""

    mtime: str
    uid: str
    gid: str
    mode: str


@dataclass(frozen=True, slots=True)
class Member:
    """One file in an archive."""

    name: str
    stamp: Stamp
    content: Span

    @property
    def index(self) -> bool:
        """Whether it is the table of symbols, which follows from the others."""
        return self.name in _INDEXES


def is_archive(span: Span) -> bool:
    """Whether these bytes begin a static library."""
    return span.read(0, len(MAGIC)) == MAGIC


def read(span: Span) -> tuple[Member, ...]:
    """All members in the archive's order, its symbol table among them.

    Raises:
        ArchiveError: damaged or cut.
    """
    return tuple(_members(span))


def compare(a: Span, b: Span, inside: Inside) -> list[Part]:
    """The members that differ, in header or content.

    Args:
        inside: tells where two members differ.

    Raises:
        ArchiveError: one of the archives is damaged.
    """
    left, right = (dict(_named(read(span))) for span in (a, b))
    parts = []
    mine, theirs = ([key for key in side if key in other] for side, other in ((left, right), (right, left)))
    if mine != theirs:
        parts.append(Part(("order",), What.HEADER, note="the same members in another order"))
    for key in dict.fromkeys([*left, *right]):
        parts += _member(left.get(key), right.get(key), inside)
    return parts


def _member(mine: Member | None, theirs: Member | None, inside: Inside) -> Iterator[Part]:
    if mine is None or theirs is None:
        there = mine or theirs
        sizes = (mine.content.size if mine else None, theirs.content.size if theirs else None)
        yield Part((there.name if there else "",), What.MEMBER, sizes)
        return
    if mine.stamp != theirs.stamp:
        yield Part((mine.name, "header"), What.HEADER, only=_stamps(mine.stamp, theirs.stamp))
    if mine.index or mine.content.same_bytes(theirs.content):
        return
    for part in inside(mine.content, theirs.content):
        yield replace(part, place=(mine.name, *part.place))


def _stamps(mine: Stamp, theirs: Stamp) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = [field.name for field in fields(Stamp) if getattr(mine, field.name) != getattr(theirs, field.name)]
    one, two = (tuple(f"{name} {getattr(stamp, name)}" for name in names) for stamp in (mine, theirs))
    return one[:MOST], two[:MOST]


def _named(members: Sequence[Member]) -> Iterator[tuple[tuple[str, int], Member]]:
    seen: Counter[str] = Counter()
    for member in members:
        yield (member.name, seen[member.name]), member
        seen[member.name] += 1


def _members(span: Span) -> Iterator[Member]:
    if not is_archive(span):
        raise ArchiveError("no archive, or a thin one")
    offset, table = len(MAGIC), b""
    while offset < span.size:
        header = span.read(offset, _HEADER)
        if len(header) < _HEADER or header[58:] != b"`\n":
            raise ArchiveError(f"no member header at byte {offset}")
        offset += _HEADER
        size = _number(header[48:58])
        if offset + size > span.size:
            raise ArchiveError("a member is cut")
        content, raw = span.part(offset, size), header[:16].rstrip()
        offset += size + size % 2
        if raw == b"//":
            table = content.read(0, _LONGEST_TABLE)
            continue
        name, content = _name(raw, content, table)
        stamp = Stamp(*(_ascii(header[start:end]) for start, end in ((16, 28), (28, 34), (34, 40), (40, 48))))
        yield Member(name, stamp, content)


def _name(raw: bytes, content: Span, table: bytes) -> tuple[str, Span]:
    if raw.startswith(b"#1/"):
        length = _number(raw[3:])
        if length > content.size:
            raise ArchiveError("a member's name is longer than the member")
        return _ascii(content.read(0, length).rstrip(b"\0")), content.part(length, content.size - length)
    if raw.startswith(b"/") and raw[1:].isdigit():
        return _ascii(table[int(raw[1:]) :].split(b"\n", 1)[0].removesuffix(b"/")), content
    if raw in (b"/", b"/SYM64/"):
        return _ascii(raw), content
    return _ascii(raw.removesuffix(b"/")), content


def _number(field: bytes) -> int:
    text = field.strip()
    if not text.isdigit():
        raise ArchiveError(f"{text!r} is no number")
    return int(text)


def _ascii(field: bytes) -> str:
    return field.strip().decode("utf-8", "backslashreplace")
