"""Unified diffs as values: which files, which hunks, which lines before and after.

Only what is needed to prove where each hunk belongs; git remains the one that applies a patch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?([^\n]*)")
_GIT: Final = re.compile(rb'diff --git ("a/.*?(?<!\\)"|a/.*?) ("b/.*"|b/.*)')
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")
_ESCAPE: Final = re.compile(rb'\\([0-7]{3}|["\\abfnrtv])')
_ESCAPED: Final = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_NULL: Final = b"/dev/null"
_NO_NEWLINE: Final = b"\\"


class DiffError(Exception):
    """The text is no unified diff that can be applied exactly; the message says why, in words for the user."""


@dataclass(frozen=True)
class Hunk:
    """One hunk: `before` and `after` are whole lines with their line ends.

    `start` is the line (from 1) where the pre-image lies once the hunks before it are in; 0 for an empty file.
    `heading` is what follows the second `@@`: the line above that begins the function, cut off by diff.
    """

    number: int
    start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    heading: bytes = b""

    @property
    def index(self) -> int:
        """Where the pre-image is expected, counted from 0."""
        return max(self.start - 1, 0)


@dataclass(frozen=True)
class FileDiff:
    """What a patch does to one file. `old` is None for a new file, `new` is None for a deleted one."""

    old: bytes | None
    new: bytes | None
    hunks: tuple[Hunk, ...] = ()

    @property
    def name(self) -> str:
        """The path to show."""
        return (self.new or self.old or b"?").decode(errors="replace")


def lines(data: bytes) -> tuple[bytes, ...]:
    """Lines with their ends, split at line feeds alone: a carriage return is content."""
    return tuple(_LINE.findall(data))


def parse(data: bytes) -> tuple[FileDiff, ...]:
    """The changes of a patch in its order; text around them (a mail, a `-- ` signature) is skipped.

    Raises:
        DiffError: nothing to apply, a damaged hunk, or a kind of change that cannot be checked line by line.
    """
    found = tuple(_Reader(lines(data)).files())
    if not found:
        raise DiffError("it changes nothing: no `--- / +++` or `diff --git` header in it")
    return found


@dataclass
class _Header:
    """Header lines of one file, as they come in."""

    git: tuple[bytes, bytes] | None = None
    old: bytes | None = None
    new: bytes | None = None
    created: bool = False
    deleted: bool = False
    rename: dict[str, bytes] = field(default_factory=dict)

    def finish(self, hunks: tuple[Hunk, ...]) -> FileDiff:
        old, new = self.git or (b"", b"")
        old = self.rename.get("from", self.old or old)
        new = self.rename.get("to", self.new or new)
        gone, fresh = self.deleted or new == _NULL, self.created or old == _NULL
        return FileDiff(None if fresh else old, None if gone else new, hunks)


class _Reader:
    def __init__(self, rows: tuple[bytes, ...]) -> None:
        self._rows = rows
        self._at = 0

    def files(self) -> Iterator[FileDiff]:
        header: _Header | None = None
        hunks: list[Hunk] = []
        while self._at < len(self._rows):
            row = self._rows[self._at].rstrip(b"\n")
            if _starts_file(row, self._next(), header, hunks):
                if header:
                    yield header.finish(tuple(hunks))
                header, hunks = _Header(), []
            if header and row.startswith(b"@@ "):
                hunks.append(self._hunk(len(hunks)))
                continue
            if header and not hunks:
                _read_header(header, row)
            self._at += 1
        if header:
            yield header.finish(tuple(hunks))

    def _next(self) -> bytes:
        return self._rows[self._at + 1] if self._at + 1 < len(self._rows) else b""

    def _hunk(self, index: int) -> Hunk:
        number = index + 1
        match = _HUNK.match(self._rows[self._at])
        if not match:
            raise DiffError(f"hunk {number} has a damaged header: {_shown(self._rows[self._at])}")
        before_left, after_left = (int(match[n]) if match[n] is not None else 1 for n in (2, 4))
        self._at += 1
        before: list[bytes] = []
        after: list[bytes] = []
        while before_left or after_left:
            sign, content = self._body(number)
            if sign in b" -":
                before.append(content)
                before_left -= 1
            if sign in b" +":
                after.append(content)
                after_left -= 1
            if before_left < 0 or after_left < 0:
                raise DiffError(f"hunk {number} has other numbers of lines than its header says")
        # Where the pre-image lies in the file as it is once the earlier hunks are in: git counts in new lines.
        start = int(match[3])
        if not after and before:
            start += 1  # a hunk that leaves nothing names the line before it
        return Hunk(number, start, tuple(before), tuple(after), match[5].strip())

    def _body(self, number: int) -> tuple[bytes, bytes]:
        row = self._rows[self._at] if self._at < len(self._rows) else b""
        if row == b"\n":
            row = b" \n"  # an empty context line whose blank was trimmed, as GNU diff may write it
        if row[:1] not in {b" ", b"+", b"-"}:
            raise DiffError(f"hunk {number} ends before its header says so")
        self._at += 1
        content = row[1:]
        if self._at < len(self._rows) and self._rows[self._at].startswith(_NO_NEWLINE):
            self._at += 1
            content = content.removesuffix(b"\n")
        return row[:1], content


def _starts_file(row: bytes, following: bytes, header: _Header | None, hunks: list[Hunk]) -> bool:
    if row.startswith(b"diff --git "):
        return True
    plain = row.startswith(b"--- ") and following.startswith(b"+++ ")
    return plain and (header is None or bool(hunks) or header.old is not None)


def _read_header(header: _Header, row: bytes) -> None:
    if match := _GIT.fullmatch(row):
        header.git = (_path(match[1]), _path(match[2]))
    elif row.startswith(b"--- "):
        header.old = _path(row[4:])
    elif row.startswith(b"+++ "):
        header.new = _path(row[4:])
    elif row.startswith(b"new file mode"):
        header.created = True
    elif row.startswith(b"deleted file mode"):
        header.deleted = True
    elif row.startswith((b"rename from ", b"rename to ")):
        _, side, name = row.split(b" ", 2)
        header.rename[side.decode()] = _unquote(name)
    _refuse(row)


def _refuse(row: bytes) -> None:
    if row.startswith((b"GIT binary patch", b"Binary files ")):
        raise DiffError("it changes a binary file, which cannot be checked line by line")
    if row.startswith((b"copy from ", b"copy to ")):
        raise DiffError("it copies a file; write the copy as a new file (git diff --no-renames)")
    if b"mode 160000" in row and row.startswith((b"new file", b"deleted file", b"old mode", b"new mode")):
        raise DiffError("it changes a submodule")


def _path(name: bytes) -> bytes:
    name = _unquote(name.split(b"\t", 1)[0].rstrip(b"\r"))
    if name == _NULL:
        return name
    head, slash, rest = name.partition(b"/")
    if not slash or not rest:
        raise DiffError(f"the path {_shown(name)} has no leading folder (a/, b/) to strip")
    del head
    return rest


def _unquote(name: bytes) -> bytes:
    if not (name.startswith(b'"') and name.endswith(b'"') and len(name) > 1):
        return name
    return _ESCAPE.sub(_unescape, name[1:-1])


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if code.isdigit() else _ESCAPED.get(code, code)


def _shown(row: bytes) -> str:
    return row.decode(errors="replace").strip()
