"""The one place where programs are started: pumped pipes, bounded memory, ended on request."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO

from sistership import trace
from sistership.host.transport import Sink
from sistership.host.watch import Cause, Tail, Watch

CHUNK = 1 << 18
#: Input goes in pieces of this size, so that even a very slow link moves within every stall limit.
PIECE = 1 << 16


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        status: exit status; negative: the signal that ended it.
        err: the tail of its standard error.
        cause: the limit that ended it, if one did.
    """

    status: int
    err: str
    cause: Cause = Cause.NONE


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
        stall: float | None = None,
        env: dict[str, str] | None = None,
    ) -> Ended:
        """Run `argv`, feed `stdin`, give standard output to `sink`; the limits are those of Watch.

        Raises:
            FileNotFoundError: there is no such program.
            Exception: whatever the `stdin` iterable or the sink raised; the program is ended first.
        """
        errors: list[BaseException] = []
        tail = Tail()
        with self._started(argv, tail, piped=stdin is not None, env=env) as process:
            watch = Watch(partial(_end, process), timeout=timeout, stall=None if stdin is None else stall)
            out, words = process.stdout, process.stderr
            if out is None or words is None:  # never with PIPE; said for the type checker
                raise OSError("no pipes")
            with watch:
                listener = threading.Thread(target=_listen, args=(words, tail), daemon=True)
                listener.start()
                if stdin is not None:
                    # Nobody waits for this one: when the program has ended, what it did not read does not matter,
                    # and what failed in making its input was noted before the program was ended for it.
                    threading.Thread(target=_feed, args=(process, stdin, watch, errors), daemon=True).start()
                while chunk := os.read(out.fileno(), CHUNK):
                    watch.moved()
                    sink(chunk)
                listener.join()
                status = process.wait()
        if errors:
            raise errors[0]
        return Ended(status, tail.text, watch.cause)

    @contextlib.contextmanager
    def _started(
        self, argv: Sequence[str], tail: Tail, *, piped: bool, env: dict[str, str] | None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A running program, remembered while the body runs and ended with it."""
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            # Its own session: Ctrl-C reaches us alone, and we decide what ends in which order.
            start_new_session=True,
            # Small writes must leave at once: the other end may be waiting for them.
            bufsize=0,
        )
        span = trace.program(argv)
        with self._lock:
            self._running.add(process)
            closed = self._closed
        try:
            if closed:
                _end(process)
            yield process
        finally:
            _end(process)
            span.end(process.returncode, tail.text)
            if process.stdout:
                process.stdout.close()
            with self._lock:
                self._running.discard(process)

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


def _listen(stream: IO[bytes], tail: Tail) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), PIECE):
            tail.add(chunk)


def _feed(
    process: subprocess.Popen[bytes], data: bytes | Iterable[bytes], watch: Watch, errors: list[BaseException]
) -> None:
    pipe = process.stdin
    if pipe is None:  # never with PIPE; said for the type checker
        return
    try:
        for piece in pieces(data):
            rest = piece
            while rest:
                watch.offer()
                rest = rest[pipe.write(rest) :]
                watch.taken()
    except BrokenPipeError:
        pass  # the program stopped reading: its own status and words say why
    except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, which raises it
        errors.append(error)
        _end(process)
    finally:
        with contextlib.suppress(OSError):
            pipe.close()


def pieces(data: bytes | Iterable[bytes]) -> Iterator[memoryview]:
    """Input in pieces of at most PIECE bytes, without copying them."""
    for chunk in (data,) if isinstance(data, bytes) else data:
        view = memoryview(chunk)
        for at in range(0, len(view), PIECE):
            yield view[at : at + PIECE]
