"""What `doctor` finds: one line each, with a cure where there is something to cure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sistership.errors import OK, HostUnfitError, SistershipError, worst

#: The name of this machine where a host's name would stand.
HERE: Final = "this machine"


class Level(StrEnum):
    """How much a finding matters: nothing to do, worth knowing, or in the way of `ship` and `verify`."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        host: its name in the inventory, or HERE.
        subject: what was looked at, in one word ("engine", "disk").
        what: what was found.
        cure: what to do about it, preferably a command or a line of the matrix; None where nothing is wrong.
        code: the exit code of a problem; 0 otherwise.
    """

    level: Level
    host: str
    subject: str
    what: str
    cure: str | None = None
    code: int = OK


def fine(host: str, subject: str, what: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, host, subject, what)


def warning(host: str, subject: str, what: str, cure: str) -> Finding:
    """Worth knowing; nothing is refused for it."""
    return Finding(Level.WARNING, host, subject, what, cure)


def problem(host: str, subject: str, what: str, cure: str) -> Finding:
    """In the way: the host (or this machine) is not fit."""
    return Finding(Level.PROBLEM, host, subject, what, cure, HostUnfitError.code)


def from_error(host: str, subject: str, error: SistershipError) -> Finding:
    """A problem from an error that other verbs would raise there: the same words, the same exit code."""
    what = f"{error.what} ({error.why})" if error.why else error.what
    return Finding(Level.PROBLEM, host, subject, what, error.hint or "see the log", error.code)


def exit_code(findings: Sequence[Finding]) -> int:
    """0, or the code that matters most."""
    return worst([finding.code for finding in findings])
