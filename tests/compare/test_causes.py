"""One proof per row of the cause table: the evidence that shows it, and the part of the file that is named."""

from __future__ import annotations

import gzip
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sistership.compare import Difference, Kind, Part, What
from sistership.compare.causes import causes_of, every_cause
from sistership.compare.evidence import Evidence

from .made import Made, ar, elf, note, told

# As nvcc 13.5 makes them: two compiles in one directory, one in another, one with -frandom-seed.
FIRST = b"_ZN45_GLOBAL__N__ac2a7c9e_7_anon_cu_4728ea6c_217351kEPf\0"
AGAIN = b"_ZN45_GLOBAL__N__ac2a7c9e_7_anon_cu_4728ea6c_217561kEPf\0"
ELSEWHERE = b"_ZN45_GLOBAL__N__91980d95_7_anon_cu_44b177f1_217351kEPf\0"
SEEDED = b"_ZN39_GLOBAL__N__ac2a7c9e_7_anon_cu_1ea440941kEPf\0"

AVX512 = bytes.fromhex("62f17c4858c1") * 40
AVX = bytes.fromhex("c5fc58c1c4e27db8c2") * 40
PLAIN = bytes.fromhex("0f58c14889e5") * 60


def data(text: str) -> bytes:
    """A file whose .rodata holds this among other things."""
    return elf({".text": PLAIN, ".rodata": b"\1\2ggml\0other string\0" + text.encode() + b"\0the end\0"})


def lines(*texts: str) -> bytes:
    """A text."""
    return "".join(f"{text}\n" for text in texts).encode()


SUM = "0" * 64
FATBIN = {".text": PLAIN, ".nv_fatbin": b"\x50\xed\x55\xba" + bytes(60)}
OTHER_FATBIN = {**FATBIN, ".nv_fatbin": b"\x50\xed\x55\xba" + bytes(50) + b"\x91" * 10}

#: id of the cause → A, B, the part that shows it.
CONTENTS: dict[str, tuple[bytes, bytes, str]] = {
    "nvcc-file-symbol": (
        elf({".text": PLAIN}, symbols=("tmpxft_000054e0_00000000-6_a.cudafe1.cpp",)),
        elf({".text": PLAIN}, symbols=("tmpxft_000054f5_00000000-6_a.cudafe1.cpp",)),
        ".strtab",
    ),
    "nvcc-path-hash": (elf({".nv_fatbin": FIRST}), elf({".nv_fatbin": ELSEWHERE}), ".nv_fatbin"),
    "nvcc-module-id": (elf({".rodata": FIRST}), elf({".rodata": AGAIN}), ".rodata"),
    "nvcc-device-code": (elf(FATBIN), elf(OTHER_FATBIN), ".nv_fatbin"),
    "ccache": (data("/root/.ccache/tmp/cpp_stdout.i"), data("x"), ".rodata"),
    "source-path": (data("/home/ann/llama/src/ggml.c:12"), data("./src/ggml.c:12"), ".rodata"),
    "debug-path": (
        elf({".debug_line_str": b"/home/ann/build\0"}),
        elf({".debug_line_str": b"/src\0"}),
        ".debug_line_str",
    ),
    "rpath": (elf(loader=((29, "/home/ann/build/bin"),)), elf(loader=((29, "$ORIGIN"),)), ".dynamic"),
    "found-library": (elf(loader=((1, "libc.so.6"), (1, "libnccl.so.2"))), elf(loader=((1, "libc.so.6"),)), ".dynamic"),
    "soname": (elf(loader=((14, "libggml.so.0.9.1"),)), elf(loader=((14, "libggml.so.0.9.2"),)), ".dynamic"),
    "date-macro": (data("built Nov 29 2026 14:38:43"), data("built Nov 29 2026 14:38:45"), ".rodata"),
    "compiler": (
        elf({".comment": b"GCC: (Debian 12.2.0-14) 12.2.0\0"}),
        elf({".comment": b"GCC: (Debian 12.3.0-1) 12.3.0\0"}),
        ".comment",
    ),
    "native": (elf({".text": AVX + AVX512}), elf({".text": AVX * 2}), ".text"),
    "epoch-in-cmake": (elf({".text": AVX}), elf({".text": PLAIN}), ".text"),
    "strip": (elf({".text": PLAIN}, symbols=("a.c",)), elf({".text": PLAIN}), ".symtab"),
    "lto-seed": (elf({".gnu.lto_main.12ab": b"x"}), elf({".gnu.lto_main.98fe": b"x"}), ".gnu.lto_main.12ab"),
    "ar-header": (ar([("a.o", b"1")], mtime=1_700_000_000), ar([("a.o", b"1")], mtime=1_800_000_000), "a.o/header"),
    "gzip-header": (gzip.compress(b"x" * 99, mtime=1), gzip.compress(b"x" * 99, mtime=2), "gzip header"),
    "sort-order": (lines("B", "a", "c"), lines("a", "B", "c"), "line 1"),
    "input-order": (ar([("a.o", b"1"), ("b.o", b"2")]), ar([("b.o", b"2"), ("a.o", b"1")]), "order"),
    "line-ends": (b"one\ntwo\n", b"one\r\ntwo\r\n", "line 1"),
    "timestamp": (lines("x", "built 2026-05-01T10:00:00Z"), lines("x", "built 2026-05-02T11:30:00Z"), "line 2"),
    "commit": (data("version: 9079 (30d6881e)"), data("version: 9079 (30d6881e-dirty)"), ".rodata"),
    "build-number": (data("build b9079"), data("build b1"), ".rodata"),
    "other-code": (elf({".text": PLAIN}), elf({".text": PLAIN[:-6] + b"\x90" * 6}), ".text"),
    "symbol-names": (elf(symbols=("a.c",)), elf(symbols=("b.c",)), ".strtab"),
    "build-id": (elf({".note.gnu.build-id": note(b"1" * 20)}), elf({".note.gnu.build-id": note(b"2" * 20)}),
                 ".note.gnu.build-id"),
    "checksums": (lines(f"{SUM}  /app/a"), lines(f"{SUM[:-1]}1  /app/a"), "line 1"),
}  # fmt: skip

#: id of the cause → kind, path, detail.
OTHERS: dict[str, tuple[Kind, str, str]] = {
    "file-times": (Kind.TIMES, "", ""),
    "owner": (Kind.OWNER, "/app/x", "0:0 in A, 1000:1000 in B"),
    "entry-order": (Kind.ORDER, "", ""),
    "umask": (Kind.MODE, "/app/x", "0644 in A, 0664 in B"),
    "xattr": (Kind.XATTR, "/app/x", ""),
    "hard-links": (Kind.LINK, "/app/x", "a hard link to app/y in A, a file of 3 bytes in B"),
    "base-image": (Kind.LAYER, "", "the base image's own layer is 1 in A, 2 in B"),
    "other-recipe": (Kind.CONFIG, "config.Labels.org.opencontainers.image.revision", ""),
    "toolchain": (Kind.INPUT, "toolchain.gcc", "12.2 in A, 13.1 in B"),
    "tar-writer": (Kind.FORM, "", ""),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_the_cause_is_told(name):
    """The evidence of a row leads to this cause first, and to the part of the file that shows it."""
    a, b, place = CONTENTS[name]
    parts, causes = told(a, b)
    assert causes[0] == name
    assert place in parts
    parts, causes = told(b, a)
    assert causes[0] == name


@pytest.mark.parametrize("name", OTHERS)
def test_the_cause_of_a_layer_is_told(name):
    """What is no content has its causes by kind, path and detail."""
    kind, path, detail = OTHERS[name]
    assert [cause.id for cause in causes_of(Difference(2, "COPY", path, kind, detail))] == [name]


def test_every_row_has_a_proof():
    """A row without evidence here is a row that nobody has seen work; ids are unique and every cure says something."""
    causes = every_cause()
    assert sorted(cause.id for cause in causes) == sorted({*CONTENTS, *OTHERS})
    assert all(cause.why and cause.cure and cause.source for cause in causes)


def test_several_causes_the_surest_first():
    """An unstripped CUDA library: FILE symbol, module id and compiler together, the build-id last."""
    a = elf({".text": PLAIN, ".nv_fatbin": FIRST, ".comment": b"GCC: 12.2\0", ".note.gnu.build-id": note(b"1" * 20)},
            symbols=("tmpxft_000054e0_00000000-6_a.cudafe1.cpp",))  # fmt: skip
    b = elf({".text": PLAIN, ".nv_fatbin": AGAIN, ".comment": b"GCC: 12.3\0", ".note.gnu.build-id": note(b"2" * 20)},
            symbols=("tmpxft_000054f5_00000000-6_a.cudafe1.cpp",))  # fmt: skip
    parts, causes = told(a, b)
    assert causes == ("nvcc-file-symbol", "nvcc-module-id", "compiler", "build-id")
    assert next(reversed(parts)) == ".note.gnu.build-id"


def test_another_directory_and_another_process():
    """Both hashes moved: the path comes first, since a seed alone does not cure it."""
    other = ELSEWHERE.replace(b"21735", b"21835")
    assert told(elf({".rodata": FIRST}), elf({".rodata": other}))[1] == ("nvcc-path-hash", "nvcc-module-id")


def test_a_seed_on_one_side_only():
    """A build with -frandom-seed against one without is the module id's row, not the path's."""
    assert told(elf({".rodata": FIRST}), elf({".rodata": SEEDED}))[1] == ("nvcc-module-id",)


def test_process_numbers_in_readable_device_code():
    """Names of one process that differ in what follows the number are one name: no row of nvcc."""
    a = b"_ZN45_GLOBAL__N__ac2a7c9e_7_anon_cu_4728ea6c_217351kEPf\0"
    b = b"_ZN45_GLOBAL__N__ac2a7c9e_7_anon_cu_4728ea6c_217352kkEPf\0"
    assert not [cause for cause in told(elf({".rodata": a}), elf({".rodata": b}))[1] if cause.startswith("nvcc")]


def test_names_of_nvcc_are_no_commit():
    """The hash of a path looks like an abbreviated commit and is none."""
    assert "commit" not in told(elf({".rodata": FIRST}), elf({".rodata": ELSEWHERE}))[1]


def test_an_unknown_commit():
    """A build without .git says `unknown` where the other has its commit."""
    assert told(data("build: 9079 (30d6881e)"), data("build: 9079 (unknown)"))[1][0] == "commit"


def test_a_member_of_an_archive_is_named():
    """What differs inside a member is told by member and section, with the section's own cause."""
    a, b = (ar([("same.o", b"1"), ("a-rather-long-name.cpp.o", data(f"{way}/a.c"))]) for way in ("/home/ann", "/src"))
    parts, causes = told(a, b)
    assert list(parts) == ["a-rather-long-name.cpp.o/.rodata"]
    assert causes == ("source-path",)


def test_inside_gzip():
    """A gzip file is looked into: other bytes under the same header are lines of the packed text."""
    a, b = (gzip.compress(f"one\nat 2026-01-0{day}\n".encode(), mtime=0) for day in (1, 2))
    parts, causes = told(a, b)
    assert list(parts) == ["packed/line 2"]
    assert causes == ("timestamp",)


def test_the_same_bytes_packed_another_way():
    """Equal content under another level is the header's row, and not called a difference of the content."""
    text = b"some text " * 500
    parts, causes = told(gzip.compress(text, 1, mtime=0), gzip.compress(text, 9, mtime=0))
    assert causes == ("gzip-header",)
    assert not any(place.startswith("packed/") for place in parts)


def test_no_cause_is_better_than_a_wrong_one():
    """Plain bytes of a model file differ for a reason that no row knows."""
    parts, causes = told(b"\0\1" + bytes(90), b"\0\2" + bytes(90))
    assert causes == ()
    assert parts[""].detail == "1 of 92 bytes differ, first at 0x1"


@pytest.mark.parametrize("cut", [70, 100, -9])
def test_a_damaged_file_is_compared_as_bytes(cut):
    """Files that begin like ELF or ar and are cut are still told apart."""
    for whole in (elf({".text": PLAIN, ".rodata": b"x" * 90}), ar([("a.o", b"1" * 90)])):
        parts, _ = told(whole, whole[:cut])
        assert list(parts) == [""]


def test_bytes_outside_of_every_section():
    """Two ELF files whose sections are equal differ in bytes that belong to none."""
    whole = elf({".text": PLAIN})
    parts, _ = told(whole + b"1", whole + b"2")
    assert parts[""].differing == 1


def test_other_machines():
    """An arm64 file against an amd64 one says so, and guesses nothing from instruction prefixes."""
    parts, causes = told(elf({".text": AVX}, machine=183), elf({".text": PLAIN}))
    assert parts["header"].only == (("64 bit, machine 183, type 3",), ("64 bit, machine 62, type 3",))
    assert parts[".text"].code is None
    assert "epoch-in-cmake" not in causes


def test_chance_is_no_instruction_set():
    """A few prefixes in other bytes, and unequal sizes, are not taken for AVX."""
    few = PLAIN + bytes.fromhex("c5fc58c1") * 3
    assert told(elf({".text": few}), elf({".text": PLAIN}))[1] == ("other-code",)


def test_sections_named_by_nvcc_are_paired():
    """Object files name sections after what they hold; a process number in the name makes no other section."""
    names = [f".text.{name.decode()[:-1]}" for name in (FIRST, AGAIN, SEEDED)]
    for other in names[1:]:
        parts, causes = told(elf({names[0]: PLAIN}), elf({other: PLAIN}))
        assert parts[names[0]].note == f"named {other} in B"
        assert causes == ("nvcc-module-id",)


def test_no_size_without_bytes():
    """.bss that grew is a difference although the file holds no byte of it."""
    a, b = (elf({".text": PLAIN, ".bss": Made(type=8, size=size)}) for size in (64, 128))
    assert told(a, b)[0][".bss"].detail == "64 bytes in A, 128 in B"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6), st.lists(st.text(max_size=60), max_size=6))
def test_any_strings_give_an_answer(mine, theirs):
    """Whatever strings two sections hold, the table answers, and never with a layer's row."""
    part = Part((".rodata",), What.SECTION, (9, 9), 3, 0, (tuple(mine), tuple(theirs)))
    found = Difference(1, "COPY", "/x", Kind.CONTENT, "", (part,))
    assert {cause.id for cause in causes_of(found)} <= {*CONTENTS}
    assert Evidence(found).moved_files([part]) is None or mine != theirs


def test_long_strings_take_no_time():
    """Strings without an end, as device code has them, are searched in linear time or nearly so."""
    part = Part(
        (".rodata",), What.SECTION, (9, 9), 3, 0, (("x/" * 250, "a" * 500) * 100, ("1" * 500, "a." * 250) * 100)
    )
    causes_of(Difference(1, "COPY", "/x", Kind.CONTENT, "", (part,)))


def test_big_endian_and_32_bit_files_compare():
    """Sections of a 32-bit big-endian file are told like any others."""
    a, b = (elf({".rodata": struct.pack(">I", 7) + text}, bits=32, order=">") for text in (b"old one", b"new one"))
    assert told(a, b)[0][".rodata"].only == (("old one",), ("new one",))
