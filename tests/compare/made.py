"""Files made by hand: ELF, ar and tar, so that no test needs a compiler."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from sistership.compare import Difference, Kind, Part, files
from sistership.compare.causes import causes_of
from sistership.image.spans import Span

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGBITS, SYMTAB, STRTAB, DYNAMIC, NOTE, NOBITS = 1, 2, 3, 6, 7, 8
EXECUTABLE = 0x6


@dataclass(frozen=True)
class Made:
    """A section to be: its bytes, type, flags, the name of the one it links to; `size` is for NOBITS."""

    data: bytes = b""
    type: int = PROGBITS
    flags: int = 0
    link: str = ""
    size: int = 0


def elf(
    sections: Mapping[str, bytes | Made] | None = None,
    *,
    symbols: tuple[str, ...] = (),
    loader: tuple[tuple[int, str], ...] = (),
    bits: int = 64,
    order: str = "<",
    machine: int = 62,
) -> bytes:
    """An ELF file: a header, these sections, and their table at the end.

    Args:
        symbols: names of source files, for .symtab and .strtab.
        loader: tags and texts, for .dynamic and .dynstr.
    """
    made = {
        name: section if isinstance(section, Made) else Made(section, flags=EXECUTABLE * name.startswith(".text"))
        for name, section in (sections or {}).items()
    }
    if symbols:
        names, offsets = _names(symbols)
        form = order + ("IBBHQQ" if bits == 64 else "IIIBBH")
        rows = [(at, 4, 0, 0xFFF1, 0, 0) if bits == 64 else (at, 0, 0, 4, 0, 0xFFF1) for at in (0, *offsets)]
        made[".symtab"] = Made(b"".join(struct.pack(form, *row) for row in rows), SYMTAB, link=".strtab")
        made[".strtab"] = Made(names, STRTAB)
    if loader:
        names, offsets = _names(tuple(text for _, text in loader))
        pairs = [(tag, at) for (tag, _), at in zip(loader, offsets, strict=True)] + [(0, 0)]
        form = order + ("qQ" if bits == 64 else "iI")
        made[".dynamic"] = Made(b"".join(struct.pack(form, *pair) for pair in pairs), DYNAMIC, link=".dynstr")
        made[".dynstr"] = Made(names, STRTAB)
    return _assemble(made, bits, order, machine)


def _names(texts: tuple[str, ...]) -> tuple[bytes, list[int]]:
    table, offsets = b"\0", []
    for text in texts:
        offsets.append(len(table))
        table += text.encode() + b"\0"
    return table, offsets


def _assemble(made: dict[str, Made], bits: int, order: str, machine: int) -> bytes:
    names, offsets = _names((*made, ".shstrtab"))
    made = {**made, ".shstrtab": Made(names, STRTAB)}
    head = 64 if bits == 64 else 52
    body, headers = b"", []
    places = {name: number for number, name in enumerate(made, start=1)}
    for at, section in zip(offsets, made.values(), strict=True):
        size = section.size or len(section.data)
        link = places.get(section.link, 0)
        headers.append((at, section.type, section.flags, 0, head + len(body), size, link, 0, 1, 0))
        body += section.data
    form = order + ("IIQQQQIIQQ" if bits == 64 else "IIIIIIIIII")
    table = bytes(struct.calcsize(form)) + b"".join(struct.pack(form, *header) for header in headers)
    ident = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    fields = (3, machine, 1, 0, 0, head + len(body), 0, head, 0, 0, struct.calcsize(form), len(made) + 1, len(made))
    return (
        ident + struct.pack(order + ("HHIQQQIHHHHHH" if bits == 64 else "HHIIIIIHHHHHH"), *fields[:13]) + body + table
    )


def note(data: bytes, order: str = "<") -> Made:
    """A build-id note."""
    return Made(struct.pack(order + "III", 4, len(data), 3) + b"GNU\0" + data, NOTE)


def ar(members: list[tuple[str, bytes]], *, mtime: int = 0, mode: int = 0o644) -> bytes:
    """A static library in GNU form; names of more than 15 characters go into its table."""
    long = [name for name, _ in members if len(name) > 15]
    table = b"".join(name.encode() + b"/\n" for name in long)
    out = b"!<arch>\n"
    if table:
        out += b"//".ljust(48) + b"%-10d`\n" % len(table) + table + b"\n" * (len(table) % 2)
    at = 0
    for name, data in members:
        field = f"{name}/"
        if name in long:
            field, at = f"/{at}", at + len(name) + 2
        out += (
            f"{field:<16}{mtime:<12}{0:<6}{0:<6}{mode:<8o}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    return out


@dataclass(frozen=True)
class Item:
    """One entry of a layer."""

    name: str
    data: bytes = b""
    type: bytes = tarfile.REGTYPE
    mode: int = 0o644
    uid: int = 0
    link: str = ""
    mtime: int = 1
    uname: str = ""
    xattrs: tuple[tuple[str, str], ...] = ()


def tar(items: list[Item], form: int = tarfile.PAX_FORMAT) -> bytes:
    """An uncompressed layer."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for item in items:
            info = tarfile.TarInfo(item.name)
            info.type, info.mode, info.uid, info.linkname = item.type, item.mode, item.uid, item.link
            info.mtime, info.uname, info.size = item.mtime, item.uname, len(item.data)
            info.pax_headers = {f"SCHILY.xattr.{name}": value for name, value in item.xattrs}
            archive.addfile(info, io.BytesIO(item.data))
    return out.getvalue()


class _Memory(io.FileIO):
    def __del__(self) -> None:
        self.close()


def span(data: bytes) -> Span:
    """A span over a file in memory, closed when the last span over it is gone."""
    file = _Memory(os.memfd_create("file"), "w+b")
    file.write(data)
    return Span.whole(cast("BinaryIO", file))


def scratch() -> BinaryIO:
    """A temporary file."""
    return cast("BinaryIO", tempfile.TemporaryFile())


def told(a: bytes, b: bytes) -> tuple[dict[str, Part], tuple[str, ...]]:
    """Two versions of a file: place → part, and the ids of the causes."""
    parts = files.compare(span(a), span(b), scratch)
    found = Difference(1, "COPY", "/app/x", Kind.CONTENT, "", parts)
    return {"/".join(part.place): part for part in parts}, tuple(cause.id for cause in causes_of(found))
