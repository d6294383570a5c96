"""What the board shows, without a terminal."""

from __future__ import annotations

import pytest

from sistership.report import events
from sistership.report.rows import Rows, clock, lay_out, shortened

MIB = 1 << 20
HOSTS = ("builder", "classic20", "containerd26")


def shipping() -> Rows:
    """Three hosts midway: one done, one sending, one loading."""
    rows = Rows()
    rows.take(events.Begin("sample:v1", "sample", hosts=HOSTS), 0)
    rows.take(events.Plan("classic20", "sample:v1", "load", 480 * MIB, 7, 5), 1)
    for second in range(2, 12):
        rows.take(events.Progress("classic20", "sent", second * 20 * MIB, 480 * MIB), second)
    rows.take(events.Step("containerd26", "loading"), 5)
    rows.take(events.HostDone("builder", "sample:v1", "ok", 0, seconds=1.2), 3)
    return rows


def text(rows: Rows, now: float, width: int, height: int | None = None) -> list[str]:
    """The board's lines as text."""
    return [
        f"{cells.mark} {cells.host}  {cells.text}".rstrip() for cells in lay_out(rows.all, now, width, height=height)
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    """A board never wraps, whatever the width."""
    assert max(map(len, text(shipping(), 12, width))) <= width


def test_eighty_columns_hold_everything() -> None:
    """At 80 columns: host, step, bytes of bytes, rate, time left, layers reused."""
    line = text(shipping(), 12, 79)[1]
    for part in ("classic20", "sending", "220.0 of 480.0 MiB", "20.0 MiB/s", "0:13", "7/12 reused"):
        assert part in line


def test_wide_terminals_get_a_bar() -> None:
    """At 200 columns a bar shows the share."""
    line = text(shipping(), 12, 199)[1]
    full, rest = line.count("━"), line.count("─")
    assert full + rest >= 20
    assert full / (full + rest) == pytest.approx(220 / 480, abs=0.05)


def test_order_is_that_of_the_inventory() -> None:
    """Hosts keep their lines, whoever is heard of first; those that wait are shown too."""
    rows = Rows()
    rows.take(events.Begin("x", "x", hosts=HOSTS), 0)
    rows.take(events.Step("containerd26", "loading"), 1)
    assert [row.host for row in rows.all] == list(HOSTS)
    assert "waiting" in text(rows, 1, 80)[0]


def test_two_platforms_begin_with_two_titles() -> None:
    """A variant for two platforms has both titles; the next variant starts anew."""
    rows = Rows()
    rows.take(events.Begin("amd64", "x", hosts=HOSTS), 0)
    rows.take(events.Begin("arm64", "x", hosts=HOSTS), 0)
    assert rows.titles == ["amd64", "arm64"]
    rows.take(events.HostDone("builder", "x", "ok", 0), 1)
    rows.take(events.Begin("next", "y", hosts=HOSTS), 2)
    assert rows.titles == ["next"]
    assert all(row.waits for row in rows.all)


def test_finished_hosts_keep_their_verdict() -> None:
    """A finished host says verdict, bytes and time; a failed one what failed."""
    rows = shipping()
    trouble = events.Trouble("the connection was cut", why="Broken pipe")
    rows.take(events.HostDone("containerd26", "sample:v1", "unreachable", 20, error=trouble), 20)
    lines = text(rows, 30, 80)
    assert lines[0] == "✓ builder       ok, 0:01"
    assert lines[2] == "✗ containerd26  unreachable: the connection was cut"


def test_too_many_hosts_for_the_terminal() -> None:
    """Failures stay in sight, then who works; the rest is counted."""
    rows = Rows()
    hosts = tuple(f"gpu-{number:02}" for number in range(30))
    rows.take(events.Begin("x", "x", hosts=hosts), 0)
    for host in hosts[:20]:
        rows.take(events.HostDone(host, "x", "ok", 0, seconds=1), 1)
    rows.take(events.HostDone("gpu-25", "x", "missing", 22, error=events.Trouble("missing")), 1)
    lines = text(rows, 2, 80, height=8)
    assert len(lines) == 8
    assert any("gpu-25" in line and "missing" in line for line in lines)
    assert lines[-1].endswith("… and 23 more: 20 ok, 3 at work")


def test_rate_is_of_the_last_seconds() -> None:
    """A stall shows in the rate; a new count starts anew."""
    rows = Rows()
    for second in range(10):
        rows.take(events.Progress("h", "sent", second * 100, 10_000), second)
    rows.take(events.Progress("h", "sent", 1000, 10_000), 20)
    assert rows.all[0].rate == pytest.approx(100 / 11)
    rows.take(events.Progress("h", "sent", 0, 500), 21)
    assert rows.all[0].rate == 0


def test_compiles_are_counted_in_files() -> None:
    """A build shows files of files and the time left."""
    rows = Rows()
    for done in (10, 40):
        rows.take(events.Progress("builder", "compiled", done, 266, "files"), done)
    assert "compiling" in (line := text(rows, 40, 80)[0])
    assert "40 of 266" in line
    assert "3:46 left" in line


def test_clock_and_shortening() -> None:
    """Durations and long texts."""
    assert [clock(seconds) for seconds in (0, 7.4, 750, 3723)] == ["0:00", "0:07", "12:30", "1:02:03"]
    assert shortened("a  long\ntext", 6) == "a lon…"
