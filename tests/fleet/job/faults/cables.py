"""What happens to the connection."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from sistership.fleet import faults

from .fault import Fault, Strike
from .scene import Ended, Scene

#: Well into the first large layer.
MIDWAY = 20_000_000
SEED = 20260105
#: Bytes of a conversation before the first layer and after the last: probes, verification, tags.
BEFORE, AFTER = 25_000, 45_000


def cut_at(part: str, share: float) -> Strike:
    """The cable is cut at a byte, and carries again before the next ship.

    Args:
        part: of the conversation: `begin`, `layers` or `end`.
        share: of that part, 0 to 1.
    """

    @contextmanager
    def strike(scene: Scene) -> Iterator[Ended]:
        for host in scene.hosts:
            whole = scene.whole[host]
            low, high = {"begin": (0, BEFORE), "layers": (BEFORE, whole - AFTER), "end": (whole - AFTER, whole)}[part]
            scene.links[host].rule(round(low + share * (high - low)), "cut")
        ended = scene.ship()
        for host in scene.hosts:
            assert scene.links[host].reached() or ended.exit(host) == 0, f"{host}: the byte was never reached"
            scene.links[host].mend()
        yield ended

    return strike


@contextmanager
def ssh_killed(scene: Scene) -> Iterator[Ended]:
    """This machine's ssh is killed while it sends."""
    yield scene.finish(scene.held_at_byte(MIDWAY, "kill"))


@contextmanager
def sshd_killed(scene: Scene) -> Iterator[Ended]:
    """The host's sshd and its sessions are killed, and it stays away for the rest of the ship."""
    process = scene.held_at_byte(MIDWAY)
    with ExitStack() as all_of_them:
        for host in scene.hosts:
            all_of_them.enter_context(faults.without_sshd(host))
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
    with ExitStack() as all_of_them:
        for host in scene.hosts:
            all_of_them.enter_context(faults.powered_off(host, scene.project.fleet.project))
            scene.links[host].rule(0, "cut")
        ended = scene.finish(process, 150)
    for host in scene.hosts:
        scene.links[host].mend()
    yield ended


def _cuts() -> list[Fault]:
    draw = random.Random(SEED)
    rows = []
    for part, times in (("begin", 3), ("layers", 4), ("end", 5)):
        for number in range(times):
            share = (number + draw.random()) / times  # one in each equal piece, somewhere
            rows.append(
                Fault(
                    f"cut at {share:.2f} of the {part}",
                    cut_at(part, share),
                    {0, 20} if part == "end" else {20},
                    "cut|connection|does not answer|unreachable|^$",
                )
            )
    return rows


CABLES = [
    *_cuts(),
    Fault("ssh killed", ssh_killed, {20}, "the connection was cut"),
    Fault("sshd killed", sshd_killed, {20}, "the connection was cut|nothing listens"),
    Fault("cable pulled", frozen, {20}, "the connection was cut|does not answer", lingers=100),
    Fault("host takes no byte", stalled, {20}, "stalled", lingers=100),
    Fault("power fails while staging", off_while_staging, {20}, "cut|does not answer", restarted=True),
]
