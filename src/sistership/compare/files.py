"""Two versions of one file: where they differ, by what kind of file it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Final

from sistership.compare import elf, gzipped, lines, members, sections
from sistership.compare.code import apart
from sistership.compare.extent import extent, strings
from sistership.compare.model import FOLLOWING, Part, What
from sistership.image.spans import Span

#: How deep files in files are looked into: an archive's member's section, a gzip in an archive.
DEEPEST: Final = 4

#: Sections that follow from where the linker put things.
_LAYOUT: Final = (".shstrtab", ".rela", ".rel.", ".eh_frame", ".dynsym", ".gnu.hash", ".gnu.version", ".got", ".plt")

Scratch = Callable[[], BinaryIO]


def compare(a: Span, b: Span, scratch: Scratch, depth: int = 0) -> tuple[Part, ...]:
    """The parts of two files that differ; at least one, since the caller knows that their bytes do.

    Files that only begin like ELF, an archive or gzip and are damaged are compared as bytes.

    Args:
        a: one version.
        b: the other.
        scratch: makes temporary files, gone when closed.
        depth: how many files this one is in.
    """
    parts = _parts(a, b, scratch, depth) if depth < DEEPEST else []
    return tuple(sorted(parts, key=_telling)) or (raw(a, b),)


def _telling(part: Part) -> int:
    """Other instruction sets and what can be read first; what only follows from the rest last."""
    if part.name in FOLLOWING:
        return 4
    if part.code and (apart(part.code[0].vex, part.code[1].vex) or apart(part.code[0].evex, part.code[1].evex)):
        return 0
    if part.name.startswith(_LAYOUT):
        return 3
    return 1 if any(part.only) else 2


def raw(a: Span, b: Span) -> Part:
    """Two files as nothing but bytes."""
    first, differing = extent(a, b)
    return Part((), What.BYTES, (a.size, b.size), differing, first, strings(a, b))


def _parts(a: Span, b: Span, scratch: Scratch, depth: int) -> list[Part]:
    inside = partial(compare, scratch=scratch, depth=depth + 1)
    try:
        if elf.is_elf(a) and elf.is_elf(b):
            return sections.compare(a, b)
        if members.is_archive(a) and members.is_archive(b):
            return members.compare(a, b, inside)
    except (elf.ElfError, members.ArchiveError):
        return []
    if gzipped.is_gzip(a) and gzipped.is_gzip(b):
        return gzipped.compare(a, b, inside, scratch)
    if lines.is_text(a) and lines.is_text(b):
        return lines.compare(a, b)
    return []
