"""A line per change."""

from __future__ import annotations

import io
from itertools import pairwise

from sistership.errors import Problem
from sistership.report import events
from sistership.report.lines import Lines, Throttle, line, outcome


def told(*happened: events.Event, verbose: bool = False) -> list[str]:
    """The lines that events make."""
    out = io.StringIO()
    lines = Lines(out, verbose=verbose)
    for event in happened:
        lines.tell(event)
    return out.getvalue().splitlines()


def test_host_first() -> None:
    """A host's lines begin with its name in a column; this machine's have none."""
    lines = told(events.Step("gpu-a", "loading"), events.Step("", "resolving"))
    assert lines == ["gpu-a          loading", "resolving"]


def test_details_are_for_those_who_asked() -> None:
    """Details come with --verbose only."""
    assert told(events.Detail("x")) == []
    assert told(events.Detail("x"), verbose=True) == ["x"]


def test_outcome_says_verdict_bytes_and_time() -> None:
    """A host's last line is its verdict; a failure says what failed, and says it once."""
    assert outcome(events.HostDone("h", "i:1", "ok", 0, 5 << 20, 2.04)) == "ok, 5.0 MiB sent, 2.0 s"
    trouble = events.Trouble("the connection was cut", why="Broken pipe")
    assert outcome(events.HostDone("h", "i:1", "unreachable", 20, error=trouble)) == (
        "unreachable: the connection was cut"
    )
    same = events.Trouble("missing", why="nothing under this name")
    assert outcome(events.HostDone("h", "i:1", "missing", 22, error=same)) == "missing: nothing under this name"
    assert outcome(events.HostDone("h", "i:1", "missing", 22, error=events.Trouble("missing"))) == "missing"


def test_warning_has_its_place() -> None:
    """A warning names file, line and column."""
    problem = Problem("buildmatrix.yaml", 3, 5, "old toolkit", "use 12.8")
    assert told(events.Warned(problem)) == ["warning: buildmatrix.yaml:3:5: old toolkit", "  next: use 12.8"]


def test_what_says_nothing_new_has_no_line() -> None:
    """The end of a run is told by its results, not by a line."""
    assert line(events.Summary(0, 1.0)) is None


def test_files_are_counted_without_units() -> None:
    """A compile says files of files; an unknown total is left out."""
    assert line(events.Progress("b", "compiled", 40, 266, "files")) == ("b", "compiled 40 of 266")
    assert line(events.Progress("b", "received", 40, 0, "files")) == ("b", "received 40")


def test_long_work_is_not_silent_and_not_noisy() -> None:
    """A line for each tenth, one each half minute when it is slow, never two in two seconds, and always the end."""
    now = 100.0
    throttle = Throttle(clock=lambda: now)
    shown = []
    for done in range(1, 1001):
        now += 1.0
        if throttle.lets(events.Progress("h", "sent", done, 1000)):
            shown.append(done)
    gaps = [after - before for before, after in pairwise(shown)]
    assert shown[-1] == 1000
    assert max(gaps) <= 31
    assert min(gaps[:-1]) >= 2


def test_unknown_amounts_are_told_to_those_who_wait() -> None:
    """Without a total the first bytes say nothing; after half a minute how many came is news."""
    now = 0.0
    throttle = Throttle(clock=lambda: now)
    shown = []
    for _ in range(100):
        if throttle.lets(events.Progress("h", "saved", 1, 0)):
            shown.append(now)
        now += 1.0
    assert shown == [30.0, 60.0, 90.0]


def test_a_reader_that_went_away_stops_no_work() -> None:
    """A closed pipe is no error of the run."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    Lines(Gone()).step("h", "loading")
