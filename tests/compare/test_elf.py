"""Reading ELF files."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sistership.compare import elf as reader
from sistership.compare.elf import ElfError
from sistership.image.spans import Span

from .made import NOBITS, Made, elf, note, span

SAMPLE = elf(
    {".text": b"\xc3" * 20, ".bss": Made(type=NOBITS, size=1 << 40), ".note.gnu.build-id": note(bytes(range(20)))},
    symbols=("a.c", "tmpxft_000054e0_00000000-6_b.cudafe1.cpp"),
    loader=((1, "libc.so.6"), (14, "libx.so.0"), (29, "$ORIGIN"), (15, "/build")),
)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", "<>")
def test_every_class_and_byte_order(bits, order):
    """32 and 64 bit, little and big endian files give the same sections, symbols, entries and build-id."""
    data = elf(
        {".text": b"code", ".note.gnu.build-id": note(b"\xab\xcd", order)},
        symbols=("a.c", "b.c"),
        loader=((1, "libm.so.6"),),
        bits=bits,
        order=order,
    )
    found = reader.read(span(data))
    assert (found.bits, found.order, found.machine) == (bits, order, 62)
    text = found.find(".text")
    assert text
    assert text.executable
    assert text.content
    assert text.content.read(0, 9) == b"code"
    assert reader.file_symbols(found) == ("a.c", "b.c")
    assert reader.dynamic(found) == ("NEEDED libm.so.6",)
    assert reader.build_id(found) == "abcd"


def test_the_sample():
    """Loader entries keep their order, .bss has a size and no bytes, other symbols are left out."""
    found = reader.read(span(SAMPLE))
    assert reader.dynamic(found) == ("NEEDED libc.so.6", "SONAME libx.so.0", "RUNPATH $ORIGIN", "RPATH /build")
    assert reader.file_symbols(found)[1].startswith("tmpxft_")
    bss = found.find(".bss")
    assert bss
    assert bss.content is None
    assert bss.size == 1 << 40


def test_a_file_without_sections():
    """Stripped of its section table a file has no sections, symbols, entries or build-id."""
    bare = bytearray(SAMPLE)
    bare[40:48] = bytes(8)
    found = reader.read(span(bytes(bare)))
    assert found.sections == ()
    assert (reader.file_symbols(found), reader.dynamic(found), reader.build_id(found)) == ((), (), "")


@pytest.mark.parametrize("size", [0, 3, 16, 63, 64, 200, len(SAMPLE) - 1])
def test_cut_files_are_refused(size):
    """A file that ends early is an error, never fewer sections."""
    with pytest.raises(ElfError):
        reader.read(span(SAMPLE[:size]))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), max_size=8))
@example([(47, 128)])
@example([(60, 255), (61, 255)])
@example([(41, 255), (47, 127)])
def test_damage_is_an_elf_error_or_nothing(hits):
    """Whatever bytes are damaged, the reader ends with a result or an ElfError."""
    data = bytearray(SAMPLE)
    for at, value in hits:
        data[at] = value
    try:
        found = reader.read(span(bytes(data)))
        reader.file_symbols(found)
        reader.dynamic(found)
        reader.build_id(found)
    except ElfError:
        pass


def test_real_files():
    """The interpreter's own file is read as binutils read it, where they are installed."""
    with open(sys.executable, "rb") as file:  # noqa: PTH123 - a plain binary file
        found = reader.read(Span.whole(file))
        names = [section.name for section in found.sections]
        loader = reader.dynamic(found)
    assert ".text" in names
    assert any(line.startswith("NEEDED libc") for line in loader)
    if shutil.which("readelf"):
        told = subprocess.run(["readelf", "-SW", sys.executable], capture_output=True, text=True, check=True).stdout
        assert [name for name in names if f" {name} " not in told] == []
        assert told.count("\n  [") - 1 >= len(names)
