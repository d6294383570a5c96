"""How far two ranges of bytes differ."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sistership.compare import extent as module
from sistership.compare.extent import extent, strings

from .made import span


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=40))
def test_counts_like_the_plain_way(head, tail, other):
    """First offset and count are those of a byte-by-byte comparison, for equal and unequal sizes."""
    a, b = head + tail, head + other + tail[len(other) :]
    found = extent(span(a), span(b))
    pairs = [at for at, (one, two) in enumerate(zip(a, b, strict=False)) if one != two]
    if len(a) == len(b):
        assert found == (pairs[0] if pairs else None, len(pairs))
    else:
        assert found == (pairs[0] if pairs else min(len(a), len(b)), None)


def test_across_chunks():
    """Differences in several chunks are all counted, with offsets from the beginning."""
    data = bytearray(b"x" * (3 << 20))
    other = data.copy()
    other[1_500_000] = other[1_500_001] = other[3_000_000] = 0
    assert extent(span(bytes(data)), span(bytes(other))) == (1_500_000, 3)


@pytest.mark.parametrize("shift", [b"", b"and a longer one\0"])
def test_strings_of_one_side(shift):
    """Only what one side alone has is told, also when all that follows has moved."""
    common = b"\0".join(b"common string %d" % number for number in range(2000)) + b"\0"
    a = common + b"built in /home/a\0" + common
    b = common + b"built in /home/b\0" + shift + common
    longer = ("and a longer one",) if shift else ()
    assert strings(span(a), span(b)) == (("built in /home/a",), ("built in /home/b", *longer))


def test_many_strings_are_cut(monkeypatch):
    """A range where everything differs gives no more strings than are of use."""
    monkeypatch.setattr(module, "MOST", 5)
    a, b = (b"\0".join(b"%s number %d" % (name, number) for number in range(500)) for name in (b"one", b"two"))
    assert [len(side) for side in strings(span(a), span(b))] == [5, 5]


def test_memory_stays_small():
    """Two ranges of 48 MiB that differ in places and in size are compared in a tenth of that memory."""
    block = bytes(range(256)) * 4096
    a = span(block * 48)
    b, longer = span(block * 20 + b"z" * len(block) + block * 27), span(block * 30 + b"!" + block * 18)
    tracemalloc.start()
    extent(a, b)
    strings(a, b)
    extent(a, longer)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20
