"""Who hears what happens in a run: a terminal, a pipe, a log, a test; several at once, or nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sistership.report.events import Detail, Event, HostDone, Progress, Step, Summary


class Reporter(Protocol):
    """Takes what happens. Called from several threads."""

    def tell(self, event: Event) -> None:
        """Something happened."""
        ...

    def step(self, host: str, text: str) -> None:
        """A host (or "" for this machine) begins or ends something."""
        ...

    def progress(self, host: str, text: str, done: int, total: int, unit: str = "bytes") -> None:
        """`done` of `total` bytes, or other units, of something are through."""
        ...

    def detail(self, text: str) -> None:
        """A line for the log, and for people who asked for everything."""
        ...


def counted(write: Callable[[bytes], object], reporter: Reporter, host: str, step: str) -> Callable[[bytes], None]:
    """A sink that tells how many bytes went through it; how many will come is not known."""
    done = 0

    def take(chunk: bytes) -> None:
        nonlocal done
        write(chunk)
        done += len(chunk)
        reporter.progress(host, step, done, 0)

    return take


class Listener:
    """A reporter made of one method, `tell`; `pause` and `close` are for those that draw on a terminal."""

    def tell(self, event: Event) -> None:
        """Something happened; drop it."""

    def step(self, host: str, text: str) -> None:
        """A host begins or ends something."""
        self.tell(Step(host, text))

    def progress(self, host: str, text: str, done: int, total: int, unit: str = "bytes") -> None:
        """`done` of `total` are through."""
        self.tell(Progress(host, text, done, total, unit))

    def detail(self, text: str) -> None:
        """A line for those who asked for everything."""
        self.tell(Detail(text))

    def pause(self) -> None:
        """Somebody else is about to write on the terminal."""

    def close(self) -> None:
        """Nothing more will happen."""


class Silent(Listener):
    """A reporter that drops everything."""


@dataclass(frozen=True)
class Many(Listener):
    """Tells several listeners."""

    listeners: tuple[Listener, ...] = field(default=())

    def tell(self, event: Event) -> None:
        """Tell each."""
        for listener in self.listeners:
            listener.tell(event)

    def pause(self) -> None:
        """Pause each."""
        for listener in self.listeners:
            listener.pause()

    def close(self) -> None:
        """Close each."""
        for listener in self.listeners:
            listener.close()


class Totals(Listener):
    """Counts outcomes, for the summary."""

    def __init__(self) -> None:
        self._done: list[HostDone] = []

    def tell(self, event: Event) -> None:
        """Note a host's outcome."""
        if isinstance(event, HostDone):
            self._done.append(event)

    def summary(self, exit_code: int, seconds: float, log: str | None) -> Summary:
        """The end of the run."""
        bad = sum(1 for each in self._done if each.exit)
        sent = sum(each.sent for each in self._done)
        return Summary(exit_code, seconds, len(self._done) - bad, bad, sent, log)
