"""What a comparison says: where two images differ, down to the part of a file, and why.

A and B are the two sides, in the order they were given; nothing here says which one is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What differs at a path. `times`, `names`, `order` and `form` are of a whole layer, its path is empty."""

    ADDED = "added"
    REMOVED = "removed"
    TYPE = "type"
    MODE = "mode"
    OWNER = "owner"
    LINK = "link"
    DEVICE = "device"
    XATTR = "xattr"
    CONTENT = "content"
    TIMES = "times"
    NAMES = "names"
    ORDER = "order"
    FORM = "form"
    LAYER = "layer"
    CONFIG = "config"
    INPUT = "input"


class What(StrEnum):
    """What a part of a file is."""

    SECTION = "section"
    SYMBOLS = "symbols"
    DYNAMIC = "dynamic"
    HEADER = "header"
    MEMBER = "member"
    LINES = "lines"
    BYTES = "bytes"


#: Sections that follow from what the compiler and the linker read elsewhere.
FOLLOWING: Final = (".note.gnu.build-id", ".gnu_debuglink")


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code of x86-64: bytes, and how many sequences look like AVX (VEX) and AVX-512 (EVEX) instructions."""

    size: int
    vex: int
    evex: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a file that differs.

    Attributes:
        place: from the outside in: ("libx.a", "y.o", ".rodata") without the file itself; () is the file's bytes.
        sizes: bytes in A and in B, None where it is not there.
        differing: how many bytes differ, where both have the same size.
        first: offset in the part of the first byte that differs.
        only: strings (lines, symbols, header fields) that only A has and that only B has.
        note: what the numbers do not say.
        code: of a part that holds x86-64 machine code, A and B.
    """

    place: tuple[str, ...]
    what: What
    sizes: tuple[int | None, int | None] = (None, None)
    differing: int | None = None
    first: int | None = None
    only: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    note: str = ""
    code: tuple[Code, Code] | None = None

    @property
    def name(self) -> str:
        """The innermost place: a section's or a member's name."""
        return self.place[-1] if self.place else ""

    @property
    def detail(self) -> str:
        """The numbers in words."""
        return "; ".join(filter(None, (self._numbers(), self.note)))

    @property
    def strings(self) -> Iterator[str]:
        """All strings that one side alone has."""
        for side in self.only:
            yield from side

    def _numbers(self) -> str:
        match self.sizes:
            case (None, None):
                return ""
            case (None, size):
                return f"only in B ({size} bytes)"
            case (size, None):
                return f"only in A ({size} bytes)"
            case (size, other) if size != other:
                at = f", first difference at {self.first:#x}" if self.first is not None else ""
                return f"{size} bytes in A, {other} in B{at}"
            case (size, _) if self.differing is not None:
                at = f", first at {self.first:#x}" if self.first is not None else ""
                return f"{self.differing} of {size} bytes differ{at}"
        return ""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why two builds differ, and what makes them equal.

    Attributes:
        id: a name that stays, for JSON.
        why: the probable cause.
        cure: the flag or the habit that removes it.
        source: where the rule comes from.
        consequence: it follows from another difference and has no cure of its own.
    """

    id: str
    why: str
    cure: str
    source: str
    consequence: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """One path (or a layer, or a field of the config) that differs.

    Attributes:
        layer: number from 1 in A, or in B where A has none; None for config and inputs.
        instruction: what made the layer.
        path: absolute, as text; a field's name for config and inputs; "" for a whole layer.
        detail: both values, in words.
        parts: where in the file, most telling first; only for content.
        causes: most probable first.
    """

    layer: int | None
    instruction: str
    path: str
    kind: Kind
    detail: str = ""
    parts: tuple[Part, ...] = ()
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: what to call it, its config digest and platform."""

    name: str
    config: str
    platform: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result.

    Attributes:
        same: config digest, ordered diffIDs and platform are equal; compressed blobs do not count.
        unread: what could not be looked into, in words, so that silence is never taken for equality.
    """

    a: Side
    b: Side
    same: bool
    differences: tuple[Difference, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Every cause once: those of most differences first, consequences last."""
        return ranked(difference.causes for difference in self.differences)


def ranked(groups: Iterable[Sequence[Cause]]) -> tuple[Cause, ...]:
    """Causes of several differences, each once; the one that explains most as the first cause leads."""
    weight: dict[Cause, float] = {}
    for group in groups:
        for place, cause in enumerate(group):
            weight[cause] = weight.get(cause, 0) + 1 / (1 + place)
    return tuple(sorted(weight, key=lambda cause: (cause.consequence, -weight[cause], cause.id)))
