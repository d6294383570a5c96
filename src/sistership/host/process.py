"""The one place where programs are started: pumped pipes, bounded memory, ended on request."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO

from sistership.host.transport import Sink

CHUNK = 1 << 18
_TAIL_BYTES = 16_384


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        status: exit status; negative: the signal that ended it.
        err: the tail of its standard error.
        timed_out: it was ended because its time ran out.
    """

    status: int
    err: str
    timed_out: bool


class Processes:
    """Starts programs and remembers those that run, so that an interrupt can end them all."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] | None,
        sink: Sink,
        timeout: float | None = None,
        env: dict[str, str] | None = None,
    ) -> Ended:
        """Run `argv`, feed `stdin`, give standard output to `sink`.

        Raises:
            FileNotFoundError: there is no such program.
            Exception: whatever the `stdin` iterable raised; the program is ended first.
        """
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            # Its own session: Ctrl-C reaches us alone, and we decide what ends in which order.
            start_new_session=True,
            # Small writes must leave at once: the other end may be waiting for them.
            bufsize=0,
        )
        with self._lock:
            self._running.add(process)
            closed = self._closed
        if closed:
            _end(process)
        timed_out = threading.Event()
        timer = threading.Timer(timeout, _expire, (process, timed_out)) if timeout else None
        if timer:
            timer.daemon = True
            timer.start()
        errors: list[BaseException] = []
        tail: deque[bytes] = deque()
        out, words, into = process.stdout, process.stderr, process.stdin
        if out is None or words is None:  # never with PIPE; said for the type checker
            raise OSError("no pipes")
        listener = threading.Thread(target=_keep_tail, args=(words, tail), daemon=True)
        listener.start()
        if stdin is not None and into is not None:
            # Nobody waits for this one: when the program has ended, what it did not read does not matter, and
            # what failed in making its input was noted before the program was ended for it.
            threading.Thread(target=_feed, args=(process, into, stdin, errors), daemon=True).start()
        try:
            while chunk := os.read(out.fileno(), CHUNK):
                sink(chunk)
            listener.join()
            status = process.wait()
        finally:
            if timer:
                timer.cancel()
            _end(process)
            out.close()
            with self._lock:
                self._running.discard(process)
        if errors:
            raise errors[0]
        return Ended(status, b"".join(tail)[-_TAIL_BYTES:].decode(errors="replace"), timed_out.is_set())

    def close(self) -> None:
        """End every program that still runs; later ones end at once."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _expire(process: subprocess.Popen[bytes], timed_out: threading.Event) -> None:
    timed_out.set()
    _end(process)


def _keep_tail(stream: IO[bytes], tail: deque[bytes]) -> None:
    size = 0
    with stream:
        while chunk := os.read(stream.fileno(), 65_536):
            tail.append(chunk)
            size += len(chunk)
            while size - len(tail[0]) > _TAIL_BYTES:
                size -= len(tail.popleft())


def _feed(
    process: subprocess.Popen[bytes], pipe: IO[bytes], data: bytes | Iterable[bytes], errors: list[BaseException]
) -> None:
    chunks: Iterable[bytes] = (data,) if isinstance(data, bytes) else data
    try:
        for chunk in chunks:
            rest = memoryview(chunk)
            while rest:
                rest = rest[pipe.write(rest) :]
    except BrokenPipeError:
        pass  # the program stopped reading: its own status and words say why
    except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, which raises it
        errors.append(error)
        _end(process)
    finally:
        with contextlib.suppress(OSError):
            pipe.close()
