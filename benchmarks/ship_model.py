"""How long a ship to many hosts takes, from what one and a few hosts were measured to take. Pure.

docs/benchmarks.md explains the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ship_figures import Row
from ship_links import rate
from ship_scenarios import GROWTH, SCENARIOS

GBIT: Final = 1e9 / 8
#: At once, unless `--jobs` says otherwise.
JOBS: Final = 16
COUNTS: Final = (1, 3, 30, 300, 3000)
_POINTS: Final = 2  # that a line needs


@dataclass(frozen=True)
class Constants:
    """What was measured, in seconds and bytes.

    Attributes:
        host: seconds that a host takes, however small the image.
        load: seconds a byte takes on a host beyond its way there: checked, loaded.
        cpu_host: processor seconds of the sending machine for each host.
        cpu_byte: processor seconds of the sending machine for each byte sent.
        push: seconds that a registry takes beyond what its bytes take, once.
        pull: as `load`, where a host's engine pulls.
    """

    host: float
    load: float
    cpu_host: float
    cpu_byte: float
    push: float = 0.0
    pull: float = 0.0


@dataclass(frozen=True)
class Site:
    """Links in bytes a second, and machines.

    Attributes:
        sender: what the machine that ships can send to all hosts together.
        receiver: what one host can receive.
        registry: what the registry can send to all hosts together; mirrors that feed hosts add to it.
        cpus: processors of the machine that ships.
        jobs: hosts at once.
    """

    sender: float = GBIT
    receiver: float = GBIT
    registry: float = GBIT
    cpus: int = 2
    jobs: int = JOBS


def direct(found: Constants, site: Site, size: float, hosts: int) -> float:
    """Seconds of a ship from one machine to hosts that have nothing of the image.

    It takes as long as what is busiest: the turns of hosts at once, the sender's link, or its processors.

    Args:
        size: bytes of the compressed image.
    """
    after = found.host + size * found.load
    alone = after + size / min(site.sender, site.receiver)
    link = hosts * size / site.sender + after
    processors = hosts * (found.cpu_host + size * found.cpu_byte) / site.cpus + after
    return max(math.ceil(hosts / site.jobs) * alone, link, processors)


def by_registry(found: Constants, site: Site, size: float, hosts: int) -> float:
    """Seconds of a push and of the pulls after it; arguments as of `direct`."""
    push = found.push + size / min(site.sender, site.registry)
    after = found.host + size * found.pull
    alone = after + size / min(site.registry, site.receiver)
    link = hosts * size / site.registry + after
    processors = hosts * found.cpu_host / site.cpus + after
    return push + max(math.ceil(hosts / site.jobs) * alone, link, processors)


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The straight line nearest to points (least squares): its value at 0, and its slope.

    Raises:
        ValueError: fewer than two different places.
    """
    if len({x for x, _ in points}) < _POINTS:
        raise ValueError("a line needs two places")
    x0, y0 = (sum(values) / len(points) for values in zip(*points, strict=True))
    slope = sum((x - x0) * (y - y0) for x, y in points) / sum((x - x0) ** 2 for x, _ in points)
    return y0 - slope * x0, slope


def measured(rows: Sequence[Row]) -> Constants | None:
    """The constants out of the growth scenarios over one shaped link; None when too little was measured."""
    keys = {each.key for each in GROWTH}
    links = list(dict.fromkeys(row.link for row in rows if row.scenario in keys and rate(row.link)))
    return next((found for link in links if (found := _over(link, rows))), None)


def _over(link: str, rows: Sequence[Row]) -> Constants | None:
    speed = rate(link)
    sizes = [row for row in rows if row.link == link and row.scenario.startswith("size")]
    counts = [row for row in rows if row.link == link and row.scenario.startswith("hosts")]
    ship = [row for row in sizes if row.way == "ship"]
    registry = [row for row in sizes if row.way == "registry"]
    if speed is None or min(len(ship), len(counts)) < _POINTS:
        return None
    host, slope = line([(row.received, row.seconds) for row in ship])
    cpu_byte = max(0.0, line([(row.received, row.cpu) for row in ship])[1])
    cpu_more = line([(len(SCENARIOS[row.scenario].hosts), row.cpu) for row in counts])[1]
    bytes_more = line([(len(SCENARIOS[row.scenario].hosts), row.received) for row in counts])[1]
    push, pull = 0.0, 0.0
    if len(registry) >= _POINTS:
        # What arrived, arrived twice: at the registry and at the host.
        first, both = line([(row.received / 2, row.seconds) for row in registry])
        push, pull = max(0.0, first - host), max(0.0, both - 2 / speed)
    return Constants(
        host=max(0.0, host),
        load=max(0.0, slope - 1 / speed),
        cpu_host=max(0.0, cpu_more - cpu_byte * bytes_more),
        cpu_byte=cpu_byte,
        push=push,
        pull=pull,
    )


#: Name → where, and by a registry or not.
SITES: Final = {
    "direct, 1 Gbit": (Site(), False),
    "direct, 10 Gbit sender, --jobs 64": (Site(sender=10 * GBIT, cpus=8, jobs=64), False),
    "registry, 10 Gbit, --jobs 64": (Site(registry=10 * GBIT, jobs=64), True),
    "registry and 20 mirrors of 10 Gbit, --jobs 256": (Site(registry=200 * GBIT, jobs=256), True),
}


def seconds(name: str, found: Constants, size: float, hosts: int) -> float:
    """Of one of `SITES`."""
    site, registry = SITES[name]
    return (by_registry if registry else direct)(found, site, size, hosts)


def table(found: Constants, size: float) -> str:
    """Seconds for each site and each number of hosts, as Markdown."""
    head = ("hosts", *SITES)
    lines: list[tuple[str, ...]] = [head, ("---",) * len(head)]
    lines += [(str(count), *(f"{seconds(name, found, size, count):.0f}" for name in SITES)) for count in COUNTS]
    return "\n".join("| " + " | ".join(each) + " |" for each in lines)
