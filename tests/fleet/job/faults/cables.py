"""What happens to the connection."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from sistership.fleet import faults

from .fault import Fault
from .outages import on_every_host, power_failure
from .scene import Ended, Scene

#: Well into the first large layer.
MIDWAY = 20_000_000
SEED = 20260105


@contextmanager
def ssh_killed(scene: Scene) -> Iterator[Ended]:
    """This machine's ssh is killed while it sends."""
    yield scene.finish(scene.held_at_byte(MIDWAY, "kill"))


@contextmanager
def sshd_killed(scene: Scene) -> Iterator[Ended]:
    """The host's sshd and its sessions are killed, and it stays away for the rest of the ship."""
    process = scene.held_at_byte(MIDWAY)
    with on_every_host(scene, faults.without_sshd):
        scene.let_go()
        ended = scene.finish(process)
    yield ended


@contextmanager
def frozen(scene: Scene) -> Iterator[Ended]:
    """No packet passes any more, and nobody says so: a pulled cable."""
    process = scene.held_at_byte(MIDWAY, "freeze")
    ended = scene.finish(process, 150)
    for host in scene.hosts:
        scene.links[host].mend()
    yield ended


@contextmanager
def stalled(scene: Scene) -> Iterator[Ended]:
    """The host answers, and takes no byte: whatever writes there stands still."""
    process = scene.held_at_byte(MIDWAY)
    writers = "for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -q '\\.part$' && echo ${p#/proc/}; done; true"
    pids = scene.everywhere(writers)
    assert all(pids.values()), pids
    for host, found in pids.items():
        faults.run(host, ["kill", "-STOP", *found.split()])
    scene.let_go()
    try:
        ended = scene.finish(process, 200)
    finally:
        for host, found in pids.items():
            faults.run(host, ["sh", "-c", f"kill -CONT {' '.join(found.split())} 2>/dev/null; true"])
    yield ended


@contextmanager
def off_while_staging(scene: Scene) -> Iterator[Ended]:
    """The power fails while layers arrive, and comes back."""
    process = scene.held_at_byte(MIDWAY)
    with power_failure(scene):
        ended = scene.finish(process, 150)
    yield ended


def cuts(parts: dict[str, int]) -> list[tuple[str, float]]:
    """Where to cut: a part of the conversation and a share of it, one somewhere in each of so many equal pieces."""
    draw = random.Random(SEED)
    return [(part, (number + draw.random()) / times) for part, times in parts.items() for number in range(times)]


#: What any cut may lead to; the very last step may be done already.
CUT = Fault("cut", ssh_killed, {0, 20}, "cut|connection|does not answer|unreachable")
CABLES = [
    Fault("ssh killed", ssh_killed, {20}, "the connection was cut"),
    Fault("sshd killed", sshd_killed, {20}, "the connection was cut|nothing listens"),
    Fault("cable pulled", frozen, {20}, "the connection was cut|does not answer", lingers=100),
    Fault("host takes no byte", stalled, {20}, "stalled", lingers=100),
    Fault("power fails while staging", off_while_staging, {20}, "cut|does not answer", restarted=True),
]
