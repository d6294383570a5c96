"""Shipping against the pipelines that people write by hand, on the practice fleet, in one run.

    .venv/bin/python benchmarks/ship.py                   about 200 MB, for a quick look
    .venv/bin/python benchmarks/ship.py --size real       1 GB with real CUDA libraries, downloaded once
    .venv/bin/python benchmarks/ship.py --json FILE       every sample and every row as JSON, too

The ways take turns in each scenario, and medians are compared; only ratios within one run mean something.
docs/benchmarks.md says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from ship_images import make
from ship_ways import BUILDER, Sample, Setup, back, forget, ours, theirs, to_builder

from sistership import fleet
from sistership.errors import SistershipError
from sistership.fleet import faults
from sistership.fleet.paths import state
from sistership.image.layout import Store

PROJECT = Path(__file__).parents[1]
ONE = ("classic26",)
THREE = ("classic20", "classic26", "containerd26")
UNSHAPED = "unshaped"
LINKS = ("1gbit", "100mbit", UNSHAPED)
INTERRUPTED = 130

Way = Callable[[Setup, str, Sequence[str]], Sample]

SHIP = "ship"
MINIMIZED = "ship --minimize bytes"
OURS: dict[str, Way] = {SHIP: ours}
OURS_LIBRARY: dict[str, Way] = {**OURS, MINIMIZED: partial(ours, minimize=True)}
THEIRS: dict[str, Way] = {
    "pipeline with zstd": partial(theirs, packed=True),
    "plain pipeline": partial(theirs, packed=False),
}
THEIRS_THREE: dict[str, Way] = {
    "three with zstd in turn": partial(theirs, packed=True),
    "three with zstd at once": partial(theirs, packed=True, at_once=True),
}


@dataclass(frozen=True)
class Scenario:
    """What hosts have and what they get.

    Attributes:
        held: whether they have the first release before; else nothing of ours.
        wanted: the release that they get.
    """

    name: str
    hosts: tuple[str, ...]
    held: bool
    wanted: str
    ours: dict[str, Way]
    theirs: dict[str, Way]

    def prepare(self, setup: Setup) -> None:
        """Bring the hosts to where it begins."""
        if self.held:
            back(setup, self.hosts)
        else:
            forget(self.hosts)


SCENARIOS = (
    Scenario("cold", ONE, held=False, wanted="first", ours=OURS, theirs=THEIRS),
    Scenario("nothing changed", ONE, held=True, wanted="first", ours=OURS, theirs=THEIRS),
    Scenario("small change", ONE, held=True, wanted="program", ours=OURS, theirs=THEIRS),
    Scenario("library change", ONE, held=True, wanted="library", ours=OURS_LIBRARY, theirs=THEIRS),
    Scenario("cold, three hosts", THREE, held=False, wanted="first", ours=OURS, theirs=THEIRS_THREE),
)


@dataclass(frozen=True)
class Taken:
    """A sample, and what it is one of."""

    link: str
    scenario: str
    way: str
    sample: Sample


@dataclass(frozen=True)
class Row:
    """Ours against one of theirs: medians of seconds and of bytes that arrived; CPU seconds and bytes of memory."""

    link: str
    scenario: str
    ours: str
    theirs: str
    seconds: float
    seconds_theirs: float
    received: float
    received_theirs: float
    cpu: float
    peak: float

    @property
    def ratio(self) -> float:
        """Our time by theirs."""
        return self.seconds / self.seconds_theirs

    @property
    def ratio_received(self) -> float:
        """Our bytes by theirs."""
        return self.received / self.received_theirs


def say(line: str) -> None:
    """A line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def link(rate: str) -> Iterator[None]:
    """What each receiving host gets is limited to `rate`."""
    with ExitStack() as stack:
        for host in THREE:
            stack.enter_context(nullcontext() if rate == UNSHAPED else faults.shaped(host, rate))
        yield


def measure(setup: Setup, links: Sequence[str], runs: int, taken: list[Taken]) -> None:
    """Every way in every scenario over every link, `runs` times; the ways take turns in being first."""
    for rate in links:
        with link(rate):
            for run in range(runs):
                for scenario in SCENARIOS:
                    ways = [*scenario.ours.items(), *scenario.theirs.items()]
                    turn = run % len(ways)
                    for name, way in (*ways[turn:], *ways[:turn]):
                        scenario.prepare(setup)
                        found = way(setup, scenario.wanted, scenario.hosts)
                        taken.append(Taken(rate, scenario.name, name, found))
                        say(f"{rate}, {scenario.name}, run {run + 1}: {name} {found.seconds:.2f} s")


def rows(taken: Sequence[Taken]) -> list[Row]:
    """Each of our ways against each of theirs, as far as both were measured."""
    found: list[Row] = []
    for rate in dict.fromkeys(each.link for each in taken):
        for scenario in SCENARIOS:

            def samples(way: str, rate: str = rate, name: str = scenario.name) -> list[Sample]:
                return [each.sample for each in taken if (each.link, each.scenario, each.way) == (rate, name, way)]

            pairs = [(mine, other) for mine in scenario.ours for other in scenario.theirs]
            found += [
                _row(rate, scenario.name, mine, other, samples(mine), samples(other))
                for mine, other in pairs
                if samples(mine) and samples(other)
            ]
    return found


def _row(rate: str, name: str, mine: str, other: str, own: Sequence[Sample], hand: Sequence[Sample]) -> Row:
    median = statistics.median
    return Row(
        rate,
        name,
        mine,
        other,
        median(each.seconds for each in own),
        median(each.seconds for each in hand),
        median(each.received for each in own),
        median(each.received for each in hand),
        median(each.cpu or 0.0 for each in own),
        max(each.peak or 0 for each in own),
    )


def table(found: Sequence[Row]) -> str:
    """For people and for Markdown; MB are millions of bytes."""
    head = ("link", "scenario", "ours", "against", "s", "s, theirs", "ratio", "MB", "MB, theirs", "ratio", "CPU s",
            "peak MB")  # fmt: skip
    lines = [head, tuple("-" * len(word) for word in head)]
    for each in found:
        seconds = (f"{each.seconds:.2f}", f"{each.seconds_theirs:.2f}", f"{each.ratio:.2f}")
        sizes = (f"{each.received / 1e6:.2f}", f"{each.received_theirs / 1e6:.2f}", f"{each.ratio_received:.4f}")
        words = (each.link, each.scenario, each.ours, each.theirs)
        lines.append((*words, *seconds, *sizes, f"{each.cpu:.2f}", f"{each.peak / 1e6:.0f}"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def document(size: str, runs: int, setup: Setup, taken: Sequence[Taken]) -> dict[str, object]:
    """Everything that was measured."""
    images = {
        name: {
            "layers": [{"bytes": layer.plain_size, "packed": layer.size} for layer in release.image.layers],
            "config": release.image.config,
        }
        for name, release in setup.releases.items()
    }
    return {
        "version": 1,
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "size": size,
        "runs": runs,
        "images": images,
        "rows": [{**asdict(row), "ratio": row.ratio, "ratio_received": row.ratio_received} for row in rows(taken)],
        "samples": [
            {"link": each.link, "scenario": each.scenario, "way": each.way, **asdict(each.sample)} for each in taken
        ],
    }


@contextmanager
def cleaned() -> Iterator[None]:
    """Every host without the benchmark's images, before and after."""
    hosts = (BUILDER, *THREE)
    forget(hosts)
    try:
        yield
    finally:
        say("removing the benchmark's images from the practice hosts")
        forget(hosts)


def run(size: str, runs: int, links: Sequence[str], file: Path | None) -> int:
    """Measure and print. Returns the exit code."""
    taken: list[Taken] = []
    code = 0
    fleet.up(PROJECT, report=say)
    with tempfile.TemporaryDirectory(prefix="benchmark-ship.") as folder:
        store = Store(Path(folder) / "store")
        setup = Setup(store, make(size, store, state(), say), fleet.project_files(PROJECT).ssh_config)
        try:
            with cleaned():
                say("bringing the images to the builder")
                to_builder(setup)
                measure(setup, links, runs, taken)
        except KeyboardInterrupt:
            say("interrupted; these are the samples so far")
            code = INTERRUPTED
        print(table(rows(taken)))
        if file is not None:
            file.write_text(json.dumps(document(size, runs, setup, taken), indent=1) + "\n")
    return code


def interrupt(_number: int, _frame: object) -> None:
    """Stop measuring and clean up, which a second Ctrl-C does not cut short.

    Raises:
        KeyboardInterrupt: always.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _links(text: str) -> list[str]:
    chosen = text.split(",")
    unknown = [each for each in chosen if each not in LINKS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(LINKS)}")
    return chosen


def main() -> int:
    """Take the command line apart, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", choices=("small", "real"), default="small", help="of the image (default: small)")
    parser.add_argument("--runs", type=int, default=3, help="samples of each (default: 3)")
    parser.add_argument("--links", type=_links, default=list(LINKS), help=f"some of {','.join(LINKS)} (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured there")
    chosen = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        return run(chosen.size, chosen.runs, chosen.links, chosen.json)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SistershipError as error:
        say(str(error))
        return error.code


if __name__ == "__main__":
    sys.exit(main())
