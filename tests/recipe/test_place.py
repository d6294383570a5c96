from __future__ import annotations

import contextlib
import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sistership.recipe import place
from sistership.recipe.diff import DiffError, FileDiff, Hunk, lines, parse

#: Few different lines, so that places look alike; carriage returns and bytes that are no text among them.
ROWS = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"a\r\n", b"\n", b"\xff\x00\n", b"+\n", b"--- x\n", b"@@ y\n"]), max_size=30
)


def diff(old: list[bytes], new: list[bytes], context: int = 3) -> bytes:
    """A unified diff of two lists of lines, as `diff -u` writes it."""
    rows = difflib.diff_bytes(difflib.unified_diff, old, new, b"a/f", b"b/f", n=context)
    return b"".join(rows)


@given(ROWS, ROWS)
def test_a_diff_gives_its_new_side(old, new):
    """Whatever the lines are, a patch on what it was made for gives exactly what it was made from."""
    if old == new or not old:
        return
    made = place.apply(parse(diff(old, new)), {b"f": b"".join(old)}.get)
    assert not isinstance(made, place.Misfit)
    assert made[b"f"] == b"".join(new)


@given(ROWS, ROWS, ROWS)
def test_never_a_guess(old, new, other):
    """On any other file the answer is a refusal, or one where each changed place was the only one."""
    if old == new or not old:
        return
    diffs = parse(diff(old, new))
    made = place.apply(diffs, {b"f": b"".join(other)}.get)
    if isinstance(made, place.Misfit):
        return
    now = tuple(other)
    for hunk in diffs[0].hunks:
        found = place.places(hunk.before, now)
        exact = now[hunk.index : hunk.index + len(hunk.before)] == hunk.before
        assert exact or len(found) == 1
        at = hunk.index if exact else found[0]
        now = (*now[:at], *hunk.after, *now[at + len(hunk.before) :])
    assert made[b"f"] == b"".join(now)


@given(st.binary(max_size=200))
def test_lines_lose_nothing(data):
    """Only line feeds divide, and the parts are the whole."""
    assert b"".join(lines(data)) == data
    assert all(row.count(b"\n") <= 1 for row in lines(data))


@given(st.binary(max_size=300))
def test_parse_never_breaks(data):
    """Any bytes are a patch or a DiffError."""
    with contextlib.suppress(DiffError):
        parse(data)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (b"a/plain", b"plain"),
        (b"a/dir/with space\t2026-01-01", b"dir/with space"),
        (b'"a/\\303\\244 \\"q\\"\\t"', 'ä "q"\t'.encode()),
        (b"/dev/null", None),
    ],
)
def test_paths(name, path):
    """Paths are read as git and diff write them."""
    patch = b"--- " + name + b"\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
    assert parse(patch)[0].old == path


def test_heading_is_kept():
    """The function after the second @@ tells which of two places was meant."""
    patch = b"--- a/f\n+++ b/f\n@@ -5,2 +5,3 @@ int main(void) {\n a\n+x\n b\n"
    assert parse(patch) == (
        FileDiff(b"f", b"f", (Hunk(1, 5, (b"a\n", b"b\n"), (b"a\n", b"x\n", b"b\n"), b"int main(void) {"),)),
    )


def test_label_is_no_function():
    """A `public:` or a goto label between the function and the place does not hide the function."""
    hunk = Hunk(1, 9, (b"  x\n",), (b"  y\n",), b"class C {")
    assert place.place(hunk, (b"class C {\n", b"public:\n", b"  x\n")) == 2
    assert isinstance(place.place(hunk, (b"class C {\n", b"int other() {\n", b"  x\n")), str)
