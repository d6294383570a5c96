"""A line per change: for a pipe, a CI log, or a terminal that cannot move its cursor."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from sistership.report import events
from sistership.report.events import Event
from sistership.report.listeners import Listener
from sistership.report.words import joined, mebibytes


def line(event: Event) -> tuple[str, str] | None:  # noqa: PLR0911 - one for each kind
    """An event for people as (host, text); None when a line would say nothing new to them."""
    match event:
        case events.Step(host, text):
            return host, text
        case events.Progress(host, step, done, total, unit):
            return host, f"{step} {amount(done, unit)}" + (f" of {amount(total, unit)}" if total else "")
        case events.Begin(title):
            return "", title
        case events.Note(text):
            return "", text
        case events.Warned(problem):
            return "", f"warning: {problem}"
        case events.HostDone():
            return event.host, outcome(event)
        case _:
            return None


def amount(number: int, unit: str) -> str:
    """A number with its unit; files are only counted."""
    return mebibytes(number) if unit == "bytes" else str(number)


def outcome(event: events.HostDone) -> str:
    """A host's end in one line: verdict, what was sent, how long it took; or what failed."""
    if event.exit and event.error:
        what = event.error.what if event.error.what != event.verdict else event.error.why or ""
        return f"{event.verdict}: {what}" if what else event.verdict
    sent = f"{mebibytes(event.sent)} sent" if event.sent else ""
    return joined([event.verdict, sent, f"{event.seconds:.1f} s" if event.seconds else ""])


class Throttle:
    """Lets a host's progress through when it says something new: a tenth more, or half a minute later.

    Never more than one in `least` seconds, except the last.
    """

    def __init__(self, *, least: float = 2.0, most: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._least = least
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], tuple[float, float]] = {}

    def lets(self, event: events.Progress) -> bool:
        """Whether to show it."""
        now, key = self._clock(), (event.host, event.step)
        share = event.done / event.total if event.total else 0.0
        with self._lock:
            # How much of an unknown amount is through is news only to those who have waited.
            before, shown = self._last.setdefault(key, (now - self._most, -1.0) if event.total else (now, 0.0))
            if (share < 1 or shown == share) and now - before < self._least:
                return False
            if share < 1 and int(share * 10) == int(shown * 10) and now - before < self._most:
                return False
            self._last[key] = (now, share)
            return True


class Lines(Listener):
    """One line per change.

    Args:
        stream: where to write; standard error by default, since results go to standard output.
        verbose: write details too.
    """

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._verbose = verbose
        self._lock = threading.Lock()
        self._throttle = Throttle()

    def tell(self, event: Event) -> None:
        """Write its line."""
        if isinstance(event, events.Progress) and not self._throttle.lets(event):
            return
        if isinstance(event, events.Detail):
            if self._verbose:
                self.write(event.text)
            return
        found = line(event)
        if found:
            host, text = found
            self.write(f"{host:<14} {text}" if host else text)

    def write(self, text: str) -> None:
        """Write whole lines; a reader that went away stops no work."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._stream.write(f"{text}\n")
            self._stream.flush()
