"""What happens to the run itself, and runs that meet."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from .cables import MIDWAY
from .fault import Fault, Strike
from .scene import STAGE, Ended, Scene


def ended_while_staging(how: signal.Signals) -> Strike:
    """The run gets a signal while layers travel."""

    @contextmanager
    def strike(scene: Scene) -> Iterator[Ended]:
        process = scene.held_at_byte(MIDWAY)
        process.send_signal(how)
        ended = scene.finish(process, 60)
        scene.let_go()
        yield ended

    return strike


def ended_in_mid_load(how: signal.Signals) -> Strike:
    """The run gets a signal while the engines read the archive."""

    @contextmanager
    def strike(scene: Scene) -> Iterator[Ended]:
        with scene.held_load() as process:
            process.send_signal(how)
            ended = scene.finish(process, 60)
        yield ended

    return strike


@contextmanager
def two_ships(scene: Scene) -> Iterator[Ended]:
    """Another ship to the same hosts, while the first one is at work: refused, and the first completes."""
    process = scene.held_at_byte(MIDWAY)
    for host in scene.hosts:
        scene.links[host].rule(1 << 60, "hold")  # the first one's relay waits for its rule to go; the second passes
    second = scene.ship()
    for host in scene.hosts:
        assert second.exit(host) == 24, second
        assert "another ship" in second.trouble(host)["what"]
        assert second.sent(host) == 0
    scene.let_go()
    yield scene.finish(process)


@contextmanager
def ship_and_prune(scene: Scene) -> Iterator[Ended]:
    """A prune of hosts and store while a ship is at work: refused, what is staged stays, and the ship completes."""
    process = scene.held_at_byte(MIDWAY)
    for host in scene.hosts:
        scene.links[host].rule(1 << 60, "hold")
    before = scene.on_all(scene.staged)
    done = scene.project.run("prune", "--hosts", scene.names, "--keep", "0", "--yes", code=24)
    assert "under way" in done.out + done.err
    assert scene.on_all(scene.staged) == before
    scene.project.run("prune", "--local", "--yes", code=24)
    scene.let_go()
    yield scene.finish(process)


def clock(day: str, seconds: int) -> Strike:
    """The host's clock is wrong when the next ship comes: `date` says so, and what is staged has times of another age.

    Args:
        day: as touch(1) reads it: when the staged files seem to have been written.
        seconds: since 1970, what `date` prints.
    """

    @contextmanager
    def strike(scene: Scene) -> Iterator[Ended]:
        process = scene.held_at_byte(MIDWAY)
        process.kill()
        ended = scene.finish(process, 60)
        scene.let_go()
        scene.everywhere(f"touch -d '{day}' {STAGE}/* {STAGE} {STAGE}/../ship.lock")
        scene.stand_in("date", f'#!/bin/sh\nexec /usr/bin/date -d @{seconds} "$@"\n')
        yield ended

    return strike


KILLED = -signal.SIGKILL
RUNS = [
    Fault("Ctrl-C while staging", ended_while_staging(signal.SIGINT), {130}, "interrupted"),
    Fault("SIGKILL while staging", ended_while_staging(signal.SIGKILL), {KILLED}),
    Fault("SIGTERM in mid-load", ended_in_mid_load(signal.SIGTERM), {130}, "interrupted"),
    Fault("SIGKILL in mid-load", ended_in_mid_load(signal.SIGKILL), {KILLED}),
    Fault("two ships at once", two_ships, {0}),
    Fault("ship and prune at once", ship_and_prune, {0}),
    Fault("clock far behind", clock("2038-01-01", 86_400), {KILLED}),
    Fault("clock far ahead", clock("1999-01-01", 2_145_916_800), {KILLED}),
]
