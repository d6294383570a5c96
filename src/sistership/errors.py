"""Every error a user can meet, its exit code, and how it reads.

    SistershipError            1   failed, none of the others
    ├── UsageError             2   the command line asks for something that does not exist
    ├── MatrixError           10   buildmatrix.yaml is invalid (carries every problem at once)
    ├── LockError             11   the lock is missing, stale or damaged
    ├── SourceError           11   a commit or a source cannot be resolved
    ├── PatchError            12   a patch does not apply
    ├── BuildError            13   the build failed
    ├── NotReproducibleError  14   a second build gave other bytes
    ├── CheckError            15   a check of the built image failed
    ├── HostUnreachableError  20   no connection, host key changed, connection cut
    ├── HostUnfitError        21   engine, disk, platform, driver or privilege missing
    ├── ShipError             22   the image did not arrive whole
    ├── IdentityError         23   a host holds something else
    ├── LockedError           24   another run holds the lock
    └── StoppedError         130   work on a host ended with this run: Ctrl-C or SIGTERM

A message has at most four lines: what (with where), why, and the next step.
The rest belongs into the log file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

OK: Final = 0
INTERRUPTED: Final = 130

#: In a run over many hosts the exit code is the first of these that any host has.
PRECEDENCE: Final = (23, 26, 25, 21, 20, 22, 24)


class SistershipError(Exception):
    """A failure with a place and a next step.

    Args:
        what: one sentence, what failed.
        where: ``file:line:column``, a host, or a step.
        why: the cause, as far as it is known.
        hint: what to do next, preferably a command.
    """

    code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, why: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.why:
            lines.append(f"  why:  {self.why}")
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return "\n".join(lines)


class UsageError(SistershipError):
    """The command line names something that does not exist or makes no sense."""

    code = 2


@dataclass(frozen=True, order=True)
class Problem:
    """One fault in a file: where (``line`` and ``column`` count from 1), what, and the next step."""

    file: str
    line: int
    column: int
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.message}"
        return f"{text}\n  next: {self.hint}" if self.hint else text


class MatrixError(SistershipError):
    """buildmatrix.yaml is invalid; carries all problems, in file order."""

    code = 10

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.file, p.line, p.column, p.message)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class LockError(SistershipError):
    """The lock file is missing, stale or damaged."""

    code = 11


class SourceError(SistershipError):
    """A fork's source or commit cannot be fetched or resolved."""

    code = 11


class PatchError(SistershipError):
    """A patch does not apply, or is in the source already."""

    code = 12


class BuildError(SistershipError):
    """The build failed."""

    code = 13


class NotReproducibleError(SistershipError):
    """A second build of the same recipe gave another image."""

    code = 14


class CheckError(SistershipError):
    """A check of the built image failed."""

    code = 15


class HostUnreachableError(SistershipError):
    """No connection to a host, its key changed, or the connection was cut."""

    code = 20


class StoppedError(SistershipError):
    """Work on a host ended because this run was interrupted."""

    code = INTERRUPTED


class HostUnfitError(SistershipError):
    """A host lacks what the job needs: engine, disk, platform, driver or privilege."""

    code = 21


class ShipError(SistershipError):
    """An image did not arrive whole on a host."""

    code = 22


class IdentityError(SistershipError):
    """A host holds another image than the lock says."""

    code = 23


class LockedError(SistershipError):
    """Another run holds the lock."""

    code = 24


def worst(codes: list[int]) -> int:
    """The exit code of a run from the codes of its hosts (see PRECEDENCE)."""
    bad = [code for code in codes if code != OK]
    if not bad:
        return OK
    for code in PRECEDENCE:
        if code in bad:
            return code
    return bad[0]
