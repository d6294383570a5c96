"""Ends what takes too long, or what takes no input any more."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import Self

from sistership.errors import HostUnreachableError

_TAIL_BYTES = 16_384


class Cause(StrEnum):
    """Why something was ended before it was done."""

    NONE = ""
    TIMEOUT = "timeout"
    STALLED = "stalled"


class Watch:
    """Calls `end` once when a limit is passed.

    Args:
        timeout: seconds for the whole.
        stall: seconds in which nothing moves while input waits to be taken.
            A script that works in silence is not stalled: loading or hashing gigabytes prints nothing for minutes.
    """

    def __init__(self, end: Callable[[], object], *, timeout: float | None = None, stall: float | None = None) -> None:
        self.cause = Cause.NONE
        self._end = end
        self._timeout = timeout
        self._stall = stall
        self._offered = False
        self._moved = time.monotonic()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        """Start the clock."""
        if self._timeout is not None or self._stall is not None:
            threading.Thread(target=self._look, args=(time.monotonic(),), daemon=True, name="watch").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the clock."""
        self._over.set()

    def offer(self) -> None:
        """Input waits to be taken from now on."""
        self._offered, self._moved = True, time.monotonic()

    def taken(self) -> None:
        """The input was taken."""
        self._offered = False

    def moved(self) -> None:
        """Bytes went in either direction."""
        self._moved = time.monotonic()

    def _look(self, started: float) -> None:
        limits = [limit for limit in (self._timeout, self._stall) if limit is not None]
        while not self._over.wait(min(1.0, min(limits) / 4)):
            now = time.monotonic()
            if self._timeout is not None and now - started > self._timeout:
                self.cause = Cause.TIMEOUT
            elif self._stall is not None and self._offered and now - self._moved > self._stall:
                self.cause = Cause.STALLED
            else:
                continue
            self._end()
            return


class Tail:
    """The last part of a stream, in bounded memory."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Take the next chunk."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) > _TAIL_BYTES:
            self._size -= len(self._chunks.popleft())

    @property
    def text(self) -> str:
        """What is kept, decoded; bytes that are no UTF-8 are replaced."""
        return b"".join(self._chunks)[-_TAIL_BYTES:].decode(errors="replace")


def over_limit(host: str, cause: Cause, timeout: float | None, stall: float | None) -> HostUnreachableError:
    """What a user is told when a watch ended something."""
    if cause is Cause.STALLED:
        return HostUnreachableError(
            "stalled",
            where=host,
            why=f"it took no byte for {stall or 0:g} s",
            hint="what has arrived is kept: see its disk and load, then run the command again",
        )
    return HostUnreachableError(
        f"no end after {timeout or 0:g} s", where=host, hint="log in there and see what hangs; then run it again"
    )
