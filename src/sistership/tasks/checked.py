"""Reports of checks as people read them, and as the JSON that pipelines read."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sistership.build import checks
from sistership.build.checks import Finding, Result, failed
from sistership.errors import CheckError
from sistership.image.contents import Found
from sistership.image.release import Release
from sistership.report.actions import guarded
from sistership.report.table import coloured, render, terminal_width
from sistership.tasks.show import JSON_VERSION

_COLOURS: Final = {Result.OK: "good", Result.FAILED: "bad", Result.NOT_JUDGED: "warn"}


@dataclass(frozen=True)
class Subject:
    """An image whose report is read.

    Attributes:
        name: what it was asked for by.
        about: what it is, in a few words.
        identity: config digest, or the ID that a host's engine shows.
        labels: the image's own, inside its identity.
        release: the image as the lock has it, where it does.
    """

    name: str
    about: str
    identity: str
    labels: Mapping[str, str] = field(repr=False)
    release: Release | None = field(default=None, repr=False)

    @property
    def variant(self) -> str:
        """Its row of the matrix; "" where it has none."""
        return self.release.variant if self.release else self.labels.get("dev.sistership.variant", "")

    @property
    def recipe(self) -> str:
        """Recipe key, 64 hex digits; "" where it has none."""
        return self.release.key if self.release else self.labels.get("dev.sistership.recipe", "")

    @property
    def asked(self) -> dict[str, str]:
        """What its report must say that it expected."""
        archs = self.release.archs if self.release else self.labels.get("dev.sistership.archs", "").split(";")
        commit = self.labels.get("org.opencontainers.image.revision", "")
        return checks.wanted([arch for arch in archs if arch], commit)

    @property
    def again(self) -> str:
        """How to get an image that was checked."""
        return f"sistership build --variant {self.variant}" if self.variant else "build it by sistership"


@dataclass(frozen=True)
class Checked:
    """One image and what its report says.

    Attributes:
        trouble: why there is no report to read.
    """

    subject: Subject
    findings: tuple[Finding, ...] = ()
    trouble: CheckError | None = None

    @property
    def passed(self) -> bool:
        """Whether there is a report, and no check in it failed."""
        return self.trouble is None and not failed(self.findings)


def judged(subject: Subject, found: Found | None) -> Checked:
    """The report of an image, compared with what the image's own recipe asks for.

    Args:
        found: the report's file; None where the image has none.
    """
    try:
        read = _read(subject, found)
    except CheckError as error:
        return Checked(subject, trouble=error)
    return Checked(subject, (*read, *checks.disagreements(read, subject.asked)))


def _read(subject: Subject, found: Found | None) -> tuple[Finding, ...]:
    if found is None:
        raise CheckError(
            "the image carries no report of its checks",
            where=subject.name,
            why="it was built before there were checks, by another template, or not by sistership",
            hint=subject.again,
        )
    if found.above:
        raise CheckError(
            "the image was changed after it was checked",
            where=subject.name,
            why=f"{found.above} of its layers lie above the one with the report",
            hint=subject.again,
        )
    expected = subject.release.files.get(checks.PATH) if subject.release else None
    if expected and hashlib.sha256(found.data).hexdigest() != expected:
        raise CheckError(
            "the report is not the one that was built",
            where=subject.name,
            why="its sha256 is another than the lock's: the image is damaged there",
            hint="sistership verify --deep names such a file on each host",
        )
    return checks.parse(found.data, subject.name)


def text(found: Sequence[Checked]) -> str:
    """Of each image a table, what failed with its cure, and how many checks there were."""
    return guarded("\n".join(line for each in found for line in _lines(each)))


def _lines(each: Checked) -> Iterator[str]:
    if each.trouble:
        yield str(each.trouble)
        return
    yield f"{each.subject.name}: {each.subject.about}"
    rows = [(one.check, str(one.result), one.subject, one.found) for one in each.findings]
    colours = [_COLOURS[one.result] for one in each.findings]
    colour = {1: colours} if coloured(sys.stdout) else None
    yield render(("CHECK", "RESULT", "SUBJECT", "FOUND"), rows, width=terminal_width(), colour=colour)
    for one in failed(each.findings):
        yield one.told
        yield f"  next: {one.cure}"
    counts = Counter(one.result for one in each.findings)
    told = ", ".join(f"{counts[result]} {result}" for result in Result if counts[result])
    yield f"{each.subject.name}: {told}"


def document(found: Sequence[Checked], code: int) -> dict[str, Any]:
    """The document of `check --json`."""
    return {"version": JSON_VERSION, "type": "check", "exit": code, "images": [_image(each) for each in found]}


def _image(each: Checked) -> dict[str, Any]:
    trouble = each.trouble
    return {
        "name": each.subject.name,
        "variant": each.subject.variant or None,
        "recipe": each.subject.recipe or None,
        "id": each.subject.identity,
        "result": "none" if trouble else str(Result.OK if each.passed else Result.FAILED),
        "why": f"{trouble.what}: {trouble.why}" if trouble else None,
        "next": trouble.hint if trouble else None,
        "checks": [
            {
                "check": one.check,
                "result": str(one.result),
                "subject": one.subject,
                "expected": one.expected,
                "found": one.found,
                "cure": one.cure or None,
            }
            for one in each.findings
        ],
    }
