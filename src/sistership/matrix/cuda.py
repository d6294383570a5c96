"""CUDA arch ↔ toolkit ↔ suffix: what one arch list means, and which toolkit can compile it.

Sources: NVIDIA's release notes and nvcc's `--list-gpu-arch` (13.0.88 lists 75 … 121 and refuses sm_61),
CMake's CUDA_ARCHITECTURES property for `-real` and `-virtual`, NVIDIA's PTX guide for the suffixes `a` and `f`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from sistership.matrix.names import TextError

if TYPE_CHECKING:
    from collections.abc import Iterable

#: arch → (first toolkit that knows it, last toolkit that does or None).
TOOLKITS: Final[dict[int, tuple[str, str | None]]] = {
    50: ("6.0", "12.9"),
    52: ("7.0", "12.9"),
    53: ("7.0", "12.9"),
    60: ("8.0", "12.9"),
    61: ("8.0", "12.9"),
    62: ("8.0", "12.9"),
    70: ("9.0", "12.9"),
    72: ("9.2", "12.9"),
    75: ("10.0", None),
    80: ("11.0", None),
    86: ("11.1", None),
    87: ("11.4", None),
    88: ("13.0", None),
    89: ("11.8", None),
    90: ("11.8", None),
    100: ("12.8", None),
    101: ("12.8", "12.9"),
    103: ("12.9", None),
    110: ("13.0", None),
    120: ("12.8", None),
    121: ("12.9", None),
}

_FIRST_A: Final = {90: "12.0"}  # 90a came one release after 90; later archs have their `a` from the start
_FAMILY_FROM: Final = "12.9"  # the first toolkit that knows the suffix `f`
_TOKEN: Final = re.compile(r"(?P<number>[0-9]+)(?P<letter>[a-z]?)(?:-(?P<kind>[a-z]+))?")
_EXAMPLE: Final = "list the compute capabilities of your cards, for example [89, 120]"
_WORDS: Final = frozenset({"native", "all", "all-major", "off"})


class ArchError(TextError):
    """An arch list that has no one meaning."""


@dataclass(frozen=True, order=True)
class Arch:
    """One entry of CMAKE_CUDA_ARCHITECTURES; sorts by number, then suffix.

    Attributes:
        number: 89 for compute capability 8.9.
        letter: "" (runs on newer cards too, by PTX), "a" (exactly that capability), "f" (that family).
        kind: "" (machine code and PTX), "real" (machine code only), "virtual" (PTX only).
    """

    number: int
    letter: str = ""
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.number}{self.letter}" + (f"-{self.kind}" if self.kind else "")


def split(text: str) -> list[str]:
    """The tokens of one text, separated by semicolons, commas or white space; at least one, maybe empty."""
    return [token for token in re.split(r"[;,\s]+", text) if token] or [""]


def parse_arch(token: str) -> Arch:
    """One arch from its text.

    Raises:
        ArchError: it is a word such as `native`, has an unknown suffix or number, or another spelling of one.
    """
    if not token:
        raise ArchError("an arch is empty", _EXAMPLE)
    if token.lower() in _WORDS:
        raise ArchError(
            f'arch "{token}" depends on the machine that builds or on the toolkit',
            _EXAMPLE,
        )
    if foreign := re.fullmatch(r"(?:sm_|compute_)([0-9]+[af]?)|([0-9]+)\.([0-9])", token):
        meant = foreign[1] or foreign[2] + foreign[3]
        raise ArchError(f'arch "{token}" is not how CMake names it', f"write {meant}")
    match = _TOKEN.fullmatch(token)
    if match is None or match["letter"] not in {"", "a", "f"} or match["kind"] not in {None, "real", "virtual"}:
        raise ArchError(
            f'arch "{token}" has an unknown form', "write for example 89, 120a, 120f, 89-real or 75-virtual"
        )
    number = int(match["number"])
    if match["number"] != str(number):
        raise ArchError(f'arch "{token}" begins with a zero', f"write {str(number) + token[len(match['number']) :]}")
    if number not in TOOLKITS:
        raise ArchError(f"arch {number} is unknown", f"known: {', '.join(map(str, TOOLKITS))}")
    arch = Arch(number, match["letter"], match["kind"] or "")
    if (arch.letter == "a" and number < 90) or (arch.letter == "f" and number < 100):  # noqa: PLR2004
        raise ArchError(f"arch {number} has no form with the suffix {arch.letter}", f"write {number}")
    return arch


def ordered(archs: Iterable[Arch]) -> tuple[Arch, ...]:
    """The archs once each, in canonical order.

    Raises:
        ArchError: one arch is named with different kinds (89 already holds 89-real), or none is named.
    """
    result: dict[tuple[int, str], Arch] = {}
    for arch in sorted(set(archs)):
        other = result.setdefault((arch.number, arch.letter), arch)
        if other != arch:
            both = f"{arch.number}{arch.letter}"
            raise ArchError(f"archs {other} and {arch} overlap", f"keep one; {both} alone is both machine code and PTX")
    if not result:
        raise ArchError("the arch list is empty", _EXAMPLE)
    return tuple(sorted(result.values()))


def canonical(archs: str | Iterable[str]) -> tuple[str, ...]:
    """One list for every spelling: "120;89", "89,120", [120, 89, 89] are all ("89", "120").

    Raises:
        ArchError: see `parse_arch` and `ordered`.
    """
    texts = [archs] if isinstance(archs, str) else archs
    return tuple(str(arch) for arch in ordered(parse_arch(token) for text in texts for token in split(text)))


def parse_toolkit(text: str) -> Version:
    """A toolkit version, compared part by part: 12.10 is newer than 12.8.

    Raises:
        ValueError: not two or three numbers.
    """
    if not re.fullmatch(r"[0-9]+\.[0-9]+(\.[0-9]+)?", text):
        raise ValueError(f'"{text}" is not a CUDA toolkit version')
    return Version(text)


def unsupported(arch: Arch | str, toolkit: str) -> str | None:
    """Why the toolkit cannot compile for the arch, or None when it can."""
    arch = parse_arch(arch) if isinstance(arch, str) else arch
    version = Version(".".join(map(str, parse_toolkit(toolkit).release[:2])))
    first, last = TOOLKITS[arch.number]
    if arch.letter == "a":
        first = _FIRST_A.get(arch.number, first)
    if arch.letter == "f":
        first = max(first, _FAMILY_FROM, key=Version)
    if version < Version(first):
        return f"it needs CUDA {first} or newer"
    if last is not None and version > Version(last):
        return f"CUDA {last} is the last that knows it"
    return None


def supported(arch: Arch | str, toolkit: str) -> bool:
    """Whether the toolkit can compile for the arch."""
    return unsupported(arch, toolkit) is None


def becomes_exact(arch: Arch) -> bool:
    """Whether llama.cpp turns the arch into its `a` form by itself: plain 120 and 121, since b7575."""
    return arch.number // 10 == 12 and not arch.letter  # noqa: PLR2004


def code_names(token: str) -> tuple[str, ...]:
    """By which names cuobjdump lists the code of an arch: machine code as "sm_89", PTX alone as "compute_75".

    A plain 120 is `120a` where llama.cpp made it exact (since b7575), and plain before; cuobjdump 13.2 lists code for
    `120f` as `sm_120`.

    Raises:
        ArchError: see `parse_arch`.
    """
    arch = parse_arch(token)
    kind = "compute" if arch.kind == "virtual" else "sm"
    name = f"{kind}_{arch.number}{arch.letter}"
    if becomes_exact(arch):
        return (name, f"{name}a")
    return (name, f"{kind}_{arch.number}") if arch.letter == "f" else (name,)


def runs_on(archs: Iterable[str], capability: str) -> bool:
    """Whether code for `archs` runs on a card of the compute capability ("8.9").

    Machine code runs on the same major version from its minor version up, PTX on every newer card,
    `a` on exactly one capability, `f` on the same major version from its minor version up.
    """
    card = tuple(int(part) for part in capability.split("."))
    return any(_runs_on(parse_arch(token), card) for token in archs)


def _runs_on(arch: Arch, card: tuple[int, ...]) -> bool:
    made_for = divmod(arch.number, 10)
    if arch.letter == "a" or becomes_exact(arch):
        return card == made_for
    if arch.letter == "f" or arch.kind == "real":
        return card[0] == made_for[0] and card >= made_for
    return card >= made_for
