"""`sistership`: the same tasks as `invoke`, anywhere, with this project's exit codes."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from types import FrameType

from invoke.exceptions import Exit, ParseError
from invoke.parser import ParserContext
from invoke.program import Program

from sistership import __version__
from sistership.errors import INTERRUPTED, UsageError
from sistership.tasks.namespace import namespace
from sistership.tasks.verb import HELP

#: Invoke's own options that mean something for our verbs; the others are for tasks that run shell commands.
KEPT = frozenset(
    {"complete", "debug", "help", "list", "list-depth", "list-format", "print-completion-script", "version"}
)


class Sistership(Program):
    """Invoke's program, except that a mistake on the command line is 2, as everywhere else.

    Options of Invoke that our verbs cannot honour are refused: `--dry` must never ship for real.
    """

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
        for context in (self.core[0], self.core_via_tasks):
            given = [name for name, argument in context.args.items() if argument.got_value and name not in KEPT]
            if given:
                hint = "--dry-run after the verb shows what would be done" if given[0] == "dry" else None
                problem = UsageError(f"--{given[0]} is an option of Invoke that no verb here knows", hint=hint)
                raise Exit(f"error: {problem}", code=problem.code)

    def print_help(self) -> None:
        """How to call it, the options that count, and the verbs."""
        self._print_usage()
        kept = ParserContext(args=[argument for argument in self.core_args() if argument.names[0] in KEPT])
        self.print_columns(kept.help_tuples())
        self.list_tasks()

    def _print_usage(self) -> None:
        sys.stdout.write("Usage: sistership VERB [--options]\n       sistership --help VERB\n\n")


def usage(error: ParseError) -> Exit:
    """A parse error in our words, with the exit code of usage errors."""
    words = re.sub(r"[Ff]lag <Argument: (\S+?)[ (>].*?needed value", r"--\1 needs a value", str(error))
    verb = error.context.name if error.context else None
    hint = f"sistership --help {verb}" if verb else "sistership --list, or sistership --help VERB"
    if unknown := re.fullmatch(r"No idea what '(.*)' is!", words, re.DOTALL):
        known: Iterable[str] = namespace().task_names
        if error.context and unknown[1].startswith("-"):
            known = error.context.flags
        words = f"{f'{verb} knows no' if verb else 'there is no'} {unknown[1]}"
        hint = f"did you mean {near[0]}? {hint}" if (near := get_close_matches(unknown[1], known, 1)) else hint
    elif missing := re.search(r"required positional arguments: (.+)", words):
        names = re.findall(r"\w+", missing[1])
        words = "\n  ".join(f"{verb} needs {name.upper()}: {HELP.get(name, '')}" for name in names)
    problem = UsageError(words, hint=hint)
    return Exit(f"error: {problem}", code=problem.code)


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
        if sys.argv[1:2] == ["--complete"]:
            from sistership.tasks.complete import complete  # noqa: PLC0415 - for shells only

            complete(sys.argv[2:], namespace())
            return
        program().run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # `sistership --list | head`: the reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
