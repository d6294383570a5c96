"""What the checks inside a build found: the report that an image carries, and the log of a build that they ended.

The scripts of the build stage write both (`dockerfiles/support/findings.sh`). Pure: reading is done elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sistership.errors import CheckError

#: Where an image carries its report.
PATH: Final = "/app/share/sistership/checks.tsv"
VERSION: Final = 1

_HEAD: Final = re.compile(r"# sistership checks (\d+)")
_FIELDS: Final = 6
#: As a line of buildx's plain progress, as one of the failing step repeated at its end, or of `docker build`.
_TOLD: Final = re.compile(r"(?:#\d+ )?(?:\d+(?:\.\d+)? )?sistership-check:\t(.*)")
_TOLD_FIELDS: Final = 5
#: A longer line of a log is none of ours.
_LONGEST: Final = 1 << 16
_BUILD_AGAIN: Final = "build it again"


class Result(StrEnum):
    """How a check ended; `not judged` where the build stage had no means to tell."""

    OK = "ok"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Finding:
    """One check of an image.

    Attributes:
        check: what was checked, in a word.
        subject: of what: a file of the image, a flag.
        expected: what the matrix asks for.
        found: what is there.
        cure: what to do; "" unless it failed.
    """

    check: str
    result: Result
    subject: str
    expected: str
    found: str
    cure: str = ""

    @property
    def name(self) -> str:
        """Check and subject in words."""
        return f"{self.check} of {self.subject}" if self.subject else self.check

    @property
    def told(self) -> str:
        """What was expected and what is there, in one sentence."""
        return f"{self.name}: expected {self.expected}, found {self.found}"


def parse(data: bytes, where: str) -> tuple[Finding, ...]:
    """The findings of an image's report, in its order.

    Args:
        data: the file's bytes.
        where: whose report it is, for messages.

    Raises:
        CheckError: it is no report, damaged, without any check, or of a newer version.
    """
    head, *lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    version = _HEAD.fullmatch(head)
    if version is None:
        raise _unreadable(where, f"its first line is {_shown(head)[:60]!r}", f"{_BUILD_AGAIN}, then check it again")
    if int(version[1]) != VERSION:
        why = f"it has version {version[1]}, this sistership reads version {VERSION}"
        raise _unreadable(where, why, "use the sistership that built it, or a newer one")
    found = tuple(_finding(line, number, where) for number, line in enumerate(lines, start=2))
    if not found:
        raise _unreadable(where, "it holds no check at all", _BUILD_AGAIN)
    return found


def _finding(line: str, number: int, where: str) -> Finding:
    fields = [_shown(field) for field in line.split("\t")]
    if len(fields) != _FIELDS:
        raise _unreadable(where, f"line {number} has {len(fields)} fields, not {_FIELDS}", _BUILD_AGAIN)
    check, result, subject, expected, found, cure = fields
    if not check or result not in {*Result}:
        raise _unreadable(where, f"line {number} says {check!r} {result!r}", _BUILD_AGAIN)
    if bool(cure) != (result == Result.FAILED):
        raise _unreadable(where, f"line {number} is {result} and its cure is {cure!r}", _BUILD_AGAIN)
    return Finding(check, Result(result), subject, expected, found, cure)


def _unreadable(where: str, why: str, hint: str) -> CheckError:
    return CheckError("the report of its checks cannot be read", where=where, why=why, hint=hint)


def _shown(text: str) -> str:
    """A text that a terminal prints as it is: names of files may hold what a terminal obeys."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def failed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Those that failed."""
    return tuple(each for each in findings if each.result is Result.FAILED)


def wanted(archs: Sequence[str], commit: str) -> dict[str, str]:
    """What a report must say that it expected: check → as `check.sh` writes it; "" where there must be no such check.

    Args:
        archs: CUDA archs of the recipe; none without CUDA.
        commit: 40 hex digits, "" where it is not known.
    """
    return {"archs": " ".join(archs)} | ({"version": commit} if commit else {})


def disagreements(findings: Sequence[Finding], asked: Mapping[str, str]) -> tuple[Finding, ...]:
    """What a report says that it expected, where the image's recipe says otherwise: it is the report of another one.

    Args:
        asked: see `wanted`.
    """
    found = []
    for check, value in asked.items():
        lines = [each for each in findings if each.check == check]
        if failed(lines):
            continue  # it says its own, and that it failed is enough
        said = " and ".join(sorted({each.expected for each in lines}))
        if said != value:
            cure = "the report is that of another recipe: build it again"
            found.append(
                Finding("recipe", Result.FAILED, check, value or "no such check", said or "no such check", cure)
            )
    return tuple(found)


class Told:
    """Takes a build's log as it comes and keeps the failed checks, however far above its end they are."""

    def __init__(self) -> None:
        self._rest = b""
        self._found: dict[Finding, None] = {}

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the log."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._line(line)
        self._rest = rest[-_LONGEST:]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every failed check once: buildx repeats the output of the step that failed. A last line may lack its end."""
        self._line(self._rest)
        return tuple(self._found)

    def _line(self, line: bytes) -> None:
        if b"sistership-check:" not in line:
            return
        told = _TOLD.fullmatch(line.decode("utf-8", "replace").rstrip("\r"))
        if told:
            fields = [_shown(field) for field in told[1].split("\t", _TOLD_FIELDS - 1)]
            fields += [""] * (_TOLD_FIELDS - len(fields))
            check, subject, expected, found, cure = fields
            self._found.setdefault(Finding(check, Result.FAILED, subject, expected, found, cure))


def refusal(findings: Sequence[Finding], where: str, more: str) -> CheckError:
    """The error of an image whose checks failed: the first in full, the others by name.

    Args:
        findings: failed ones, at least one.
        where: variant and builder, or whose report it is.
        more: where the rest is told.
    """
    first, *others = findings
    count = f"{len(findings)} checks of the image failed" if others else "a check of the image failed"
    names = ", ".join(each.name for each in others)
    return CheckError(
        f"{count}: {first.told}",
        where=where,
        why=f"failed too: {names}" if others else None,
        hint=f"{first.cure}; {more}" if first.cure else more,
    )
