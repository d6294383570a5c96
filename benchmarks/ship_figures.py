"""Samples as figures: a row for each way with its ratio to the pipeline, and what shipping is held to. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ship_scenarios import ONCE, SCENARIOS, WAYS
from ship_setup import Sample

MB = 1e6
_SMALL = 0.1


@dataclass(frozen=True)
class Taken:
    """A sample, and what it is one of: keys of the link, the scenario and the way."""

    link: str
    scenario: str
    way: str
    sample: Sample


@dataclass(frozen=True)
class Row:
    """One way in one scenario over one link: medians; of memory and of staged bytes the most.

    Attributes:
        runs: how many samples.
        seconds, received, cpu, cpu_hosts, peak, staged: see `ship_setup.Sample`.
        ratios: of seconds, received, cpu and peak to those of the reference; empty for it, and without one.
    """

    link: str
    scenario: str
    way: str
    runs: int
    seconds: float
    received: float
    cpu: float
    cpu_hosts: float
    peak: int
    staged: int | None
    ratios: dict[str, float]


def rows(taken: Sequence[Taken]) -> list[Row]:
    """In the order in which they were first measured, links and scenarios together."""
    places = list(dict.fromkeys((each.link, each.scenario) for each in taken))
    found: list[Row] = []
    for link, scenario in places:
        here = [each for each in taken if (each.link, each.scenario) == (link, scenario)]
        plain = [_row(link, scenario, way, _samples(here, way)) for way in WAYS if _samples(here, way)]
        reference = next((row for row in plain if row.way == SCENARIOS[scenario].reference), None)
        found += [_with_ratios(row, reference) for row in plain]
    return found


def _samples(taken: Sequence[Taken], way: str) -> list[Sample]:
    return [each.sample for each in taken if each.way == way]


def _row(link: str, scenario: str, way: str, samples: Sequence[Sample]) -> Row:
    def middle(read: Callable[[Sample], float]) -> float:
        return statistics.median(map(read, samples))

    return Row(
        link,
        scenario,
        way,
        len(samples),
        middle(lambda each: each.seconds),
        middle(lambda each: each.received),
        middle(lambda each: each.cpu),
        middle(lambda each: each.cpu_hosts),
        max(each.peak for each in samples),
        max((each.staged for each in samples if each.staged is not None), default=None),
        {},
    )


def _with_ratios(row: Row, reference: Row | None) -> Row:
    if reference is None or row == reference or row.way in ONCE:
        return row
    pairs = {name: (getattr(row, name), getattr(reference, name)) for name in ("seconds", "received", "cpu", "peak")}
    ratios = {name: mine / other for name, (mine, other) in pairs.items() if other}
    return Row(**{**vars(row), "ratios": ratios})


def table(found: Sequence[Row]) -> str:
    """For people and for Markdown; each ratio is to the pipeline of that scenario."""
    head = ("link", "scenario", "way", "runs", "s", "ratio", "MB", "ratio", "CPU s", "ratio", "hosts' CPU s", "peak MB")
    lines: list[tuple[str, ...]] = [head, ("---",) * len(head)]
    for row in (each for each in found if each.way not in ONCE):
        words = (row.link, SCENARIOS[row.scenario].name, WAYS[row.way], str(row.runs))
        shown = (f"{row.seconds:.2f}", f"{row.received / MB:.2f}", f"{row.cpu:.1f}")
        ratios = [_ratio(row, name) for name in ("seconds", "received", "cpu")]
        pairs = [text for pair in zip(shown, ratios, strict=True) for text in pair]
        lines.append((*words, *pairs, f"{row.cpu_hosts:.1f}", f"{row.peak / MB:.0f}"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _ratio(row: Row, name: str) -> str:
    value = row.ratios.get(name)
    return "" if value is None else f"{value:.2f}" if value >= _SMALL else f"{value:.4f}"


@dataclass(frozen=True)
class Figure:
    """One thing that shipping is held to.

    Attributes:
        what: in words.
        limit: it should be at most that.
        found: what was measured; None: not measured.
        of: the two amounts behind it.
    """

    what: str
    limit: float
    found: float | None
    of: str = ""

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.what}: not measured"
        return f"{self.what}: {self.found:.3g} (at most {self.limit:g}), {self.of}"


def must_show(found: Sequence[Row], *, packed: int, library: int) -> list[Figure]:
    """What shipping is held to, as far as it was measured. Figures, no verdict.

    Args:
        packed: bytes of the compressed layers of the first release.
        library: bytes of the largest file that a difference is made of.
    """
    by = {(row.link, row.scenario, row.way): row for row in found}

    def ratio(what: str, limit: float, mine: tuple[str, str, str], other: str, unit: str = "seconds") -> Figure:
        pair = by.get(mine), by.get((*mine[:2], other))
        if pair[0] is None or pair[1] is None:
            return Figure(what, limit, None)
        one, two = (getattr(row, unit) for row in pair)
        size, word = (MB, "MB") if unit == "received" else (1, "s")
        return Figure(what, limit, one / two, f"{one / size:.2f} {word} to {two / size:.2f} {word}")

    figures = [
        ratio("cold, 1 Gbit, from store to verified", 0.55, ("1gbit", "cold", "ship"), "pipeline"),
        ratio("cold, 1 Gbit, from build finished to verified", 1, ("1gbit", "cold", "built"), "pipeline"),
        ratio("nothing changed", 0.10, ("1gbit", "nothing", "ship"), "pipeline"),
        ratio("nothing changed, bytes", 0.001, ("1gbit", "nothing", "ship"), "pipeline", "received"),
        ratio("small change", 0.15, ("1gbit", "small", "ship"), "pipeline"),
        ratio("small change, bytes", 0.01, ("1gbit", "small", "ship"), "pipeline", "received"),
        ratio("library change, bytes, --minimize", 0.05, ("1gbit", "library", "minimize"), "pipeline", "received"),
        ratio("library change, 100 Mbit, by the plan's choice", 0.30, ("100mbit", "library", "ship"), "pipeline"),
        ratio("three hosts, to pipelines in turn", 0.45, ("1gbit", "cold3", "ship"), "turn"),
        ratio("three hosts, to pipelines at once", 1, ("1gbit", "cold3", "ship"), "once"),
    ]
    ship = [row for row in found if row.way == "ship"]
    slowest = max((row for row in ship if "seconds" in row.ratios), key=lambda row: row.ratios["seconds"], default=None)
    if slowest:
        words = f"{slowest.link}, {SCENARIOS[slowest.scenario].name}"
        figures.append(Figure("the slowest scenario", 1, slowest.ratios["seconds"], words))
    whole = [row.peak for row in ship if row.scenario not in {"library", "library3"}]
    figures.append(_amount("peak memory without packing or difference, MB", 200, whole, MB))
    differing = [row.peak for row in found if row.way == "minimize"]
    figures.append(_amount("peak memory of a difference, by the library", 3.5, differing, library))
    staged = [row.staged - packed for row in found if row.staged is not None]
    figures.append(_amount("staged on the host beyond the compressed image, MB", 64, staged, MB))
    return figures


def _amount(what: str, limit: float, amounts: Sequence[float], unit: float) -> Figure:
    if not amounts:
        return Figure(what, limit, None)
    return Figure(what, limit, max(amounts) / unit, f"{max(amounts) / MB:.1f} MB")
