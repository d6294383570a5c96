"""Two ELF files: which sections, symbols and loader entries differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from sistership.compare import elf
from sistership.compare.code import code_of
from sistership.compare.extent import LONGEST, MOST, Strings, extent, strings
from sistership.compare.model import Part, What
from sistership.image.spans import Span

FILES: Final = "FILE symbols"

Pair = tuple[elf.Section | None, elf.Section | None]

#: What nvcc puts into names, process number included, differs by nature: such sections are the same one.
_VOLATILE: Final = re.compile(r"\d*((?:_GLOBAL__N__|_INTERNAL_))[0-9a-f]{8}(_\d+_\w+?_cu_)[0-9a-f]{8}(?:_\d+|\d*)")


def compare(a: Span, b: Span) -> list[Part]:
    """The parts of two ELF files that differ; empty when only bytes outside of all sections do.

    Raises:
        ElfError: one of them is damaged.
    """
    one, two = elf.read(a), elf.read(b)
    parts = [*_headers(one, two), *_symbols(one, two), *_loader(one, two)]
    for pair in pairs(one.sections, two.sections):
        parts += _section(pair, one.machine == two.machine == elf.X86_64)
    return parts


def pairs(a: Sequence[elf.Section], b: Sequence[elf.Section]) -> list[Pair]:
    """Sections that belong together: same name, and the same one of several of that name."""
    left, right = (dict(_named(sections, exact=True)) for sections in (a, b))
    found: list[Pair] = [(section, right.pop(key)) for key, section in left.items() if key in right]
    taken = {id(section) for section, _ in found}
    rest = [section for section in a if id(section) not in taken]
    alike = dict(_named(list(right.values()), exact=False))
    for key, section in _named(rest, exact=False):
        found.append((section, alike.pop(key, None)))
    return [*found, *((None, section) for section in alike.values())]


def _named(sections: Sequence[elf.Section], *, exact: bool) -> Iterator[tuple[tuple[str, int], elf.Section]]:
    seen: Counter[str] = Counter()
    for section in sections:
        name = section.name if exact else _VOLATILE.sub(r"\1\2", section.name)
        yield (name, seen[name]), section
        seen[name] += 1


def _headers(one: elf.Elf, two: elf.Elf) -> Iterator[Part]:
    mine, theirs = (f"{file.bits} bit, machine {file.machine}, type {file.type}" for file in (one, two))
    if mine != theirs:
        yield Part(("header",), What.HEADER, only=((mine,), (theirs,)))


def _symbols(one: elf.Elf, two: elf.Elf) -> Iterator[Part]:
    mine, theirs = elf.file_symbols(one), elf.file_symbols(two)
    if not mine or not theirs or mine == theirs:
        return  # a missing table is a missing section
    only = _apart(mine, theirs)
    note = "" if any(only) else "the same names in another order"
    yield Part((FILES,), What.SYMBOLS, only=only, note=note)


def _loader(one: elf.Elf, two: elf.Elf) -> Iterator[Part]:
    mine, theirs = elf.dynamic(one), elf.dynamic(two)
    if mine != theirs:
        only = _apart(mine, theirs)
        note = "" if any(only) else "the same entries in another order"
        yield Part((".dynamic",), What.DYNAMIC, only=only, note=note)


def _apart(mine: Sequence[str], theirs: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    left, right = Counter(mine), Counter(theirs)
    return _cut(list((left - right).elements())), _cut(list((right - left).elements()))


def _cut(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text[:LONGEST] for text in texts[:MOST])


def _section(pair: Pair, x86: bool) -> Iterator[Part]:
    mine, theirs = pair
    sizes = (mine.size if mine else None, theirs.size if theirs else None)
    place = ((mine or theirs).name,)  # type: ignore[union-attr]  # a pair has at least one
    if mine is None or theirs is None:
        yield Part(place, What.SECTION, sizes)
        return
    if mine.content is None or theirs.content is None:
        if sizes[0] != sizes[1] or mine.type != theirs.type:
            yield Part(place, What.SECTION, sizes, note="" if sizes[0] != sizes[1] else "of another type")
        return
    if mine.content.same_bytes(theirs.content):
        if mine.name != theirs.name:
            names = (mine.name,), (theirs.name,)
            yield Part(place, What.SECTION, sizes, only=names, note=f"named {theirs.name} in B")
        return
    first, differing = extent(mine.content, theirs.content)
    executable = mine.executable and theirs.executable
    code = (code_of(mine.content), code_of(theirs.content)) if executable and x86 else None
    only: Strings = ((), ()) if executable else strings(mine.content, theirs.content)
    yield Part(place, What.SECTION, sizes, differing, first, only, code=code)
