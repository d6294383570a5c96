"""Arch lists: one meaning, one form; and what compiles and runs where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from sistership.matrix.cuda import (
    TOOLKITS,
    ArchError,
    canonical,
    code_names,
    parse_arch,
    parse_toolkit,
    runs_on,
    supported,
    unsupported,
)

SPELLINGS = ["89;120", "120;89", ["89", "120"], ["120", "89", "89"], "89,120", "89 120", " 89 ; 120; ", ["89;120"]]
TOKENS = st.sampled_from([f"{number}{suffix}" for number in TOOLKITS for suffix in ("", "-real", "-virtual")])


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_spellings_are_one_list(spelling):
    """Order, duplicates and separators do not make another list."""
    assert canonical(spelling) == ("89", "120")


def test_a_scalar_is_a_list_of_one():
    """One arch needs no brackets."""
    assert canonical("89") == ("89",)


@pytest.mark.parametrize(
    ("archs", "wanted"),
    [
        (["89", "121a"], ("89", "121a")),
        (["120f", "89-real", "75-virtual"], ("75-virtual", "89-real", "120f")),
        (["120", "100", "90", "89"], ("89", "90", "100", "120")),
        (["120a", "120"], ("120", "120a")),
        (["120f-virtual", "90a-real"], ("90a-real", "120f-virtual")),
    ],
)
def test_suffixes_are_kept_and_numbers_sort_as_numbers(archs, wanted):
    """Canonical order is numeric, then by suffix."""
    assert canonical(archs) == wanted


@given(st.lists(TOKENS, min_size=1, max_size=8, unique_by=lambda token: token.partition("-")[0]), st.data())
def test_canonical_is_idempotent_and_independent_of_spelling(tokens, data):
    """Any order, repetition and separator gives the same list, and that list is its own canonical form."""
    shuffled = data.draw(st.permutations(tokens + tokens[:2]))
    separators = data.draw(st.lists(st.sampled_from([";", ",", " ", "; ", " ,"]), min_size=16, max_size=16))
    text = "".join(token + separator for token, separator in zip(shuffled, separators, strict=False))
    wanted = canonical(tokens)
    assert canonical(text) == wanted
    assert canonical(wanted) == wanted
    assert sorted(wanted) == sorted(set(tokens))


@pytest.mark.parametrize(
    ("token", "message", "hint"),
    [
        ("089", 'arch "089" begins with a zero', "write 89"),
        ("0120f", 'arch "0120f" begins with a zero', "write 120f"),
        ("89x", 'arch "89x" has an unknown form', "write for example 89, 120a, 120f, 89-real or 75-virtual"),
        ("62.5", 'arch "62.5" is not how CMake names it', "write 625"),
        ("native", 'arch "native" depends on the machine that builds or on the toolkit', None),
        ("OFF", 'arch "OFF" depends on the machine that builds or on the toolkit', None),
        ("86a", "arch 86 has no form with the suffix a", "write 86"),
        ("90f", "arch 90 has no form with the suffix f", "write 90"),
    ],
)
def test_other_tokens_are_refused_with_the_right_one(token, message, hint):
    """What CMake would not understand is refused here, with what to write instead."""
    with pytest.raises(ArchError) as caught:
        canonical(["75", token])
    assert str(caught.value) == message
    assert hint is None or caught.value.hint == hint


@pytest.mark.parametrize("archs", ["", " ; ", [], [""], ["89", ""], [" ", "89"]])
def test_an_empty_list_is_refused(archs):
    """An empty CMAKE_CUDA_ARCHITECTURES means the builder's own cards; an empty entry is a lost arch."""
    with pytest.raises(ArchError, match="empty"):
        canonical(archs)


@pytest.mark.parametrize("pair", ["89;89-real", "89-virtual 89-real", "120f,120f-virtual"])
def test_one_arch_in_two_kinds_is_refused(pair):
    """89 holds 89-real already: two spellings of one set."""
    with pytest.raises(ArchError, match="overlap"):
        canonical(pair)


@pytest.mark.parametrize(
    ("arch", "toolkit", "reason"),
    [
        ("61", "13.0", "CUDA 12.9 is the last that knows it"),
        ("70", "13.0.1", "CUDA 12.9 is the last that knows it"),
        ("61", "12.9.1", None),
        ("61", "12.8.1", None),
        ("120", "12.7", "it needs CUDA 12.8 or newer"),
        ("120", "12.8.1", None),
        ("120", "12.10", None),
        ("120", "13.0", None),
        ("120f", "12.8.1", "it needs CUDA 12.9 or newer"),
        ("120f", "12.9.0", None),
        ("110f", "12.9.0", "it needs CUDA 13.0 or newer"),
        ("121a", "12.8.1", "it needs CUDA 12.9 or newer"),
        ("90", "11.8", None),
        ("90a", "11.8", "it needs CUDA 12.0 or newer"),
        ("89-real", "11.7", "it needs CUDA 11.8 or newer"),
        ("101", "13.0", "CUDA 12.9 is the last that knows it"),
    ],
)
def test_toolkit_and_arch(arch, toolkit, reason):
    """The table of first and last toolkits, the later `a` of 90, and `f` from 12.9 on."""
    assert unsupported(arch, toolkit) == reason
    assert supported(arch, toolkit) is (reason is None)


def test_cuda_13_knows_what_nvcc_lists():
    """The table agrees with `nvcc --list-gpu-arch` of 13.0.88."""
    known = [number for number in TOOLKITS if supported(str(number), "13.0")]
    assert known == [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121]


def test_toolkit_versions_compare_by_part():
    """12.10 is newer than 12.8, and is not 12.1."""
    assert parse_toolkit("12.10") > parse_toolkit("12.8.1") > parse_toolkit("12.1")
    assert parse_toolkit("12.10") == Version("12.10")


@pytest.mark.parametrize("text", ["12", "12.", "v12.8", "12.8.1.2", "12.8-devel", ""])
def test_other_toolkit_texts_are_refused(text):
    """A toolkit version is two or three numbers."""
    with pytest.raises(ValueError, match="not a CUDA toolkit version"):
        parse_toolkit(text)


@pytest.mark.parametrize(
    ("archs", "capability", "runs"),
    [
        (["89"], "8.9", True),
        (["89"], "12.0", True),
        (["89-real"], "12.0", False),
        (["86-real"], "8.9", True),
        (["89-real"], "8.6", False),
        (["75-virtual"], "8.9", True),
        (["89", "120"], "12.0", True),
        (["120-real"], "12.1", False),
        (["120"], "12.1", False),
        (["120f"], "12.1", True),
        (["121f"], "12.0", False),
        (["120a"], "12.1", False),
        (["89"], "7.5", False),
        (["100"], "10.3", True),
    ],
)
def test_which_cards_run_it(archs, capability, runs):
    """Machine code within a major version, PTX upwards, `a` exactly, `f` in its family; llama.cpp makes 120 exact."""
    assert runs_on(archs, capability) is runs


def test_arch_keeps_its_parts():
    """An arch is number, letter and kind, and reads back as it was written."""
    arch = parse_arch("120f-virtual")
    assert (arch.number, arch.letter, arch.kind, str(arch)) == (120, "f", "virtual", "120f-virtual")


@pytest.mark.parametrize(
    ("arch", "names"),
    [
        ("89", ("sm_89",)),
        ("89-real", ("sm_89",)),
        ("90a", ("sm_90a",)),
        ("120", ("sm_120", "sm_120a")),
        ("120a-real", ("sm_120a",)),
        ("120f", ("sm_120f", "sm_120")),
        ("75-virtual", ("compute_75",)),
        ("120-virtual", ("compute_120", "compute_120a")),
    ],
)
def test_code_of_an_arch_is_known_by_name(arch, names):
    """As cuobjdump lists it, whether llama.cpp made the arch exact or not (names of 13.2)."""
    assert code_names(arch) == names
