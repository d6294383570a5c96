"""A strict reader for tar streams: ustar, pax and GNU long names, as engines and builders write them.

Python's tarfile stops without an error at a damaged header, takes no account of a missing end, and decodes names;
each of these turns a broken layer into another image.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from sistership.errors import BuildError
from sistership.image.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK: Final = 512

_LONG_NAME: Final = b"L"
_LONG_LINK: Final = b"K"
_PAX: Final = b"x"
_PAX_GLOBAL: Final = b"g"
_SPARSE: Final = b"S"
_XATTR: Final = b"SCHILY.xattr."
#: Names and pax records longer than this come from a damaged or hostile stream.
_MAX_HEADER: Final = 1 << 20
#: No tree of an image is this deep; Linux itself ends at about 2000.
_MAX_DEPTH: Final = 200
#: Of a name: 255 bytes, and ``.wh.`` before it.
_NAME_MAX: Final = 259
_ID_LIMIT: Final = 1 << 32
_SIZE_LIMIT: Final = 1 << 60
_DIGITS: Final = 20
_SHOWN: Final = 60


class Kind(Enum):
    """What an entry is; the value is the type flag that the writer gives it."""

    FILE = b"0"
    HARDLINK = b"1"
    SYMLINK = b"2"
    CHARACTER = b"3"
    BLOCK = b"4"
    DIRECTORY = b"5"
    FIFO = b"6"


_KINDS: Final = {kind.value: kind for kind in Kind} | {b"\0": Kind.FILE, b"7": Kind.FILE}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as the tar states it.

    Args:
        path: normalised: no leading slash, no ``.``, empty for the root.
        kind: what it is.
        mode: permission bits with setuid, setgid and sticky; file-type bits are cut off.
        uid: numeric owner.
        gid: numeric group.
        link: target of a symlink as written, of a hardlink normalised.
        device: major and minor number.
        xattrs: sorted pairs of name and value.
        content: the bytes of a file, else None.
        absolute: the name, or a hardlink's target, was written with a leading slash.
    """

    path: bytes
    kind: Kind
    mode: int
    uid: int
    gid: int
    link: bytes
    device: tuple[int, int]
    xattrs: tuple[tuple[bytes, bytes], ...]
    content: Span | None
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """One header as a tar states it: an entry whose content is not read, and how many bytes of content follow."""

    entry: Entry
    size: int


def show(path: bytes) -> str:
    """A path for a message; bytes that are no UTF-8 are written as escapes."""
    return "/" + path.decode("utf-8", "backslashreplace")


def entries(stream: Span, where: str) -> Iterator[Entry]:
    """All entries of an uncompressed tar, in its order.

    Args:
        stream: the whole tar.
        where: what the tar is, for messages.

    Raises:
        BuildError: a damaged header, a cut stream, a name with ``..``, a sparse file, an unknown entry type.
    """
    offset = 0
    extra = _Extra()
    while True:
        block = stream.read(offset, BLOCK)
        if len(block) < BLOCK:
            raise _damaged(where, "it has no end marker: the stream was cut")
        if not any(block):
            return
        _check(block, where, offset)
        offset += BLOCK
        flag = block[156:157]
        size = _number(block[124:136], where)
        if flag in (_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK):
            if size > _MAX_HEADER:
                raise _damaged(where, f"an extended header of {size} bytes")
            body = stream.read(offset, size)
            offset += _padded(size)
            # Engines, all written in Go, read past global records, whatever these say.
            if flag != _PAX_GLOBAL:
                extra.take(flag, body, where)
            continue
        header = _header(block, extra, where)
        if header.entry.kind is Kind.FILE:
            if offset + header.size > stream.size:
                raise _damaged(where, f"the stream was cut inside {show(header.entry.path)}")
            yield replace(header.entry, content=stream.part(offset, header.size))
            offset += _padded(header.size)
        else:
            yield header.entry
        extra = _Extra()


def pax_size(block: bytes, where: str) -> int | None:
    """Bytes of the pax header that one block announces; None when the block announces something else.

    Raises:
        BuildError: it is damaged.
    """
    if block[156:157] != _PAX:
        return None
    _check(block, where, None)
    size = _number(block[124:136], where)
    if size > _MAX_HEADER:
        raise _damaged(where, f"an extended header of {size} bytes")
    return size


def read_header(block: bytes, pax: bytes, where: str) -> Header:
    """The header in one block, with the records of the pax header before it.

    Args:
        block: 512 bytes that are not all zero.
        pax: body of that pax header, empty where there is none.
        where: what the tar is, for messages.

    Raises:
        BuildError: as ``entries``.
    """
    _check(block, where, None)
    extra = _Extra()
    if pax:
        extra.take(_PAX, pax, where)
    return _header(block, extra, where)


class _Extra:
    """What pax and GNU headers say of the entry that follows them."""

    def __init__(self) -> None:
        self.records: dict[bytes, bytes] = {}
        self.name: bytes | None = None
        self.link: bytes | None = None

    def take(self, flag: bytes, body: bytes, where: str) -> None:
        if flag == _LONG_NAME:
            self.name = _text(body)
        elif flag == _LONG_LINK:
            self.link = _text(body)
        else:
            self.records.update(_records(body, where))


def _header(block: bytes, extra: _Extra, where: str) -> Header:
    records = extra.records
    name = records.get(b"path", extra.name if extra.name is not None else _name(block))
    link = records.get(b"linkpath", extra.link if extra.link is not None else _text(block[157:257]))
    path = _normal(name, where)
    flag = block[156:157]
    if flag == _SPARSE or any(key.startswith(b"GNU.sparse") for key in records):
        raise _refused(where, f"{show(path)} is a sparse entry", "engines disagree on sparse entries")
    kind = _KINDS.get(flag)
    if kind is None:
        raise _refused(where, f"{show(path)} has the unknown entry type {flag!r}", "no engine unpacks it the same way")
    if kind is Kind.FILE and name.endswith(b"/"):
        kind = Kind.DIRECTORY
    if b"\0" in name or b"\0" in link:
        raise _refused(where, f"{show(path)} has a zero byte in its name", "no file system can hold it")
    device = kind in (Kind.CHARACTER, Kind.BLOCK)
    entry = Entry(
        path=path,
        kind=kind,
        mode=0o777 if kind is Kind.SYMLINK else _number(block[100:108], where) & 0o7777,
        uid=_value(records, b"uid", block[108:116], _ID_LIMIT, where),
        gid=_value(records, b"gid", block[116:124], _ID_LIMIT, where),
        link=_target(kind, link, where),
        device=(_number(block[329:337], where), _number(block[337:345], where)) if device else (0, 0),
        xattrs=tuple(
            sorted((key.removeprefix(_XATTR), value) for key, value in records.items() if key.startswith(_XATTR))
        ),
        content=None,
        absolute=name.startswith(b"/") or (kind is Kind.HARDLINK and link.startswith(b"/")),
    )
    return Header(entry, _value(records, b"size", block[124:136], _SIZE_LIMIT, where) if kind is Kind.FILE else 0)


def _target(kind: Kind, link: bytes, where: str) -> bytes:
    if kind is Kind.HARDLINK:
        return _normal(link, where)
    return link if kind is Kind.SYMLINK else b""


def _check(block: bytes, where: str, offset: int | None) -> None:
    want = _number(block[148:156], where)
    around = block[:148] + b" " * 8 + block[156:]
    # some old writers summed signed bytes
    if want not in (sum(around), sum(memoryview(around).cast("b"))):
        text = block.split(b"\0", 1)[0]
        shown = f": {text.decode()[:200]!r}" if text.isascii() and text.decode().isprintable() and text else ""
        at = "" if offset is None else f" at byte {offset}"
        raise _damaged(where, f"no tar header{at}{shown}")


def _number(field: bytes, where: str) -> int:
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        if field[0] & 0x40:
            raise _damaged(where, "a negative number in a tar header")
        return value
    digits = field.split(b"\0", 1)[0].strip()
    if digits.strip(b"01234567"):
        raise _damaged(where, f"{digits!r} is no octal number")
    return int(digits, 8) if digits else 0


def _value(records: dict[bytes, bytes], key: bytes, field: bytes, limit: int, where: str) -> int:
    """A number that a pax record may state in place of the header's field."""
    record = records.get(key)
    if record is None:
        value = _number(field, where)
    elif record.isdigit() and len(record) <= _DIGITS:
        value = int(record)
    else:
        raise _damaged(where, f"{key.decode()} is {record[:_DIGITS]!r}")
    if value >= limit:
        raise _damaged(where, f"{key.decode()} is {value}")
    return value


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _name(block: bytes) -> bytes:
    name = _text(block[0:100])
    prefix = _text(block[345:500]) if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _records(body: bytes, where: str) -> dict[bytes, bytes]:
    """The records of a pax header: length, space, key, ``=``, value, newline; the length counts itself too."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(body) and body[at]:
        try:
            space = body.index(b" ", at, at + 20)
            length = body[at:space]
            end = at + int(length) if length.isdigit() else 0
            key, value = body[space + 1 : end - 1].split(b"=", 1)
        except ValueError:
            raise _damaged(where, "a damaged pax header") from None
        if end <= space or body[end - 1 : end] != b"\n":
            raise _damaged(where, "a damaged pax header")
        found[key] = value
        at = end
    return found


def _normal(name: bytes, where: str) -> bytes:
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise _refused(where, f"{show(name)} has .. in its name", "it could be written outside the image")
    if len(parts) > _MAX_DEPTH or any(len(part) > _NAME_MAX for part in parts):
        why = f"sistership reads {_MAX_DEPTH} levels of names of at most {_NAME_MAX} bytes"
        raise _refused(where, f"{show(name[:_SHOWN])} … is too deep or too long", why)
    return b"/".join(parts)


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _damaged(where: str, why: str) -> BuildError:
    return BuildError(
        "damaged tar", where=where, why=why, hint="look at the engine's log and its free disk space, then export again"
    )


def _refused(where: str, what: str, why: str) -> BuildError:
    return BuildError(what, where=where, why=why, hint="remove it in the build stage, before the final COPY")
