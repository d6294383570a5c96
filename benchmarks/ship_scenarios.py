"""What is measured: scenarios, the ways that take part in each, and which of all that a run does. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ONE: Final = ("classic26",)
THREE: Final = ("classic20", "classic26", "containerd26")
#: In this order, so that those that start on request come last. The builder receives here like the others.
SIX: Final = ("classic26", "containerd26", "classic20", "builder", "docker26", "docker28")
#: Uncompressed bytes of the library of the images whose size is what differs.
SIZES: Final = (16 << 20, 64 << 20, 256 << 20, 1 << 30)

#: Key on the command line → what it is called in tables.
OURS: Final = {
    "ship": "ship",
    "built": "ship, from the finished build",
    "minimize": "ship --minimize bytes",
    "registry": "ship --via registry",
    "watched": "ship, staging watched",
}
THEIRS: Final = {
    "pipeline": "pipeline with zstd",
    "plain": "plain pipeline",
    "turn": "pipelines with zstd in turn",
    "once": "pipelines with zstd at once",
    "skopeo": "skopeo and docker pull",
}
WAYS: Final = {**OURS, **THEIRS}
#: Those that need a registry.
BY_REGISTRY: Final = frozenset({"registry", "skopeo"})
#: What the others are compared with: for one host, for several.
REFERENCES: Final = ("pipeline", "turn")

_ONE_HOST = ("ship", "registry", "pipeline", "plain", "skopeo")
_SEVERAL = ("ship", "turn", "once")


@dataclass(frozen=True)
class Scenario:
    """What hosts have and what they get.

    Attributes:
        key: its name on the command line.
        held: whether they have the first release before; else nothing of ours.
        wanted: the release that they get.
        ways: keys of the ways that take part.
    """

    key: str
    name: str
    hosts: tuple[str, ...]
    held: bool
    wanted: str
    ways: tuple[str, ...]

    @property
    def reference(self) -> str:
        """Key of the way that the others are compared with."""
        return next((each for each in REFERENCES if each in self.ways), "")


USUAL: Final = (
    Scenario("cold", "cold", ONE, False, "first", ("ship", "built", "watched", *_ONE_HOST[1:])),
    Scenario("nothing", "nothing changed", ONE, True, "first", _ONE_HOST),
    Scenario("small", "small change", ONE, True, "program", _ONE_HOST),
    Scenario("library", "library change", ONE, True, "library", ("ship", "minimize", *_ONE_HOST[1:])),
    Scenario("cold3", "cold, three hosts", THREE, False, "first", _SEVERAL),
    Scenario("nothing3", "nothing changed, three hosts", THREE, True, "first", _SEVERAL),
    Scenario("small3", "small change, three hosts", THREE, True, "program", _SEVERAL),
    Scenario("library3", "library change, three hosts", THREE, True, "library", ("minimize", *_SEVERAL)),
)
#: How the cost grows with the image, and with the hosts. The latter come last: the builder loses its images there.
GROWTH: Final = (
    *(
        Scenario(f"size{size >> 20}", f"cold, library of {size >> 20} MiB", ONE, False, str(size), _ONE_HOST[:3])
        for size in SIZES
    ),
    *(
        Scenario(f"hosts{count}", f"cold, 64 MiB, hosts: {count}", SIX[:count], False, str(SIZES[1]), ("ship",))
        for count in range(1, len(SIX) + 1)
    ),
)
SCENARIOS: Final = {each.key: each for each in (*USUAL, *GROWTH)}


@dataclass(frozen=True)
class Cell:
    """Something to measure: a scenario over a link, by some of its ways."""

    link: str
    scenario: Scenario
    ways: tuple[str, ...]


def _cell(link: str, scenario: str, *ways: str) -> Cell:
    return Cell(link, SCENARIOS[scenario], ways)


#: Just what the figures of `ship_figures` are made of.
MUST_SHOW: Final = (
    _cell("1gbit", "cold", "ship", "built", "pipeline", "watched"),
    _cell("1gbit", "nothing", "ship", "pipeline"),
    _cell("1gbit", "small", "ship", "pipeline"),
    _cell("1gbit", "library", "minimize", "pipeline"),
    _cell("1gbit", "cold3", "ship", "turn", "once"),
    _cell("100mbit", "library", "ship", "pipeline"),
)
#: Measured once, however many runs there are: nothing there is a matter of seconds.
ONCE: Final = frozenset({"watched"})


def cells(links: Sequence[str], scenarios: Sequence[str], ways: Sequence[str]) -> tuple[Cell, ...]:
    """Every chosen scenario over every chosen link by every chosen way that takes part in it.

    Args:
        links: names, see `ship_links`.
        scenarios: keys; none: the usual ones.
        ways: keys; none: all.
    """
    chosen = [SCENARIOS[key] for key in scenarios] or USUAL
    found = [
        Cell(link, scenario, tuple(way for way in scenario.ways if not ways or way in ways))
        for link in links
        for scenario in sorted(chosen, key=list(SCENARIOS.values()).index)
    ]
    return tuple(cell for cell in found if cell.ways)


@dataclass(frozen=True)
class Turn:
    """One sample to take.

    Attributes:
        run: counted from 0.
    """

    cell: Cell
    run: int
    way: str


def turns(cells: Sequence[Cell], runs: int) -> list[Turn]:
    """The samples in order: link by link, run by run; the ways of a scenario take turns in being first."""
    found: list[Turn] = []
    for link in dict.fromkeys(cell.link for cell in cells):
        for run in range(runs):
            for cell in (each for each in cells if each.link == link):
                first = run % len(cell.ways)
                order = (*cell.ways[first:], *cell.ways[:first])
                found += [Turn(cell, run, way) for way in order if run == 0 or way not in ONCE]
    return found
