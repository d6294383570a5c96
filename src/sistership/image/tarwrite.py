"""The one writer of tar headers: what the canonical form and the archive are made of.

Layers get ustar headers with pax records only where ustar cannot say it, and one constant time for every file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sistership.image.tarstream import BLOCK, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

#: 2020-01-01T00:00:00Z. One constant for every image: a time taken from the commit would change
#: the diffID of layers whose content did not change.
EPOCH: Final = 1577836800

END: Final = b"\0" * (2 * BLOCK)

_PAX: Final = b"x"
_NAME: Final = 100
_SIZE_LIMIT: Final = 8**11


def padding(size: int) -> bytes:
    """The zero bytes that fill the last block of ``size`` bytes."""
    return b"\0" * (-size % BLOCK)


def layer_header(
    name: bytes,
    kind: Kind,
    *,
    mode: int = 0,
    uid: int = 0,
    gid: int = 0,
    size: int = 0,
    link: bytes = b"",
    device: tuple[int, int] = (0, 0),
    xattrs: Iterable[tuple[bytes, bytes]] = (),
) -> bytes:
    """The header of one entry of a canonical layer; a function of its arguments alone."""
    records: dict[bytes, bytes] = {}
    fields = {
        "name": _text(name, b"path", records),
        "link": _text(link, b"linkpath", records),
        "uid": _number(uid, 8, b"uid", records),
        "gid": _number(gid, 8, b"gid", records),
        "size": _number(size, 12, b"size", records),
    }
    records.update((b"SCHILY.xattr." + key, value) for key, value in xattrs)
    return _pax(records) + _block(flag=kind.value, mode=mode, device=device, **fields)


def archive_header(name: str, size: int) -> bytes:
    """The plain header of one file of an archive: ustar, never pax; a size of 8 GiB or more in base 256.

    Every engine reads these; an extended header in front of the first entry confuses some readers.
    """
    number = b"%011o\0" % size if size < _SIZE_LIMIT else b"\x80" + size.to_bytes(11, "big")
    return _block(
        name=name.encode("ascii"),
        flag=Kind.FILE.value,
        mode=0o644,
        uid=b"0000000\0",
        gid=b"0000000\0",
        size=number,
        link=b"",
        device=(0, 0),
    )


def _text(value: bytes, key: bytes, records: dict[bytes, bytes]) -> bytes:
    if len(value) <= _NAME and value.isascii():
        return value
    records[key] = value
    return value[:_NAME].decode("ascii", "replace").replace("\ufffd", "_").encode()


def _number(value: int, width: int, key: bytes, records: dict[bytes, bytes]) -> bytes:
    if value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    records[key] = b"%d" % value
    return b"0" * (width - 1) + b"\0"


def _pax(records: dict[bytes, bytes]) -> bytes:
    if not records:
        return b""
    body = b"".join(_record(key, records[key]) for key in sorted(records))
    head = _block(
        name=b"././@PaxHeader",
        flag=_PAX,
        mode=0o644,
        uid=b"0000000\0",
        gid=b"0000000\0",
        size=b"%011o\0" % len(body),
        link=b"",
        device=(0, 0),
    )
    return head + body + padding(len(body))


def _record(key: bytes, value: bytes) -> bytes:
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    while length != rest + len(str(length)):
        length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _block(
    *, name: bytes, flag: bytes, mode: int, uid: bytes, gid: bytes, size: bytes, link: bytes, device: tuple[int, int]
) -> bytes:
    head = name.ljust(_NAME, b"\0") + b"%07o\0" % mode + uid + gid + size + b"%011o\0" % EPOCH
    tail = flag + link.ljust(_NAME, b"\0") + b"ustar\00000" + b"\0" * 64 + b"%07o\0%07o\0" % device + b"\0" * 167
    checksum = sum(head) + sum(tail) + 8 * ord(" ")
    return head + b"%06o\0 " % checksum + tail
