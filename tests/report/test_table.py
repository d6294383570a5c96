"""Tables at every width."""

from __future__ import annotations

import io

from sistership.report.lines import Lines
from sistership.report.table import coloured, render, wrap


def test_columns_line_up_and_only_the_last_is_wrapped() -> None:
    """IDs are never cut; a long reason goes on below its own column."""
    text = render(("HOST", "WHY"), [("a", "x"), ("longname", "one two three four five six")], width=30)
    assert text.splitlines() == [
        "HOST      WHY",
        "a         x",
        "longname  one two three four",
        "          five six",
    ]


def test_colour_keeps_columns() -> None:
    """Colour codes take no room."""
    text = render(("A", "B", "C"), [("ok", "yy", "z")], colour={0: ["good"]})
    assert text.splitlines()[1] == "\x1b[32mok\x1b[0m  yy  z"


def test_no_colour_in_pipes_or_when_unwanted() -> None:
    """A pipe gets none, and NO_COLOR is honoured."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert not coloured(io.StringIO(), {})
    assert coloured(Terminal(), {})
    assert not coloured(Terminal(), {"NO_COLOR": "1"})
    assert not coloured(Terminal(), {"TERM": "dumb"})


def test_wrap_cuts_words_only_when_it_must() -> None:
    """Words stay whole unless one is longer than the line."""
    assert wrap("aa bb cc", 5) == ["aa bb", "cc"]
    assert wrap("aaaaaaa", 3) == ["aaa", "aaa", "a"]
    assert wrap("", 3) == [""]


def test_progress_is_throttled_but_the_end_is_shown() -> None:
    """A pipe gets a line now and then, and always the last one."""
    out = io.StringIO()
    lines = Lines(out)
    for done in range(101):
        lines.progress("h", "sent", done, 100)
    assert out.getvalue().splitlines()[-1].endswith("sent 100 B of 100 B")
    assert len(out.getvalue().splitlines()) == 2
