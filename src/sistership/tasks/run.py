"""One run of a verb: who listens, where its log lies, how it ends."""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sistership import __version__, places, trace
from sistership.errors import INTERRUPTED, SistershipError
from sistership.report import events
from sistership.report.listeners import Listener, Many, Silent, Totals

if TYPE_CHECKING:
    from sistership.report.runlog import RunLog

#: How a verb answers `--json`: an object a line while it works, or one document at its end.
Json = Literal["lines", "document"]


@dataclass
class Run:
    """What a verb is given: the flags that every verb has, and who listens.

    Attributes:
        verb: its name, `ship` or `fleet.up`.
        json: set when results are to be JSON.
    """

    verb: str
    quiet: bool = False
    verbose: bool = False
    json: Json | None = None
    reporter: Listener = field(default_factory=Silent)
    log: RunLog | None = None
    began: float = field(default_factory=time.monotonic)
    _totals: Totals = field(default_factory=Totals)

    _current: ClassVar[Run | None] = None

    @classmethod
    def current(cls) -> Run | None:
        """The run that is under way in this process."""
        return cls._current

    @classmethod
    @contextmanager
    def under_way(cls, verb: str, *, quiet: bool, verbose: bool, json: Json | None) -> Iterator[Run]:
        """A run with its log and its listeners; they are closed at the end, whatever happens."""
        # What draws and logs is imported when a verb runs: --list and --help must be quick.
        from sistership.report.choose import listeners  # noqa: PLC0415
        from sistership.report.runlog import RunLog  # noqa: PLC0415

        log = RunLog.open(places.logs(), verb, header(sys.argv))
        run = cls(verb, quiet, verbose, json, log=log)
        heard = listeners(out=sys.stdout, err=sys.stderr, quiet=quiet, verbose=verbose, json=json)
        run.reporter = Many((run._totals, *([log] if log else []), *heard))
        before, cls._current = cls._current, run
        started = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        try:
            with trace.observed(log.observe if log else _unobserved), Interrupts():
                run.reporter.tell(events.Version(__version__, verb, started, run.log_path))
                yield run
        finally:
            cls._current = before
            run.reporter.close()

    @property
    def log_path(self) -> str | None:
        """The log file's path; None when none could be written."""
        return str(self.log.path) if self.log else None

    def ended(self, code: int) -> str | None:
        """The run ended with an exit code that results decide; gives the last line for people."""
        self.reporter.tell(self._totals.summary(code, time.monotonic() - self.began, self.log_path))
        return self._log_line() if code else None

    def failed(self, error: SistershipError) -> str:
        """The run ended with an error; gives its text for people, with the log's path as the last line."""
        failed = events.Failed.of(error, self.log_path)
        self._end(failed)
        from sistership.report.actions import guarded  # noqa: PLC0415 - only needed at an end like this

        return _lines(guarded(f"error: {error}"), self._log_line())

    def interrupted(self) -> str:
        """The run was interrupted; gives what to tell people."""
        again = "run the command again to go on"
        self._end(events.Failed(INTERRUPTED, events.Trouble("interrupted", next=again), (), self.log_path))
        return _lines(f"interrupted: nothing half-done was left in use; {again}", self._log_line())

    def crashed(self, error: Exception) -> str:
        """A fault of this program; the traceback goes into the log."""
        self.reporter.detail("".join(traceback.format_exception(error)))
        kind = f"{type(error).__name__}: {error}"
        hint = "report it with the log file" if self.log else "set SISTERSHIP_LOGS to a folder that can be written"
        return self.failed(SistershipError("a fault in sistership itself", why=kind, hint=hint))

    def _end(self, failed: events.Failed) -> None:
        self.reporter.tell(failed)
        if self.json == "document":
            from sistership.report.jsonlines import error_document  # noqa: PLC0415 - only needed at an end like this
            from sistership.tasks.verb import print_json  # noqa: PLC0415 - it imports this module

            print_json(error_document(failed))

    def _log_line(self) -> str | None:
        return f"log: {self.log_path}" if self.log else None


def _lines(*parts: str | None) -> str:
    return "\n".join(part for part in parts if part)


def _unobserved(happened: trace.Started | trace.Ended) -> None:
    """Nobody keeps a log."""
    del happened


def header(argv: Sequence[str]) -> dict[str, str]:
    """What a log begins with: the command line, where it was given, and versions. No environment."""
    import shlex  # noqa: PLC0415 - one small use

    return {
        "argv": shlex.join(argv),
        "folder": os.getcwd(),  # noqa: PTH109 - as text
        "sistership": __version__,
        "python": f"{platform.python_version()} at {sys.executable}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "pid": str(os.getpid()),
    }


class Interrupts:
    """SIGINT, SIGTERM and SIGHUP end a run in one way: connections are closed, nothing is left half-done.

    A second one is told that the end is under way, a third ends that too.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        """Listen to them; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            for number in self._SIGNALS:
                # What was ignored stays ignored, as under nohup.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._take)

    def __exit__(self, *_: object) -> None:
        """Let whoever listened before listen again."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._count += 1
        if self._count == 2:  # noqa: PLR2004 - the second
            os.write(2, b"ending connections; once more to leave at once\n")
            return
        raise KeyboardInterrupt
