"""Shipping against the pipelines that people write by hand, on the practice fleet, in one run.

    .venv/bin/python benchmarks/ship.py                        about 200 MB, one look at every usual scenario
    .venv/bin/python benchmarks/ship.py --size real --runs 3   1 GB with real CUDA libraries, downloaded once
    .venv/bin/python benchmarks/ship.py --must-show            just what shipping is held to: real, three runs
    .venv/bin/python benchmarks/ship.py --scenarios growth     by image size and by hosts, and the model made of it
    .venv/bin/python benchmarks/ship.py --json FILE            every sample and every row as JSON, too

The ways take turns in each scenario, and medians are compared; only ratios within one run mean something.
docs/benchmarks.md says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from ship_before import back, back_by_registry, forget_by_registry
from ship_figures import Taken
from ship_hosts import forget
from ship_images import largest, make, sized
from ship_links import LINKS, shaped
from ship_ours import ours, watched
from ship_registry import running
from ship_report import Result, show, write
from ship_scenarios import BY_REGISTRY, GROWTH, MUST_SHOW, SCENARIOS, USUAL, WAYS, Cell, Turn, cells, turns
from ship_setup import BUILDER, Sample, Setup
from ship_theirs import by_skopeo, theirs

from sistership import fleet
from sistership.errors import SistershipError
from sistership.fleet.paths import state
from sistership.fleet.spec import HOSTS
from sistership.image.layout import Store
from sistership.image.release import Release

PROJECT = Path(__file__).parents[1]
FAILED = 1
INTERRUPTED = 130

DONE_BY: Mapping[str, Callable[[Setup, str, Sequence[str]], Sample]] = {
    "ship": ours,
    "built": partial(ours, built=True),
    "minimize": partial(ours, minimize=True),
    "registry": partial(ours, via=True),
    "watched": watched,
    "pipeline": theirs,
    "plain": partial(theirs, packed=False),
    "turn": theirs,
    "once": partial(theirs, at_once=True),
    "skopeo": by_skopeo,
}


def say(line: str) -> None:
    """A line for the person who waits."""
    print(line, file=sys.stderr, flush=True)


def prepare(setup: Setup, turn: Turn) -> None:
    """Bring hosts, and the registry where it matters, to where a scenario begins, with nothing left to write.

    Making a container flushes the disk's whole file system (overlayfs does when it is unmounted): what was loaded for
    the preparation a moment ago would be written in the sample's time.
    """
    hosts = turn.cell.scenario.hosts
    if turn.way in BY_REGISTRY:
        (back_by_registry if turn.cell.scenario.held else forget_by_registry)(setup, hosts)
    elif turn.cell.scenario.held:
        back(setup, hosts)
    else:
        forget(hosts)
    os.sync()


def measure(setup: Setup, order: Sequence[Turn], taken: list[Taken]) -> int:
    """Take every sample. Returns how many failed: each is told, and the others go on."""
    hosts = sorted({host for turn in order for host in turn.cell.scenario.hosts} | {BUILDER})
    began, failed, done = time.monotonic(), 0, 0
    for link in dict.fromkeys(turn.cell.link for turn in order):
        with shaped(link, hosts, BUILDER):
            for turn in (each for each in order if each.cell.link == link):
                scenario = turn.cell.scenario
                what = f"{link}, {scenario.name}, run {turn.run + 1}: {WAYS[turn.way]}"
                try:
                    prepare(setup, turn)
                    sample = DONE_BY[turn.way](setup, scenario.wanted, scenario.hosts)
                except (SystemExit, SistershipError) as error:
                    failed += 1
                    say(f"{what} failed: {error}")
                    continue
                finally:
                    done += 1
                taken.append(Taken(link, scenario.key, turn.way, sample))
                left = (time.monotonic() - began) / done * (len(order) - done) / 60
                say(f"{what} {sample.seconds:.2f} s   ({done} of {len(order)}, about {left:.0f} min left)")
    return failed


def hosts_of(chosen: Sequence[Cell]) -> list[str]:
    """The practice hosts that take part, and the builder."""
    return list(dict.fromkeys([BUILDER, *(host for cell in chosen for host in cell.scenario.hosts)]))


@contextmanager
def up(chosen: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Practice hosts for all cells; those that cannot be had leave out the cells that need them.

    Hosts that start on request and were not there before are removed at the end.
    """
    there = {each.name for each in fleet.status() if each.state != "missing"}
    needed = hosts_of(chosen)
    fleet.up(PROJECT, hosts=[name for name in needed if not HOSTS[name].on_request], report=say)
    absent: set[str] = set()
    started: list[str] = []
    try:
        for name in needed:
            if HOSTS[name].on_request:
                try:
                    fleet.up(PROJECT, hosts=[name], report=say)
                except SistershipError as error:
                    say(f"without {name}: {error}")
                    absent.add(name)
                else:
                    started += [name] if name not in there else []
        yield [cell for cell in chosen if not absent & set(cell.scenario.hosts)]
    finally:
        if started:
            fleet.remove(PROJECT, hosts=started, report=say)


@contextmanager
def cleaned(hosts: Sequence[str]) -> Iterator[None]:
    """Every host without the benchmark's images, before and after."""
    forget(hosts)
    try:
        yield
    finally:
        say("removing the benchmark's images from the practice hosts")
        forget(hosts)


def images(chosen: Sequence[Cell], size: str, store: Store) -> Mapping[str, Release]:
    """The releases that the cells want; packed now unless the store has them."""
    wanted = {cell.scenario.wanted for cell in chosen}
    sizes = sorted(int(each) for each in wanted if each.isdigit())
    usual = make(size, store, state(), say) if any(not each.isdigit() for each in wanted) else {}
    return {**usual, **(sized(sizes, store, state(), say) if sizes else {})}


def run(chosen: Sequence[Cell], result: Result, folder: Path) -> int:
    """Measure into `result`. Returns the exit code."""
    with ExitStack() as stack:
        chosen = stack.enter_context(up(chosen))
        store = Store(folder)
        setup = Setup(store, images(chosen, result.size, store), fleet.project_files(PROJECT).ssh_config)
        result.releases, result.library = setup.releases, largest(result.size, state())
        stack.enter_context(cleaned(hosts_of(chosen)))
        if any(way in BY_REGISTRY for cell in chosen for way in cell.ways):
            address = next(each.address for each in fleet.status() if each.name == BUILDER)
            pullers = {host for cell in chosen for host in cell.scenario.hosts if BY_REGISTRY & set(cell.ways)}
            own = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-registry.")))
            setup = replace(setup, registry=stack.enter_context(running(BUILDER, address, sorted(pullers), own)))
        return FAILED if measure(setup, turns(chosen, result.runs), result.taken) else 0


def interrupt(_number: int, _frame: object) -> None:
    """Stop measuring and clean up, which a second Ctrl-C does not cut short.

    Raises:
        KeyboardInterrupt: always.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def several(known: Sequence[str], groups: Mapping[str, Sequence[str]], text: str) -> list[str]:
    """Names separated by commas; a group's name stands for its members.

    Raises:
        argparse.ArgumentTypeError: one of them is not known.
    """
    found = [name for each in text.split(",") for name in groups.get(each, (each,))]
    unknown = [each for each in found if each not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join((*groups, *known))}")
    return found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    usual, growth = ([each.key for each in some] for some in (USUAL, GROWTH))
    groups = {"usual": usual, "growth": growth, "all": [*usual, *growth]}
    found = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = found.add_argument
    add("--size", choices=("small", "real"), help="of the image (default: small; real with --must-show)")
    add("--runs", type=int, help="samples of each (default: 1; 3 with --must-show)")
    add("--scenarios", type=partial(several, list(SCENARIOS), groups), default=usual,
        help=f"some of {','.join(SCENARIOS)}, or usual, growth, all (default: usual)")  # fmt: skip
    add("--ways", type=partial(several, list(WAYS), {}), default=[], help=f"some of {','.join(WAYS)} (default: all)")
    add("--links", type=partial(several, LINKS, {}), help=f"some of {','.join(LINKS)} (default: all; growth: 1gbit)")
    add("--must-show", action="store_true", help="just what shipping is held to: real images and three runs")
    add("--store", type=Path, metavar="FOLDER", help="keep the packed images there, and use those that are there")
    add("--json", type=Path, metavar="FILE", help="write everything that was measured there")
    add("--pictures", type=Path, metavar="FOLDER", help="write pictures there")
    return found


def main() -> int:
    """Take the command line apart, measure, and print; what there is also after Ctrl-C."""
    chosen = parser().parse_args()
    if chosen.must_show:
        selected: Sequence[Cell] = MUST_SHOW
    else:
        only_growth = all(key.startswith(("size", "hosts")) for key in chosen.scenarios)
        selected = cells(chosen.links or (LINKS[:1] if only_growth else LINKS), chosen.scenarios, chosen.ways)
    size = chosen.size or ("real" if chosen.must_show else "small")
    result = Result(size, chosen.runs or (3 if chosen.must_show else 1))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    with tempfile.TemporaryDirectory(prefix="benchmark-ship.") as folder:
        try:
            code = run(selected, result, chosen.store or Path(folder) / "store")
        except KeyboardInterrupt:
            say("interrupted; these are the samples so far")
            code = INTERRUPTED
        except SistershipError as error:
            say(str(error))
            code = error.code
    print(show(result))
    write(result, chosen.json, chosen.pictures)
    return code


if __name__ == "__main__":
    sys.exit(main())
