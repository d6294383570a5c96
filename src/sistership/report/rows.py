"""What a board shows, decided from events alone: one row per host, as cells of text for a width."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sistership.report import events
from sistership.report.events import Event
from sistership.report.lines import outcome
from sistership.report.words import joined, mebibytes

#: How this machine's own steps are named.
HERE: Final = "(here)"
_WINDOW: Final = 8.0  # seconds over which a rate is measured
_HOST_WIDTH: Final = 18
_WORK_WIDTH: Final = 100  # what belongs together stays together on a wide terminal
#: What is counted, in the words of what is being done.
_DOING: Final[Mapping[str, str]] = {
    "sent": "sending",
    "compiled": "compiling",
    "saved": "saving",
    "archived": "archiving",
    "exported": "exporting",
    "made canonical": "making canonical",
    "pushed": "pushing",
    "pulled": "pulling",
}


@dataclass
class Row:
    """One host's state.

    Attributes:
        began: when the host's first step began, in seconds of the run.
        since: when its present step began.
        reused: (layers it has, layers of the image), once planned.
        samples: (time, done) of the present count, for its rate.
    """

    host: str
    began: float
    since: float
    step: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    reused: tuple[int, int] | None = None
    end: events.HostDone | None = None
    ended: float = 0.0
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def waits(self) -> bool:
        """Whether nothing was heard of it yet."""
        return not (self.step or self.end)

    @property
    def rate(self) -> float:
        """Units a second over the last few seconds; 0 when not known."""
        if not self.samples:
            return 0.0
        (first, before), (last, after) = self.samples[0], self.samples[-1]
        # What fills the first buffers is no rate yet.
        return (after - before) / (last - first) if last - first >= 1 else 0.0


class Rows:
    """The rows of a run, in the order in which hosts were first heard of."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self.titles: list[str] = []

    @property
    def all(self) -> list[Row]:
        """Every row."""
        return list(self._rows.values())

    def take(self, event: Event, now: float) -> None:
        """Change the row that an event is about."""
        match event:
            case events.Begin(title, hosts=hosts):
                # A variant of two platforms begins twice before its hosts do.
                again = bool(hosts) and list(self._rows) == list(hosts) and all(row.waits for row in self.all)
                self.titles = [*self.titles, title] if again else [title]
                self._rows = {host: Row(host, now, now) for host in hosts}
            case events.Built() | events.Resolved() | events.Archived():
                self._rows.clear()
                self.titles = []
            case events.Step(host, text):
                self._step(self._row(host, now), text, now)
            case events.Plan():
                row = self._row(event.host, now)
                row.reused = (event.have, event.have + event.send) if event.action != "tag" else None
                row.total = event.bytes
            case events.Progress():
                self._count(self._row(event.host, now), event, now)
            case events.HostDone():
                row = self._row(event.host, now)
                row.end, row.ended = event, now
            case _:
                pass

    def _row(self, host: str, now: float) -> Row:
        return self._rows.setdefault(host or HERE, Row(host or HERE, now, now))

    @staticmethod
    def _step(row: Row, text: str, now: float) -> None:
        row.step, row.since, row.done, row.total, row.unit = text, now, 0, 0, ""
        row.samples.clear()

    @staticmethod
    def _count(row: Row, event: events.Progress, now: float) -> None:
        if row.unit != event.unit or row.step != event.step or event.done < row.done:
            row.samples.clear()
            row.since = now if row.step != event.step else row.since
        row.step, row.done, row.total, row.unit = event.step, event.done, event.total, event.unit
        row.samples.append((now, event.done))
        while len(row.samples) > 2 and now - row.samples[0][0] > _WINDOW:  # noqa: PLR2004 - two points are kept
            row.samples.popleft()


@dataclass(frozen=True)
class Cells:
    """One line of the board: a mark, the host, and the rest as text that fits; `tone` names its colour."""

    mark: str
    host: str
    text: str
    tone: str


def lay_out(rows: Sequence[Row], now: float, width: int, *, height: int | None = None, mark: str = "·") -> list[Cells]:
    """The board's lines.

    Args:
        now: seconds of the run.
        width: columns that a line may take.
        height: lines that the board may take; what does not fit is counted in the last one, finished hosts first.
        mark: of a host that works.
    """
    shown, hidden = _fitting(list(rows), height)
    size = min(_HOST_WIDTH, max((len(row.host) for row in shown), default=0))
    lines = [_cells(row, now, width - size - 4, size, mark) for row in shown]
    if hidden:
        lines.append(Cells(" ", "", _counted(hidden), "dim"))
    return lines


def _fitting(rows: list[Row], height: int | None) -> tuple[list[Row], list[Row]]:
    if height is None or len(rows) <= height:
        return rows, []
    # Failures stay in sight longest, then who works; who is done and well goes first.
    order = sorted(rows, key=lambda row: 2 if row.end and not row.end.exit else 1 if row.end is None else 0)
    kept = {id(row) for row in order[: max(1, height - 1)]}
    return [row for row in rows if id(row) in kept], [row for row in rows if id(row) not in kept]


def _counted(rows: Sequence[Row]) -> str:
    ok = sum(1 for row in rows if row.end and not row.end.exit)
    bad = sum(1 for row in rows if row.end and row.end.exit)
    rest = len(rows) - ok - bad
    parts = (f"{ok} ok" if ok else "", f"{bad} failed" if bad else "", f"{rest} at work" if rest else "")
    return f"… and {len(rows)} more: {joined(parts)}"


def _cells(row: Row, now: float, room: int, size: int, mark: str) -> Cells:
    host = shortened(row.host, size).ljust(size)
    if row.end is not None:
        good = row.end.exit == 0
        text = _finished(row) if good else shortened(outcome(row.end), room)
        return Cells("✓" if good else "✗", host, shortened(text, room), "good" if good else "bad")
    return Cells(mark, host, _working(row, now, min(room, _WORK_WIDTH)), "")


def _finished(row: Row) -> str:
    end = row.end
    if end is None:
        return ""
    seconds = end.seconds or row.ended - row.began
    speed = f"{mebibytes(int(end.sent / seconds))}/s" if end.sent > 1 << 20 and seconds > 1 else ""
    return joined([end.verdict, f"{mebibytes(end.sent)} sent" if end.sent else "", speed, _reused(row), clock(seconds)])


def _working(row: Row, now: float, room: int) -> str:
    """The step at the left, what is counted at the right, as much of it as the line has room for."""
    step = _DOING.get(row.step, row.step) or "waiting"
    if not row.unit:
        since = clock(now - row.since) if now - row.since >= 1 and not row.waits else ""
        return _both(step, since, room)
    fitting = [tail for tail in _counted_in(row) if len(step) + 2 + len(tail) <= room]
    tail = fitting[0] if fitting else _of(row)
    bar_room = room - len(step) - len(tail) - 4
    if row.total and bar_room >= 10:  # noqa: PLR2004 - a shorter bar says nothing
        tail = f"{bar(row.done, row.total, min(40, bar_room))}  {tail}"
    return _both(step, tail, room)


def _counted_in(row: Row) -> list[str]:
    """What is counted, from the fullest wording to the shortest."""
    left = clock((row.total - row.done) / row.rate) if row.rate > 0 and row.total else ""
    full, short = [_of(row)], [_of(row)]
    if row.unit == "bytes":
        rate = f"{mebibytes(int(row.rate))}/s" if row.rate > 0 else ""
        full.append(rate.rjust(11))
        short.append(rate.rjust(10))
    full.append(f"{left} left".rjust(9) if left else " " * 9)
    short.append(left.rjust(5))
    reused = _reused(row)
    whole = ["  ".join([*full, reused]), "  ".join([*short, reused])] if reused else []
    return [*whole, "  ".join(full), "  ".join(short)]


def _both(step: str, tail: str, room: int) -> str:
    """The step at the left, the rest at the right; the rest is cut only when the step is gone."""
    space = room - len(tail) - 2
    if space < 4:  # noqa: PLR2004 - less of a word says nothing
        return shortened(tail, room)
    return f"{shortened(step, space).ljust(space)}  {tail}" if tail else shortened(step, room)


def _of(row: Row) -> str:
    if row.unit != "bytes":
        return f"{row.done} of {row.total}" if row.total else str(row.done)
    if not row.total:
        return mebibytes(row.done)
    total = mebibytes(row.total)
    done, unit = mebibytes(row.done), total.rsplit(" ", 1)[1]
    number, own = done.rsplit(" ", 1)
    # As wide as it can become, so that the columns beside it stand still.
    return f"{number if own == unit else done} of {total}".rjust(2 * len(total))


def _reused(row: Row) -> str:
    return f"{row.reused[0]}/{row.reused[1]} reused" if row.reused and row.reused[1] else ""


def bar(done: int, total: int, width: int) -> str:
    """`done` of `total` as a bar of `width` columns."""
    full = min(width, done * width // total) if total else 0
    return "━" * full + "─" * (width - full)


def shortened(text: str, width: int) -> str:
    """Text of at most `width` columns, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, or hours: `0:07`, `12:30`, `1:02:03`."""
    whole = int(seconds + 0.5)
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
