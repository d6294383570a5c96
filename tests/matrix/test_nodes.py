"""YAML as text: nothing is re-typed, nothing is lost, everything has a place."""

from __future__ import annotations

import pytest

from sistership.errors import MatrixError
from sistership.matrix.nodes import MAX_BYTES, Mark, read


def data(text):
    """The values of a document without problems."""
    document = read(text.encode(), "m.yaml")
    assert document.problems == []
    return document.data


@pytest.mark.parametrize(
    "text",
    [
        "680841e1",
        "1234e567",
        "9509425349e4",
        "84e908c6",
        "12.10",
        "13.0",
        "0755",
        "0o755",
        "1_000",
        "190:20:30",
        "2026-05-01",
        "no",
        "On",
        "True",
        ".inf",
        "0x1F",
        "=",
    ],
)
def test_plain_scalars_stay_their_text(text):
    """No float, no octal, no boolean, no date, no sexagesimal number: the text that was written."""
    assert data(f"key: {text}\nlist: [{text}]\n") == {"key": text, "list": [text]}


@pytest.mark.parametrize("key", ["no", "on", "Yes", "null", "~", "12.10", "0755"])
def test_keys_stay_their_text(key):
    """A key is never a boolean, a number or nothing."""
    assert data(f"{key}: x\n") == {key: "x"}


def test_nothing_is_none_only_when_plain():
    """`null`, `~` and an empty value are None; quoted, they are text."""
    assert data("a: null\nb: ~\nc:\nd: 'null'\ne: \"\"\n") == {"a": None, "b": None, "c": None, "d": "null", "e": ""}


def test_merges_may_be_overridden():
    """`<<` takes one mapping or several, the earlier ones win, and the mapping's own keys win over all."""
    text = """
    x-a: &a {one: a, two: a}
    x-b: &b {two: b, three: b}
    m: {<<: [*a, *b], one: own}
    n: {<<: *a}
    """
    document = data(text)
    assert document["m"] == {"one": "own", "two": "a", "three": "b"}
    assert document["n"] == {"one": "a", "two": "a"}


def test_a_quoted_merge_key_is_a_name():
    """Only the plain `<<` merges."""
    assert data('{"<<": x}\n') == {"<<": "x"}


def test_positions_count_from_one():
    """Keys and values have their line and column, merged ones where they were written."""
    document = read(b"a: &x {k: 1}\nb:\n  <<: *x\n  list:\n    - y\n", "m.yaml")
    assert document.keys["b", "list"] == Mark(4, 3)
    assert document.values["b", "list", 0] == Mark(5, 7)
    assert document.keys["b", "k"] == Mark(1, 8)
    assert document.mark(("b", "missing", 3)) == Mark(2, 1)
    assert document.mark(("nowhere",)) == Mark(1, 1)


def test_byte_order_mark_and_windows_line_ends():
    """A file saved on Windows reads the same."""
    document = read(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "m.yaml")
    assert document.data == {"a": "1", "b": "2"}
    assert document.keys["b",] == Mark(2, 1)


def test_duplicate_keys_inside_an_anchor_are_told_once():
    """However often the anchor is merged; both lines are named."""
    document = read(b"x: &x\n  k: 1\n  k: 2\na: {<<: *x}\nb: {<<: *x}\n", "m.yaml")
    assert [str(problem) for problem in document.problems] == [
        'm.yaml:3:3: duplicate key "k", first on line 2\n  next: keep one of lines 2 and 3'
    ]


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"a: b\nc: \xff\n", (2, 4), "this byte is not UTF-8"),
        (b"a: b\nc: \x00\n", (2, 4), "the character 0 is not allowed in YAML"),
        (b"a: [1\nb: 2\n", (2, 2), "not YAML: expected ',' or ']', but got ':', while parsing a flow sequence"),
        (
            b"a: 1\n---\nb: 2\n",
            (2, 1),
            "not YAML: but found another document, expected a single document in the stream",
        ),
        (b"a: *nobody\n", (1, 4), "not YAML: found undefined alias 'nobody'"),
        (b"[" * 500, (1, 1), "the values are nested too deeply"),
        (b" " * (MAX_BYTES + 1), (1, 1), f"the file has more than {MAX_BYTES} bytes"),
    ],
    ids=["utf-8", "control", "bracket", "documents", "alias", "deep", "big"],
)
def test_what_is_no_yaml_has_a_place(content, place, message):
    """A file that cannot be read at all says where, and never ends in a traceback."""
    with pytest.raises(MatrixError) as caught:
        read(content, "m.yaml")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == place
    assert problem.message == message


def test_aliases_that_multiply_stop_early():
    """A mapping of merges of merges is read once each, and expansion is bounded."""
    lines = ["x-0: &a0 {k: v}"] + [f"x-{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    document = read("\n".join(lines).encode(), "m.yaml")
    (problem,) = document.problems
    assert problem.message.startswith("more than 20000 values or 40 levels")
