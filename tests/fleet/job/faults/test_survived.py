"""What a ship survives: a table of faults, three kinds of engine, one set of promises.

After each fault every host runs what it ran, the message says what happened and what to do, the next ship completes,
and no byte of a finished blob is sent again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import promises
from .cables import CABLES, CUT, cuts
from .conftest import HOSTS
from .engines import ENGINES
from .fault import Fault
from .lies import LIES
from .promises import UNDER_WAY, Figures
from .runs import RUNS
from .scene import Scene

FAULTS = [*CABLES, *ENGINES, *RUNS, *LIES]
#: What every run of the tests practises, on one kind of engine.
FAST = {"says loaded, loads nothing"}

Stage = Callable[[tuple[str, ...]], Scene]
ONE_KIND = HOSTS[-1:]


def cases() -> list[object]:
    """Every fault on all three kinds at once, and the fast ones on one kind."""
    fast = [pytest.param(fault, ONE_KIND, id=f"{fault.name}@{ONE_KIND[0]}") for fault in FAULTS if fault.name in FAST]
    full = [pytest.param(fault, HOSTS, id=f"{fault.name}@all", marks=pytest.mark.full) for fault in FAULTS]
    return [*fast, *full]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("fault", "hosts"), cases())
def test_survived(stage: Stage, figures: Figures, fault: Fault, hosts: tuple[str, ...]) -> None:
    """One fault on some hosts at once."""
    scene = stage(hosts)
    scene.reset()
    figures.cases.extend(f"{fault.name}@{host}" for host in hosts)
    with fault.strike(scene) as ended:
        wire = {host: scene.links[host].counted()[0] for host in hosts}
        wrong = promises.said(fault, scene, ended)
        wrong += promises.left_whole(fault, scene, ended, figures)
        lacks = {host: promises.missing(scene, staged) for host, staged in scene.on_all(scene.staged).items()}
        following = promises.next_ship(fault, scene)
        for host in hosts:
            most = 0 if (line := ended.host(host)) and line["exit"] == 0 else lacks[host]
            again = promises.sent_again(scene, host, following, most)
            total = sum(scene.layers().values())
            if not fault.damages and wire[host] + scene.links[host].counted()[0] > total * 1.01 + UNDER_WAY:
                wrong.append(f"{host}: {wire[host]} bytes on the wire, then {scene.links[host].counted()[0]}")
            figures.sent_again += again
            wrong += [f"{host}: {again} bytes were sent again"] if again else []
        wrong += promises.completed(scene)
    assert not wrong, "\n".join([*wrong, ended.err[-3000:]])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("hosts", "parts"),
    [
        pytest.param(ONE_KIND, {"layers": 1}, id=ONE_KIND[0]),
        pytest.param(HOSTS, {"begin": 3, "layers": 4, "end": 5}, id="all", marks=pytest.mark.full),
    ],
)
def test_cut_at_any_byte(stage: Stage, figures: Figures, hosts: tuple[str, ...], parts: dict[str, int]) -> None:
    """The cable is cut again and again, at bytes drawn from the whole conversation: each ship goes on from the last."""
    scene = stage(hosts)
    scene.reset()
    wrong: list[str] = []
    for part, share in cuts(parts):
        figures.cases.extend(f"cut at {share:.2f} of the {part}@{host}" for host in hosts)
        lacks = {host: promises.missing(scene, staged) for host, staged in scene.on_all(scene.staged).items()}
        for host in hosts:
            scene.cut_at(host, part, share, lacks[host])
        ended = scene.ship()
        wrong += promises.said(CUT, scene, ended)
        for host in hosts:
            assert scene.links[host].reached() or ended.exit(host) == 0, f"{host}: the byte was never reached"
            again = promises.sent_again(scene, host, ended, lacks[host])
            figures.sent_again += again
            wrong += [f"{host}: {again} bytes were sent again after {share:.2f} of the {part}"] if again else []
            scene.links[host].mend()
        wrong += promises.left_whole(CUT, scene, ended, figures)
    promises.next_ship(CUT, scene)
    wrong += promises.completed(scene)
    assert not wrong, "\n".join(wrong)
