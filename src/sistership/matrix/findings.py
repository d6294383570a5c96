"""Where the checks of all sections put what they find."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from sistership.errors import Problem
from sistership.matrix.names import TextError, nearest
from sistership.matrix.nodes import Document, Path
from sistership.matrix.shape import UNREADABLE, inside, subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass
class Findings:
    """Problems and warnings of one file, each at its place.

    Attributes:
        project: absolute folder of the file.
        reported: paths that have a problem of shape; nothing more is said about them.
    """

    document: Document
    project: FilePath
    reported: frozenset[Path] = frozenset()
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def problem(self, path: Path, message: str, hint: str | None = None, *, key: bool = False) -> None:
        """Record a problem at `path`; the message gets the row's name in front."""
        found = self.document.problem(path, subject(path) + message, hint, key=key)
        if found not in self.problems:
            self.problems.append(found)

    def warn(self, path: Path, message: str, hint: str | None = None) -> None:
        """Record a warning at `path`."""
        found = self.document.problem(path, subject(path) + message, hint)
        if found not in self.warnings:
            self.warnings.append(found)

    def check(self, path: Path, text: str, rule: Callable[[str], object], *, key: bool = False) -> bool:
        """Whether `rule` accepts `text`; its error becomes a problem at `path`."""
        if text == UNREADABLE:
            return False
        try:
            rule(text)
        except TextError as fault:
            place = inside(path)
            self.problem(path, f"{place}: {fault}" if place and not key else str(fault), fault.hint, key=key)
            return False
        return True

    def is_known(self, path: Path, name: str, known: Iterable[str], kind: str) -> bool:
        """Whether `name` is one of `known`; otherwise a problem that suggests the nearest."""
        names = list(known)
        if name == UNREADABLE or name in names:
            return name != UNREADABLE
        self.problem(path, f'there is no {kind} "{name}"', nearest(name, names) or f"add it under {kind}s:")
        return False

    def written(self, section: str) -> list[str]:
        """The names in a section as the file has them, faulty rows too."""
        rows = self.document.data.get(section) if isinstance(self.document.data, dict) else None
        return list(rows) if isinstance(rows, dict) else []

    def was_reported(self, path: Path) -> bool:
        """Whether the value at `path`, or the row it is in, is known to be faulty already."""
        return any(path[:length] in self.reported for length in range(1, len(path) + 1))
