"""`sistership`: the same tasks as `invoke`, anywhere, with this project's exit codes."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from invoke.exceptions import Exit, ParseError
from invoke.program import Program

from sistership import __version__
from sistership.errors import INTERRUPTED, UsageError
from sistership.tasks.namespace import namespace


class Sistership(Program):
    """Invoke's program, except that a mistake on the command line is 2, as everywhere else."""

    def parse_core(self, argv: list[str] | None) -> None:
        """Read flags that come before the verb."""
        try:
            super().parse_core(argv)
        except ParseError as error:
            raise usage(error) from None

    def parse_tasks(self) -> None:
        """Read verbs and their flags."""
        try:
            super().parse_tasks()
        except ParseError as error:
            raise usage(error) from None


def usage(error: ParseError) -> Exit:
    """A parse error in our words, with the exit code of usage errors."""
    problem = UsageError(str(error), hint="sistership --list, or sistership --help VERB")
    return Exit(str(problem), code=problem.code)


def program() -> Sistership:
    """The command line of the console script."""
    return Sistership(version=__version__, namespace=namespace(), name="sistership", binary="sistership")


def terminated(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends a run as Ctrl-C does: connections are closed, nothing is left half-done."""
    del number, frame
    raise KeyboardInterrupt


def main() -> None:
    """Entry point of the console script."""
    signal.signal(signal.SIGTERM, terminated)
    try:
        program().run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # `sistership --list | head`: the reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
