"""The writer of layer headers, read back with tarfile."""

from __future__ import annotations

import io
import tarfile

import pytest

from sistership.image.tarstream import Kind
from sistership.image.tarwrite import END, EPOCH, layer_header


def back(header: bytes) -> tarfile.TarInfo:
    """The one entry of a tar, as tarfile reads it."""
    with tarfile.open(fileobj=io.BytesIO(header + END), encoding="utf-8", errors="surrogateescape") as tar:
        (info,) = tar.getmembers()
        return info


def test_plain_entries_have_one_block() -> None:
    """pax records are written only when ustar cannot say it."""
    assert len(layer_header(b"n" * 100, Kind.FILE, mode=0o7777, uid=8**7 - 1, size=8**11 - 1)) == 512


def test_time_is_constant_and_owners_have_no_names() -> None:
    """Nothing of the machine or the moment is in a header."""
    info = back(layer_header(b"a", Kind.FILE, mode=0o644, uid=1, gid=2))
    assert (info.mtime, info.uname, info.gname, info.uid, info.gid) == (EPOCH, "", "", 1, 2)


@pytest.mark.parametrize("name", [b"n" * 101, b"n" * 300, b"\xc3\xa4", b"\xff\xfe", b"d/" * 300])
def test_long_and_odd_names(name: bytes) -> None:
    """They come back byte for byte, as name and as link target."""
    info = back(layer_header(name, Kind.SYMLINK, mode=0o777, link=name))
    assert info.linkname.encode("utf-8", "surrogateescape") == name
    assert info.name.encode("utf-8", "surrogateescape") == name.rstrip(b"/")


def test_large_numbers() -> None:
    """Owners from 2^21 and sizes from 8 GiB on come back, too."""
    header = layer_header(b"a", Kind.FILE, mode=0o4755, uid=2**21, gid=3_000_000, size=9 << 30)
    with tarfile.open(fileobj=io.BytesIO(header + END)) as tar:
        info = tar.next()
    assert info
    assert (info.uid, info.gid, info.size, info.mode) == (2**21, 3_000_000, 9 << 30, 0o4755)


@pytest.mark.parametrize("length", range(80, 110))
def test_pax_lengths_count_themselves(length: int) -> None:
    """Around 99 and 100 the length's own digits change the length."""
    info = back(layer_header(b"a", Kind.FILE, xattrs=[(b"k", b"v" * length)]))
    assert info.pax_headers["SCHILY.xattr.k"] == "v" * length


def test_xattrs_and_devices() -> None:
    """A file capability survives with its zero bytes."""
    value = b"\x01\0\0\x02\0=\n"
    info = back(layer_header(b"a", Kind.FILE, xattrs=[(b"security.capability", value)]))
    assert info.pax_headers["SCHILY.xattr.security.capability"].encode("utf-8", "surrogateescape") == value
