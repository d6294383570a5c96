"""A strict reader of ELF files: sections, FILE symbols, build-id and what the loader is asked for.

Only what tells two builds apart, from ranges of a file, so a library of a gigabyte is never in memory.
The layout is that of the System V ABI, chapter 4 ("Object Files"), 32 and 64 bit, both byte orders.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sistership.image.spans import CHUNK, Span

MAGIC: Final = b"\x7fELF"
X86_64: Final = 62

NOBITS: Final = 8
_SYMTAB: Final = 2
_DYNAMIC: Final = 6
_EXECUTABLE: Final = 0x4
_IN_SECTION_0: Final = 0xFFFF
_FILE_SYMBOL: Final = 4
_LONGEST_NAME: Final = 64 << 10
#: More sections than any linker makes come from a damaged or hostile header.
_MOST_SECTIONS: Final = 1 << 20
_IDENT: Final = 16
_WIDE: Final = 64
_NOTE: Final = 12
_TAGS: Final = {1: "NEEDED", 14: "SONAME", 15: "RPATH", 29: "RUNPATH"}


class ElfError(ValueError):
    """The file begins as ELF, but its headers point outside of it or contradict each other."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section; `content` is None where the file holds no bytes for it (.bss)."""

    name: str
    type: int
    flags: int
    size: int
    link: int
    content: Span | None

    @property
    def executable(self) -> bool:
        """Whether it holds machine code."""
        return bool(self.flags & _EXECUTABLE)


@dataclass(frozen=True, slots=True)
class Elf:
    """An ELF file: 32 or 64 bit, struct's sign of its byte order, type and machine, its sections."""

    bits: int
    order: str
    type: int
    machine: int
    sections: tuple[Section, ...]

    def find(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)


def is_elf(span: Span) -> bool:
    """Whether these bytes begin as ELF."""
    return span.read(0, len(MAGIC)) == MAGIC


def read(span: Span) -> Elf:
    """The section table of a file; a file without one has no sections.

    Raises:
        ElfError: it is no ELF, cut, or damaged.
    """
    ident = span.read(0, _IDENT)
    if len(ident) < _IDENT or not ident.startswith(MAGIC) or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise ElfError("no ELF header")
    wide, order = ident[4] != 1, "<" if ident[5] == 1 else ">"
    fields = _unpack(span, _IDENT, order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
    kind, machine, offset, size, count, names = (fields[index] for index in (0, 1, 5, 10, 11, 12))
    empty = Elf(_WIDE if wide else 32, order, kind, machine, ())
    if not offset:
        return empty
    form = order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII")
    if size != struct.calcsize(form):
        raise ElfError(f"section headers of {size} bytes")
    first = _unpack(span, offset, form)
    count, names = count or first[5], first[6] if names == _IN_SECTION_0 else names
    if count > _MOST_SECTIONS or offset + count * size > span.size:
        raise ElfError("the section table reaches beyond the file")
    headers = list(struct.iter_unpack(form, span.read(offset, count * size)))
    return Elf(empty.bits, order, kind, machine, tuple(_sections(span, headers, names)))


def file_symbols(elf: Elf) -> tuple[str, ...]:
    """Names of the source files in .symtab, in its order; nvcc's temporary files are among them.

    Raises:
        ElfError: a symbol's name is outside the string table.
    """
    table = next((section for section in elf.sections if section.type == _SYMTAB), None)
    if table is None or table.content is None:
        return ()
    names = _linked(elf, table)
    form = elf.order + ("IBBHQQ" if elf.bits == _WIDE else "IIIBBH")
    info = 1 if elf.bits == _WIDE else 3
    rows = _rows(table.content, form)
    return tuple(_text(names, row[0]) for row in rows if row[info] & 0xF == _FILE_SYMBOL and row[0])


def dynamic(elf: Elf) -> tuple[str, ...]:
    """What the loader reads: "NEEDED libc.so.6", "SONAME …", "RPATH …", "RUNPATH …", in the file's order.

    Raises:
        ElfError: a name is outside the string table.
    """
    table = next((section for section in elf.sections if section.type == _DYNAMIC), None)
    if table is None or table.content is None:
        return ()
    names = _linked(elf, table)
    rows = _rows(table.content, elf.order + ("qQ" if elf.bits == _WIDE else "iI"))
    return tuple(f"{_TAGS[tag]} {_text(names, value)}" for tag, value in rows if tag in _TAGS)


def build_id(elf: Elf) -> str:
    """The build-id as hex digits; "" without one."""
    section = elf.find(".note.gnu.build-id")
    note = section.content.read(0, 1024) if section and section.content else b""
    if len(note) <= _NOTE:
        return ""
    name, size, _ = struct.unpack_from(elf.order + "III", note)
    start = _NOTE + -(-name // 4) * 4
    return note[start : start + size].hex()


def _sections(span: Span, headers: list[tuple[int, ...]], names: int) -> Iterator[Section]:
    if headers and names >= len(headers):
        raise ElfError("the section names are in no section")
    table = _content(span, headers[names]) if headers else None
    for header in headers[1:]:
        content = _content(span, header)
        name = _text(table, header[0]) if table else ""
        yield Section(name, header[1], header[2], header[5], header[6], content)


def _content(span: Span, header: tuple[int, ...]) -> Span | None:
    kind, offset, size = header[1], header[4], header[5]
    if kind in (NOBITS, 0):
        return None
    if offset + size > span.size:
        raise ElfError("a section reaches beyond the file")
    return span.part(offset, size)


def _linked(elf: Elf, section: Section) -> Span:
    """The string table a section points to; section 0 is not in the list."""
    index = section.link - 1
    content = elf.sections[index].content if 0 <= index < len(elf.sections) else None
    if content is None:
        raise ElfError(f"{section.name} has no string table")
    return content


def _rows(span: Span, form: str) -> Iterator[tuple[int, ...]]:
    size = struct.calcsize(form)
    step = CHUNK // size * size
    for offset in range(0, span.size - size + 1, step):
        data = span.read(offset, step)
        yield from struct.iter_unpack(form, data[: len(data) // size * size])


def _text(table: Span, offset: int) -> str:
    if offset >= table.size:
        raise ElfError("a name is outside its string table")
    data = b""
    while b"\0" not in data and len(data) < _LONGEST_NAME and (more := table.read(offset + len(data), 256)):
        data += more
    return data.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


def _unpack(span: Span, offset: int, form: str) -> tuple[int, ...]:
    data = span.read(offset, struct.calcsize(form))
    if len(data) < struct.calcsize(form):
        raise ElfError("a header is cut")
    return struct.unpack(form, data)
