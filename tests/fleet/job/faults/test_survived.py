"""What a ship survives: a table of faults, three kinds of engine, one set of promises.

After each fault every host runs what it ran, the message says what happened and what to do, the next ship completes,
and no byte of a finished blob is sent again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .cables import CABLES
from .conftest import HOSTS, Figures
from .engines import ENGINES
from .fault import Fault
from .lies import LIES
from .runs import RUNS
from .scene import Ended, Scene, matches

FAULTS = [*CABLES, *ENGINES, *RUNS, *LIES]
#: What every run of the tests practises, on one kind of engine.
FAST = ("cut at 0.51 of the layers", "engine killed in mid-load")
#: Bytes on the wire that are no image: probes, verification; and what may have been under way when the cable was cut.
TALK, UNDER_WAY = 600_000, 6_000_000

Stage = Callable[[tuple[str, ...]], Scene]


def cases() -> list[object]:
    """Every fault on all three kinds at once, and the fast ones on one kind."""
    fast = [pytest.param(fault, HOSTS[-1:], id=f"{fault.name}@{HOSTS[-1]}") for fault in FAULTS if fault.name in FAST]
    full = [pytest.param(fault, HOSTS, id=f"{fault.name}@all", marks=pytest.mark.full) for fault in FAULTS]
    return [*fast, *full]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("fault", "hosts"), cases())
def test_survived(stage: Stage, figures: Figures, fault: Fault, hosts: tuple[str, ...]) -> None:
    """One fault on some hosts at once."""
    scene = stage(hosts)
    scene.reset()
    figures.cases.extend(f"{fault.name}@{host}" for host in hosts)
    with fault.strike(scene) as ended:
        wire = {host: scene.links[host].counted()[0] for host in hosts}
        wrong = said(fault, scene, ended)
        found = scene.look(restarted=fault.restarted)
        claimed = [host for host in hosts if (line := ended.host(host)) and line["exit"] == 0]
        moved = [host for host in hosts if found[host]["tag"] != scene.old[host]]
        verdicts = scene.verdict(sorted({*claimed, *moved}))
        for host in hosts:
            broken = scene.broken(host, found[host], verdicts.get(host), restarted=fault.restarted)
            figures.broken += bool(broken)
            wrong += broken
        false = [f"{host}: exit 0, and verify says {verdicts[host]}" for host in claimed if verdicts[host] != "ok"]
        figures.false_successes += len(false)
        wrong += false
        staged = scene.on_all(scene.staged)
        following = next_ship(fault, scene)
        for host in hosts:
            again = sent_again(fault, scene, host, ended, following, staged[host], wire[host])
            figures.sent_again += again
            wrong += [f"{host}: {again} bytes were sent again"] if again else []
        wrong += completed(scene)
    assert not wrong, "\n".join([*wrong, ended.err[-3000:]])


def said(fault: Fault, scene: Scene, ended: Ended) -> list[str]:
    """What is wrong with exit codes and messages."""
    wrong = ["a traceback"] if "Traceback" in ended.err else []
    for host in scene.hosts:
        trouble = ended.trouble(host)
        if ended.exit(host) not in fault.codes:
            wrong.append(f"{host}: exit {ended.exit(host)}, {trouble}")
        elif not matches(fault.says, trouble, "" if trouble else ended.err) and ended.exit(host):
            wrong.append(f"{host}: its message is {trouble}")
        if trouble and not trouble["next"]:
            wrong.append(f"{host}: no next step: {trouble}")
        if fault.sends is not None and ended.sent(host) > fault.sends:
            wrong.append(f"{host}: {ended.sent(host)} bytes were sent")
    return wrong


def next_ship(fault: Fault, scene: Scene) -> Ended:
    """The ship after the fault; it may have to wait for a lock of which the host heard no end."""
    deadline = time.monotonic() + fault.lingers
    while True:
        for host in scene.hosts:
            scene.links[host].clear()
        following = scene.ship()
        locked = any(following.exit(host) == 24 for host in scene.hosts)
        if not locked or time.monotonic() > deadline:
            assert following.code == 0, f"the next ship: exit {following.code} {following.lines[-4:]} {following.err}"
            return following
        time.sleep(1)


def sent_again(
    fault: Fault, scene: Scene, host: str, ended: Ended, following: Ended, staged: dict[str, int], wire: int
) -> int:
    """Bytes that the next ship sent although they lay on the host, or had been sent before."""
    layers = scene.layers()
    there = sum(min(size, layers.get(name.removesuffix(".part"), 0)) for name, size in staged.items())
    line = ended.host(host)
    again = following.sent(host) - (0 if line and line["exit"] == 0 else sum(layers.values()) - there)
    up = scene.links[host].counted()[0]
    assert up <= following.sent(host) * 1.01 + TALK, f"{host}: {up} bytes on the wire for {following.sent(host)}"
    if not fault.damages:
        again = max(again, wire + up - int(sum(layers.values()) * 1.01) - 2 * TALK - UNDER_WAY)
    return max(0, again)


def completed(scene: Scene) -> list[str]:
    """What is wrong after the next ship."""
    verdicts = scene.verdict(list(scene.hosts))
    wrong = [f"{host}: after the next ship {verdict}" for host, verdict in verdicts.items() if verdict != "ok"]
    for host, kept in scene.on_all(scene.rollback).items():
        if kept != scene.old[host]:
            wrong.append(f"{host}: the older image is not kept for a rollback: {kept}")
    return wrong
