"""Which programs and scripts run: one observer for the whole process, so that a run's log can hold them all.

Nothing is observed unless a run asks for it. Values of the environment and standard input are never passed on.
"""

from __future__ import annotations

import contextvars
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Started:
    """A program of this machine, or a script on a host, was started.

    Attributes:
        number: tells apart what runs at once; its end has the same.
        host: on whose behalf; "" for this machine's own.
        argv: the program's words; empty for a script.
        script: the script's text; empty for a program.
    """

    number: int
    host: str
    argv: tuple[str, ...] = ()
    script: str = ""


@dataclass(frozen=True)
class Ended:
    """It ended.

    Attributes:
        status: exit status; None when there is none, as after a cut connection.
        seconds: how long it ran.
        err: the last part of its standard error.
    """

    number: int
    host: str
    status: int | None
    seconds: float
    err: str = ""


Observer = Callable[[Started | Ended], None]

_observer: Observer | None = None
_numbers: Final = itertools.count(1)
_host: contextvars.ContextVar[str] = contextvars.ContextVar("host", default="")


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Tell `observer` of everything that is started meanwhile, in any thread."""
    global _observer  # noqa: PLW0603 - programs are started deep in rooms that know nothing of a run
    before, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = before


class Span:
    """One program or script while it runs; `end` takes how it went."""

    def __init__(self, host: str, argv: Sequence[str], script: str) -> None:
        self._observer = _observer
        self._number = next(_numbers)
        self._host = host
        self._began = time.monotonic()
        self._ended = False
        if self._observer:
            self._observer(Started(self._number, host, tuple(argv), script))

    def end(self, status: int | None, err: str = "") -> None:
        """It ended; only the first call counts."""
        if self._observer and not self._ended:
            self._ended = True
            self._observer(Ended(self._number, self._host, status, time.monotonic() - self._began, err))


def program(argv: Sequence[str]) -> Span:
    """A program of this machine was started; the caller ends the span."""
    return Span(_host.get(), argv, "")


@contextmanager
def script(host: str, text: str) -> Iterator[Span]:
    """A script runs on `host`; programs that this thread starts meanwhile are started on its behalf."""
    before = _host.set(host)
    span = Span(host, (), text)
    try:
        yield span
    except BaseException as error:
        span.end(None, f"{type(error).__name__}: {error}")
        raise
    finally:
        span.end(None)
        _host.reset(before)
