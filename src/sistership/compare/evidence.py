"""What the parts of a file show, in the questions that the cause table asks. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from sistership.compare.code import apart
from sistership.compare.model import FOLLOWING, Cause, Difference, Part, What

#: The length that C++ mangling puts in front tells where the number ends and the next name begins.
_NVCC: Final = re.compile(
    r"(?P<length>\d*)(?P<stem>(?:_GLOBAL__N__|_INTERNAL_)(?P<path>[0-9a-f]{8})_\d+_(?P<file>\w+?_cu)_[0-9a-f]{8})"
    r"(?:_(?P<process>\d+))?"
)
_NVCC_MADE: Final = re.compile(r"_GLOBAL__N__|_INTERNAL_|tmpxft_")
_FILE: Final = re.compile(
    r"(?P<folder>/?(?:[\w.+@~-]+/)*)(?P<name>[\w.+-]+\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|inl|ipp|S|s|m|mm))\b"
)
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,40}(?![0-9A-Za-z])|\bunknown\b")
_BUILD: Final = re.compile(r"(?i)\b(?:build|version)\b.*\d|\bb\d{3,6}\b")
_VOLATILE: Final = re.compile(r"[0-9a-f]{7,40}|\d+|unknown")


_ENDING: Final = re.compile(r"\.(?:c|h|i|S|s|m)[a-z+]{0,2}\b")


class Name(NamedTuple):
    """A name that nvcc made: hash of the path, source file, process number ("" where a seed took its place)."""

    path: str
    file: str
    process: str


@dataclass(frozen=True)
class Evidence:
    """One difference with the questions that causes ask of it."""

    difference: Difference

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the file."""
        return self.difference.parts

    @cached_property
    def telling(self) -> tuple[Part, ...]:
        """Parts that are no mere consequence."""
        return tuple(part for part in self.parts if part.name not in FOLLOWING)

    def named(self, *names: str) -> tuple[Part, ...]:
        """Parts whose name begins with one of these."""
        return tuple(part for part in self.telling if part.name.startswith(names))

    def of(self, what: What) -> tuple[Part, ...]:
        """Parts of a kind."""
        return tuple(part for part in self.parts if part.what is what)

    @cached_property
    def strings(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Every string that only A has, and only B."""
        both = (tuple(text for part in self.telling for text in part.only[side]) for side in (0, 1))
        return next(both), next(both)

    def on_both(self, pattern: str) -> bool:
        """Whether strings of both sides match, with other matches on each."""
        mine, theirs = ({found for text in side for found in re.findall(pattern, text)} for side in self.strings)
        return bool(mine and theirs and mine != theirs)

    def on_either(self, pattern: str) -> bool:
        """Whether a string of one side matches."""
        return any(re.search(pattern, text) for side in self.strings for text in side)

    @cached_property
    def nvcc_names(self) -> tuple[frozenset[Name], frozenset[Name]]:
        """Names of both sides that nvcc made for things with internal linkage."""
        both = (frozenset(_name(found) for text in side for found in _NVCC.finditer(text)) for side in self.strings)
        return next(both), next(both)

    def nvcc_path(self) -> bool:
        """Whether the hash of a source file's path differs."""
        mine, theirs = ({(name.file, name.path) for name in side} for side in self.nvcc_names)
        return any(file == other and (file, path) not in theirs for file, path in mine for other, _ in theirs)

    def nvcc_process(self) -> bool:
        """Whether names of one source file end in another number, or only one side's end in one."""
        mine, theirs = self.nvcc_names
        return any(one.file == two.file and one.process != two.process for one in mine for two in theirs)

    def moved_files(self, parts: Iterable[Part]) -> tuple[str, str] | None:
        """A source file that both sides name in another folder."""
        mine: dict[str, set[str]] = {}
        theirs: dict[str, set[str]] = {}
        for part in parts:
            for side, texts in zip((mine, theirs), part.only, strict=True):
                for name, folder in _sources(texts):
                    side.setdefault(name, set()).add(folder)
        for name in sorted({*mine} & {*theirs}):
            ours, others = mine[name] - theirs[name], theirs[name] - mine[name]
            if ours and others:
                return min(ours) + name, min(others) + name
        return None

    def other_token(self, token: re.Pattern[str]) -> bool:
        """Whether two strings differ only in numbers and hashes, and `token` matches both."""
        mine, theirs = ({_shape(text) for text in side if token.search(text)} for side in self.strings)
        return any(not _NVCC_MADE.search(shape) for shape in mine & theirs)

    def other_commit(self) -> bool:
        """Whether two strings differ only in an abbreviated commit (or `unknown`), or one has `-dirty`."""
        return self.other_token(_HEX)

    def other_number(self) -> bool:
        """Whether two strings differ only in a number that stands for a build."""
        return self.other_token(_BUILD)

    def reordered(self) -> bool:
        """Whether names, members or lines are the same in another order."""
        return any(part.note.startswith("the same") and "order" in part.note for part in self.parts)

    def more_code(self, count: Callable[[Part], tuple[int, int]]) -> bool:
        """Whether one side uses an instruction set that the other hardly has."""
        return any(apart(*count(part)) for part in self.parts if part.code)


class Row(NamedTuple):
    """One row of the cause table for contents: how it shows, and what it means."""

    shows: Callable[[Evidence], bool]
    cause: Cause


def vex(part: Part) -> tuple[int, int]:
    """AVX in A and B."""
    return (part.code[0].vex, part.code[1].vex) if part.code else (0, 0)


def evex(part: Part) -> tuple[int, int]:
    """AVX-512 in A and B."""
    return (part.code[0].evex, part.code[1].evex) if part.code else (0, 0)


def _sources(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        for found in _FILE.finditer(text) if _ENDING.search(text) else ():
            yield found["name"], found["folder"]


def _name(found: re.Match[str]) -> Name:
    digits, stem = found["process"] or "", len(found["stem"])
    for width in (2, 3):
        length = found["length"][-width:]
        if length and len(length) == width and stem <= int(length) <= stem + 1 + len(digits):
            digits = digits[: max(0, int(length) - stem - 1)]
            break
    return Name(found["path"], found["file"], digits)


def _shape(text: str) -> str:
    """What is left of a text without numbers, hashes and `-dirty`."""
    return _VOLATILE.sub("\0", text.replace("-dirty", ""))
