"""The one place where programs are started: pumped pipes, bounded memory, ended on request."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sistership import trace
from sistership.host.filepart import FilePart, OpenPart
from sistership.host.transport import Input, Sink
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


class _Running:
    """A program, and a bell that rings when we end it.

    A shared connection of ssh has the standard output and error of each of its clients open too, until the program on
    the host ends. So the end of these streams is nothing to wait for once we have given the program up.
    """

    def __init__(self, process: subprocess.Popen[bytes], tail: Tail) -> None:
        self.process = process
        self._bell, self._rope = os.pipe()
        self._lock = threading.Lock()
        self._rung = False
        self.listener = threading.Thread(target=self._listen, args=(tail,), daemon=True)
        self.listener.start()

    def end(self) -> None:
        """End the program and all that it started, then ring."""
        _end(self.process)
        with self._lock:
            if not self._rung:
                self._rung = True
                os.close(self._rope)

    def close(self) -> None:
        """End it, and give back what it needed."""
        self.end()
        self.listener.join()
        os.close(self._bell)
        if self.process.stdout:
            self.process.stdout.close()

    def read(self, stream: int) -> Iterator[bytes]:
        """What comes from a stream of it, until its end, or until the bell has rung and what came before is read."""
        poller = select.poll()
        poller.register(stream, select.POLLIN)
        poller.register(self._bell, select.POLLIN)
        rung = False
        while not rung:
            ready = dict(poller.poll())
            rung = self._bell in ready
            if stream in ready:
                if not (chunk := os.read(stream, CHUNK)):
                    return
                yield chunk

    def _listen(self, tail: Tail) -> None:
        if stream := self.process.stderr:
            with stream:
                for chunk in self.read(stream.fileno()):
                    tail.add(chunk)


class Processes:
    """Starts programs and remembers those that run, so that an interrupt can end them all."""

    def __init__(self) -> None:
        self._running: set[_Running] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: Input | None,
        sink: Sink,
        timeout: float | None = None,
        stall: float | None = None,
        env: dict[str, str] | None = None,
    ) -> Ended:
        """Run `argv` with `stdin`, give standard output to `sink`; the limits are those of Watch.

        Raises:
            FileNotFoundError: there is no such program.
            SistershipError: the file of `stdin` cannot be read, or its size changed meanwhile.
            Exception: whatever the `stdin` iterable, its progress or the sink raised; the program is ended first.
        """
        errors: list[BaseException] = []
        tail = Tail()
        with _ready(stdin) as source, self._started(argv, tail, source, env=env) as running:
            process = running.process
            watch = Watch(running.end, timeout=timeout, stall=None if stdin is None else stall)
            out = process.stdout
            if out is None:  # never with PIPE; said for the type checker
                raise OSError("no pipe")
            with watch, contextlib.ExitStack() as ending:
                if isinstance(source, OpenPart):
                    ending.enter_context(source.followed(watch, partial(_fail, running, errors)))
                elif stdin is not None and not isinstance(stdin, FilePart):
                    # Nobody waits for this one: when the program has ended, what it did not read does not matter,
                    # and what failed in making its input was noted before the program was ended for it.
                    threading.Thread(target=_feed, args=(running, stdin, watch, errors), daemon=True).start()
                for chunk in running.read(out.fileno()):
                    watch.moved()
                    sink(chunk)
                running.listener.join()
                status = process.wait()
        if errors:
            raise errors[0]
        return Ended(status, tail.text, watch.cause)

    @contextlib.contextmanager
    def _started(
        self, argv: Sequence[str], tail: Tail, source: int | OpenPart, *, env: dict[str, str] | None
    ) -> Iterator[_Running]:
        """A running program, remembered while the body runs and ended with it."""
        process = subprocess.Popen(
            list(argv),
            stdin=source if isinstance(source, int) else source.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            # Its own session: Ctrl-C reaches us alone, and we decide what ends in which order.
            start_new_session=True,
            # Small writes must leave at once: the other end may be waiting for them.
            bufsize=0,
        )
        span = trace.program(argv)
        running = _Running(process, tail)
        with self._lock:
            self._running.add(running)
            closed = self._closed
        try:
            if closed:
                running.end()
            yield running
        finally:
            running.close()
            span.end(process.returncode, tail.text)
            with self._lock:
                self._running.discard(running)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def close(self) -> None:
        """End every program that still runs; later ones end at once."""
        with self._lock:
            self._closed = True
            each = list(self._running)
        for running in each:
            running.end()


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


def _fail(running: _Running, errors: list[BaseException], error: BaseException) -> None:
    errors.append(error)
    running.end()


@contextlib.contextmanager
def _ready(stdin: Input | None) -> Iterator[int | OpenPart]:
    """What a program gets as its standard input: a file that it reads by itself, a pipe, or nothing."""
    if isinstance(stdin, FilePart):
        with stdin.opened() as part:
            yield part
    else:
        yield subprocess.DEVNULL if stdin is None else subprocess.PIPE


def _feed(running: _Running, data: bytes | Iterable[bytes], watch: Watch, errors: list[BaseException]) -> None:
    pipe = running.process.stdin
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
        _fail(running, errors, error)
    finally:
        with contextlib.suppress(OSError):
            pipe.close()


def pieces(data: bytes | Iterable[bytes], size: int = PIECE) -> Iterator[memoryview]:
    """Input in pieces of at most `size` bytes, without copying them."""
    for chunk in (data,) if isinstance(data, bytes) else data:
        view = memoryview(chunk)
        for at in range(0, len(view), size):
            yield view[at : at + size]
