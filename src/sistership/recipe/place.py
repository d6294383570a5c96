"""Where a hunk belongs. Stricter than git, which takes any offset and once put a hunk into the wrong function.

A hunk fits where its header says. Elsewhere it fits only if its pre-image is found once in the whole file,
what it would make is found nowhere, and the function it names begins above that place: otherwise two places look alike
and nobody can know which one was meant. (The one that was meant may be the one that changed.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sistership.recipe.diff import FileDiff, Hunk, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Lines = tuple[bytes, ...]


@dataclass(frozen=True)
class Misfit:
    """A hunk (or a whole file, hunk 0) that has no place, and why, in words for the user."""

    file: str
    hunk: int
    why: str

    def __str__(self) -> str:
        return f"hunk {self.hunk} of {self.file}: {self.why}" if self.hunk else f"{self.file}: {self.why}"


def places(part: Lines, whole: Lines) -> tuple[int, ...]:
    """Every index at which `part` lies in `whole`; none for an empty part."""
    if not part:
        return ()
    last = len(whole) - len(part)
    return tuple(at for at in range(last + 1) if whole[at] == part[0] and whole[at : at + len(part)] == part)


def place(hunk: Hunk, whole: Lines) -> int | str:
    """The index where `hunk` goes into `whole` (the file with all earlier hunks in), or why it goes nowhere."""
    if not hunk.before:
        return 0 if not whole else "it adds lines without any context, so nothing says where they belong"
    end = hunk.index + len(hunk.before)
    if whole[hunk.index : end] == hunk.before:
        return hunk.index
    found = places(hunk.before, whole)
    return _elsewhere(hunk, whole, found) if found else _why_absent(hunk, whole)


def _elsewhere(hunk: Hunk, whole: Lines, found: tuple[int, ...]) -> int | str:
    """The index for a hunk whose lines are not where it says, but at `found`."""
    rows = ", ".join(str(at + 1) for at in found[:4])
    if len(found) > 1:
        return f"not at line {hunk.index + 1}, and its lines occur {len(found)} times elsewhere (lines {rows})"
    if places(hunk.after, whole):
        return f"its change is in the file already, and lines like those it was made for are at line {rows}"
    if not _under(hunk.heading, whole[: found[0]]):
        return f"its lines are at line {rows} only, which is not in `{hunk.heading.decode(errors='replace')}`"
    return found[0]


def _under(heading: bytes, above: Lines) -> bool:
    """Whether the last function that begins in `above` is the one that `heading` names."""
    if not heading:
        return True
    for row in reversed(above):
        if row.strip().startswith(heading):
            return True
        # What diff takes for the first line of a function, unless it is told better; a label is none.
        if (row[:1].isalpha() or row[:1] in {b"_", b"$"}) and not row.rstrip().endswith(b":"):
            return False
    return False


def _why_absent(hunk: Hunk, whole: Lines) -> str:
    if places(hunk.after, whole):
        return "its change is in the file already"
    if places(_unix(hunk.before), _unix(whole)):
        theirs = "CRLF" if any(row.endswith(b"\r\n") for row in whole) else "LF"
        return f"the lines are there, but the file's line ends are {theirs} and the patch's are not"
    return f"its lines are not in the file (expected at line {hunk.index + 1})"


def _unix(rows: Lines) -> Lines:
    return tuple(row.replace(b"\r\n", b"\n") for row in rows)


def patched(diff: FileDiff, old: bytes | None) -> bytes | Misfit:
    """The file after `diff`, from its bytes before (None: no such file)."""
    if diff.old is not None and old is None:
        return Misfit(diff.name, 0, "there is no such file in the source")
    if diff.old is None and old is not None:
        return Misfit(diff.name, 0, "the patch makes this file, but the source has one already")
    whole = lines(old or b"")
    for hunk in diff.hunks:
        at = place(hunk, whole)
        if isinstance(at, str):
            return Misfit(diff.name, hunk.number, at)
        whole = (*whole[:at], *hunk.after, *whole[at + len(hunk.before) :])
    if diff.new is None and whole:
        return Misfit(diff.name, len(diff.hunks), "the patch deletes this file, but the source's has more lines")
    return b"".join(whole)


def apply(diffs: tuple[FileDiff, ...], read: Callable[[bytes], bytes | None]) -> Mapping[bytes, bytes | None] | Misfit:
    """All files a patch touches, with their bytes afterwards (None: gone), or the first thing that has no place.

    Args:
        diffs: in the patch's order; a file touched twice sees its earlier change.
        read: path → bytes of the source as it is before this patch, None if there is no such file.
    """
    files: dict[bytes, bytes | None] = {}
    for diff in diffs:
        before = None
        path = diff.old if diff.old is not None else diff.new
        if path is not None:
            before = files[path] if path in files else read(path)
        result = patched(diff, before)
        if isinstance(result, Misfit):
            return result
        if diff.old is not None:
            files[diff.old] = None
        if diff.new is not None:
            files[diff.new] = result
    return files


def contained(diffs: tuple[FileDiff, ...], read: Callable[[bytes], bytes | None]) -> bool:
    """Whether the source has the whole patch already: every post-image is in its function, no pre-image has a place."""
    return all(_file_contained(diff, read) for diff in diffs)


def _file_contained(diff: FileDiff, read: Callable[[bytes], bytes | None]) -> bool:
    if diff.new is None:
        return diff.old is not None and read(diff.old) is None
    now = read(diff.new)
    if now is None:
        return False
    whole = lines(now)
    if diff.old is None:
        return whole == tuple(row for hunk in diff.hunks for row in hunk.after)
    if diff.old != diff.new and read(diff.old) is not None:
        return False
    return all(_hunk_contained(hunk, whole) for hunk in diff.hunks)


def _hunk_contained(hunk: Hunk, whole: Lines) -> bool:
    there = any(_under(hunk.heading, whole[:at]) for at in places(hunk.after, whole))
    return there and isinstance(place(hunk, whole), str)
