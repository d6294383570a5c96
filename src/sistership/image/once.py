"""One path is written by one own layer only.

On the containerd store a second write of equal size and equal time is lost: the image keeps the old content
under the right ID. With one constant time for all files, equal sizes are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sistership.errors import BuildError
from sistership.image.tarstream import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sistership.image.tree import Change


@dataclass(frozen=True, slots=True)
class _Writer:
    instruction: str
    directory: bool


class Writers:
    """Which instruction wrote, replaced or removed which path so far."""

    def __init__(self) -> None:
        self._writers: dict[bytes, _Writer] = {}

    def take(self, difference: Iterable[Change], instruction: str) -> None:
        """Note what the next own layer changes.

        Raises:
            BuildError: an earlier own layer changed the same path; a directory may be changed by several.
        """
        for change in difference:
            if change.changed:
                for path, directory in _paths(change):
                    self._note(path, _Writer(instruction, directory))

    def _note(self, path: bytes, writer: _Writer) -> None:
        earlier = self._writers.setdefault(path, writer)
        if earlier is not writer and not (earlier.directory and writer.directory):
            raise BuildError(
                f"{show(path)} is written by two layers: {earlier.instruction}",
                where=writer.instruction,
                why="engines with the containerd store lose the second write when size and time are equal",
                hint="copy each file once: sort the output in the build stage",
            )


def _paths(change: Change) -> Iterator[tuple[bytes, bool]]:
    """The paths a change writes or removes, and whether each was and stays a directory."""
    before, after = change.lower, change.upper
    stays = after is not None and after.is_directory
    yield change.path, stays and (before is None or before.is_directory)
    if before is not None and not stays:
        for path, _ in before.below(change.path):
            yield path, False
