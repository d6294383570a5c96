"""What long verbs say while they work, whoever listens: a terminal, a pipe, a test."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol, TextIO


class Reporter(Protocol):
    """Takes what happens. Called from several threads."""

    def step(self, host: str, text: str) -> None:
        """A host (or "" for this machine) begins or ends something."""
        ...

    def progress(self, host: str, text: str, done: int, total: int) -> None:
        """`done` of `total` bytes of something are through."""
        ...

    def detail(self, text: str) -> None:
        """A line for the log, and for people who asked for everything."""
        ...


class Silent:
    """A reporter that drops everything."""

    def step(self, host: str, text: str) -> None:
        """Drop it."""

    def progress(self, host: str, text: str, done: int, total: int) -> None:
        """Drop it."""

    def detail(self, text: str) -> None:
        """Drop it."""


class Lines:
    """One line per change, for a pipe, a CI log or a plain terminal.

    Args:
        stream: where to write; standard error by default, since results go to standard output.
        verbose: write details too.
    """

    _EVERY = 2.0  # seconds between two progress lines of one host

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._verbose = verbose
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}

    def step(self, host: str, text: str) -> None:
        """Write it at once."""
        self._write(host, text)

    def progress(self, host: str, text: str, done: int, total: int) -> None:
        """Write the share that is through, at most every other second."""
        now = time.monotonic()
        with self._lock:
            if done < total and now - self._last.get(host, 0.0) < self._EVERY:
                return
            self._last[host] = now
        self._write(host, f"{text} {mebibytes(done)} of {mebibytes(total)}")

    def detail(self, text: str) -> None:
        """Write it when asked for everything."""
        if self._verbose:
            self._write("", text)

    def _write(self, host: str, text: str) -> None:
        prefix = f"{host:<14} " if host else ""
        with self._lock:
            self._stream.write(f"{prefix}{text}\n")
            self._stream.flush()


def mebibytes(size: int) -> str:
    """Bytes for people: exact below 10 KiB, then KiB, MiB or GiB."""
    if size < 10 * 1024:
        return f"{size} B"
    for unit, width in (("KiB", 10), ("MiB", 20)):
        if size < 1 << (width + 10):
            return f"{size / (1 << width):.1f} {unit}"
    return f"{size / (1 << 30):.2f} GiB"
