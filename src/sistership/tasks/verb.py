"""What every verb has in common: flags, errors as exit codes, where the project is."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from invoke import task
from invoke.exceptions import Exit

from sistership.errors import INTERRUPTED, SistershipError, UsageError

F = TypeVar("F", bound=Callable[..., Any])

MATRIX = "buildmatrix.yaml"

HELP: Mapping[str, str] = {
    "variant": "variants by name or glob, separated by commas; ^NAME leaves one out (default: all)",
    "hosts": "hosts by name, group or glob, separated by commas; ^NAME leaves one out (default: all)",
    "matrix": "the matrix file (default: buildmatrix.yaml here or in a folder above)",
    "source": "FORK=DIR: take a fork's commits from a local clone; may be given again",
    "dry-run": "show what would be done and do nothing",
    "json": "print one JSON document instead of text",
    "jobs": "hosts worked on at once",
    "quiet": "no progress, only results and errors",
    "verbose": "say everything",
    "upgrade": "resolve everything anew, also what the lock holds",
    "locked": "refuse to change the lock (for CI)",
    "output": "write each Dockerfile with its build context into DIR/VARIANT instead of printing it",
    "no-cache": "build without the builder's cache",
    "purge": "remove caches and images of the fleet as well",
}


def verb(body: F) -> Any:
    """An Invoke task without single-letter flags (`-h` must never mean --hosts), with our errors and exit codes."""

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return body(*args, **kwargs)
        except SistershipError as error:
            raise Exit(f"error: {error}", code=error.code) from error
        except KeyboardInterrupt:
            message = "interrupted: nothing half-done was left in use; run the command again to go on"
            raise Exit(message, code=INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output went away (`| head`); there is nobody left to tell.
            sys.stdout = None
            raise Exit(code=0) from None

    names = body.__code__.co_varnames[1 : body.__code__.co_argcount + body.__code__.co_kwonlyargcount]
    help_texts = {name.replace("_", "-"): HELP[name.replace("_", "-")] for name in names}
    iterable = [name for name in names if name == "source"]
    return task(auto_shortflags=False, help=help_texts, iterable=iterable)(run)


def matrix_path(given: str | None) -> Path:
    """The matrix file: as given, else buildmatrix.yaml here or in the nearest folder above.

    Raises:
        UsageError: there is none.
    """
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"--matrix {given}: there is no such file")
        return path
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / MATRIX).is_file():
            return folder / MATRIX
    raise UsageError(f"there is no {MATRIX} here or in a folder above", hint="go to your project, or use --matrix FILE")


def lock_path(matrix: Path) -> Path:
    """The lock beside a matrix: `NAME.yaml` has `NAME.lock.json`."""
    return matrix.with_name(f"{matrix.stem}.lock.json")


def positive(text: str | int, flag: str) -> int:
    """A flag's value as a whole number from 1.

    Raises:
        UsageError: it is none.
    """
    value = int(text) if str(text).isdigit() else 0
    if value < 1:
        raise UsageError(f"{flag} {text}: not a whole number from 1")
    return value


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output."""
    say(json.dumps(document, indent=2, sort_keys=True))


def say(text: str) -> None:
    """A result, on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def finish(code: int) -> None:
    """End the run with an exit code that results alone decide."""
    if code:
        raise Exit(code=code)
