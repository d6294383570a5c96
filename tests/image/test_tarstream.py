"""The strict reader, against tars that Python's tarfile wrote."""

from __future__ import annotations

import tarfile

import pytest

from sistership.errors import BuildError
from sistership.image.tarstream import Entry, Kind, entries

from .savefile import Item, directory, hardlink, span_of, symlink, tar_of


def read(data: bytes) -> list[Entry]:
    """All entries of a tar."""
    return list(entries(span_of(data), "layer 1"))


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("name", [b"a", b"n" * 100, b"n" * 101, b"d/" * 120 + b"f", b"\xff\xfe", b"\xc3\xa4" * 90])
def test_names_of_any_length_and_encoding(form: int, name: bytes) -> None:
    """ustar prefix, pax and GNU long names give the same bytes, for names and for both kinds of links."""
    items = [Item(name, data=b"x" * 513), symlink(b"s", name), hardlink(b"h", name)]
    file, soft, hard = read(tar_of(items, form=form))
    assert (file.path, soft.link, hard.link) == (name, name, name)
    assert file.content
    assert b"".join(file.content.chunks()) == b"x" * 513


def test_ustar_prefix() -> None:
    """A long name may be split over two fields."""
    (entry,) = read(tar_of([Item(b"p" * 90 + b"/" + b"n" * 90)], form=tarfile.USTAR_FORMAT))
    assert entry.path == b"p" * 90 + b"/" + b"n" * 90


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_large_owners(form: int) -> None:
    """Owners above 2^21 stand in pax records or in base 256."""
    (entry,) = read(tar_of([Item(b"a", uid=2**21 + 1, gid=4_000_000_000)], form=form))
    assert (entry.uid, entry.gid) == (2**21 + 1, 4_000_000_000)


def test_attributes() -> None:
    """Kind, mode without type bits, device and xattrs are read; a slash at the end makes a directory."""
    items = [
        directory(b"d", 0o2711),
        Item(b"cap", mode=0o4755, xattrs=(("security.capability", "x=y"),)),
        Item(b"null", tarfile.CHRTYPE, device=(1, 3)),
    ]
    folder, file, null = read(tar_of(items, type_bits=True))
    assert (folder.kind, folder.path, folder.mode) == (Kind.DIRECTORY, b"d", 0o2711)
    assert (file.mode, file.xattrs) == (0o4755, ((b"security.capability", b"x=y"),))
    assert (null.kind, null.device) == (Kind.CHARACTER, (1, 3))


@pytest.mark.parametrize("name", [b"./a//b/", b"/a/./b", b"a/b"])
def test_names_are_normalised(name: bytes) -> None:
    """Three spellings of one path."""
    assert read(tar_of([Item(name)]))[0].path == b"a/b"


@pytest.mark.parametrize("end", [0, 200, 511])
def test_a_missing_end_is_found(end: int) -> None:
    """A tar that stops at an entry's border is cut, not finished."""
    with pytest.raises(BuildError, match="no end marker"):
        read(tar_of([Item(b"a", data=b"x" * 512)])[: 1024 + end])


def test_a_cut_file_is_found() -> None:
    """A file whose bytes end early is not read as a shorter file."""
    with pytest.raises(BuildError, match="cut inside /a"):
        read(tar_of([Item(b"a", data=b"x" * 5000)])[:3000])


@pytest.mark.parametrize("at", [0, 101, 130, 150])
def test_a_damaged_header_is_found(at: int) -> None:
    """The header's checksum is checked; tarfile would end the list of files without an error."""
    data = bytearray(tar_of([Item(b"a"), Item(b"b")]))
    data[512 + at] ^= 2
    with pytest.raises(BuildError, match="damaged tar"):
        read(bytes(data))


def test_sparse_entries_are_refused() -> None:
    """Engines disagree on them, whichever way they are written."""
    info = tarfile.TarInfo("holes")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "holes"}
    with pytest.raises(BuildError, match="sparse"):
        read(info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    info = tarfile.TarInfo("holes")
    info.type = b"S"
    with pytest.raises(BuildError, match="sparse"):
        read(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def test_unknown_entry_types_are_refused() -> None:
    """Nothing is skipped in silence."""
    with pytest.raises(BuildError, match="unknown entry type"):
        read(tar_of([Item(b"volume", b"V")], form=tarfile.GNU_FORMAT))


@pytest.mark.parametrize("key", ["size", "uid", "gid"])
@pytest.mark.parametrize("value", ["-512", "1_0", " 1", "", "1" * 30])
def test_numbers_that_are_none_are_found(key: str, value: str) -> None:
    """A pax record that says how long a file is cannot send the reader backwards or end in a traceback."""
    info = tarfile.TarInfo("a")
    info.pax_headers = {key: value}
    with pytest.raises(BuildError, match=f"{key} is"):
        read(info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))


@pytest.mark.parametrize("value", [b"-000644\0", b"0o00644\0", b"00_0644\0", b"0000888\0"])
def test_fields_that_are_no_octal_number_are_found(value: bytes) -> None:
    """Python's int reads some of these."""
    data = bytearray(tar_of([Item(b"a")]))
    data[100:108], data[148:156] = value, b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    with pytest.raises(BuildError, match="no octal number"):
        read(bytes(data))


def test_global_records_do_not_count() -> None:
    """Engines read past them: a name in one would be in our tree alone."""
    head, body = tarfile.TarInfo("pax"), b"13 path=evil\n"
    head.type, head.size = tarfile.XGLTYPE, len(body)
    data = head.tobuf(tarfile.USTAR_FORMAT) + body.ljust(512, b"\0") + tar_of([Item(b"a")])
    assert [entry.path for entry in read(data)] == [b"a"]


@pytest.mark.parametrize(
    "body", [b"-1 a=\n\n", b"+9 path=y\n", b"5 a=b\n", b"x path=y\n", b"999 path=y\n", b"9 pathy\n\n", b"12 path=abc"]
)
def test_damaged_pax_records_are_found(body: bytes) -> None:
    """A record whose length or form is wrong is damage."""
    head = tarfile.TarInfo("pax")
    head.type, head.size = tarfile.XHDTYPE, len(body)
    data = head.tobuf(tarfile.USTAR_FORMAT) + body.ljust(512, b"\0") + tar_of([Item(b"a")])
    with pytest.raises(BuildError, match="damaged pax header"):
        read(data)
