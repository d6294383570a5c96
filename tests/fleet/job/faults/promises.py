"""What has to hold after each fault."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sistership.errors import ShipError

from .fault import Fault
from .scene import Ended, Scene, matches

#: Bytes on the wire that are no image: probes and verification.
TALK = 600_000
#: Bytes that may have been under way, or in buffers, when a connection ended: sent, and never arrived.
UNDER_WAY = 6_000_000


@dataclass
class Figures:
    """What the suite counted."""

    cases: list[str] = field(default_factory=list)
    broken: int = 0
    false_successes: int = 0
    sent_again: int = 0


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


def left_whole(fault: Fault, scene: Scene, ended: Ended, figures: Figures) -> list[str]:
    """What is wrong with the hosts: they run what they ran, or what the ship says it brought."""
    wrong = []
    found = scene.look(restarted=fault.restarted)
    claimed = [host for host in scene.hosts if (line := ended.host(host)) and line["exit"] == 0]
    moved = [host for host in scene.hosts if found[host]["tag"] != scene.old[host]]
    verdicts = scene.verdict(sorted({*claimed, *moved}))
    for host in scene.hosts:
        broken = scene.broken(host, found[host], verdicts.get(host), restarted=fault.restarted)
        figures.broken += bool(broken)
        wrong += broken
    false = [f"{host}: exit 0, and verify says {verdicts[host]}" for host in claimed if verdicts[host] != "ok"]
    figures.false_successes += len(false)
    return wrong + false


def next_ship(fault: Fault, scene: Scene) -> Ended:
    """The ship after the fault; it may have to wait for a lock of which the host heard no end."""
    deadline = time.monotonic() + fault.lingers
    refused = 0
    while True:
        for host in scene.hosts:
            scene.links[host].clear()
        following = scene.ship()
        locked = any(following.exit(host) == 24 for host in scene.hosts)
        refused += following.code == ShipError.code
        if following.code == ShipError.code and refused < fault.ships:
            continue
        if not locked or time.monotonic() > deadline:
            assert following.code == 0, f"the next ship: exit {following.code} {following.lines[-4:]} {following.err}"
            return following
        time.sleep(1)


def missing(scene: Scene, staged: dict[str, int]) -> int:
    """Bytes of the image's layers that do not lie in a staging folder."""
    layers = scene.layers()
    there = sum(min(size, layers.get(name.removesuffix(".part"), 0)) for name, size in staged.items())
    return sum(layers.values()) - there


def sent_again(scene: Scene, host: str, ended: Ended, most: int) -> int:
    """Bytes that a ship sent beyond the `most` that the host lacked; the wire has to agree with what it says."""
    up = scene.links[host].counted()[0]
    assert up <= ended.sent(host) * 1.01 + TALK, f"{host}: {up} bytes on the wire for {ended.sent(host)}"
    return max(0, ended.sent(host) - most)


def completed(scene: Scene) -> list[str]:
    """What is wrong after the next ship."""
    verdicts = scene.verdict(list(scene.hosts))
    wrong = [f"{host}: after the next ship {verdict}" for host, verdict in verdicts.items() if verdict != "ok"]
    for host, kept in scene.on_all(scene.rollback).items():
        if kept != scene.old[host]:
            wrong.append(f"{host}: the older image is not kept for a rollback: {kept}")
    return wrong
