"""What happens to the engine and to its disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sistership.fleet import faults

from .cables import MIDWAY
from .fault import Fault
from .outages import on_every_host, power_failure
from .scene import STAGE, Ended, Scene

CACHE = STAGE.rpartition("/")[0]
#: Where an engine puts what it reads of an archive before it is a layer.
SCRATCH = {
    "classic20": "/var/lib/docker/tmp",
    "classic26": "/var/lib/docker/tmp",
    "containerd26": "/var/lib/docker/containerd/daemon/io.containerd.content.v1.content/ingest",
}


@contextmanager
def killed_in_mid_load(scene: Scene) -> Iterator[Ended]:
    """The engine is killed while it reads the archive, and stays away for the rest of the ship."""
    with scene.held_load() as process, on_every_host(scene, faults.without_engine):
        scene.go_on_loading()
        ended = scene.finish(process)
    yield ended


@contextmanager
def restarted_in_mid_load(scene: Scene) -> Iterator[Ended]:
    """The engine is killed while it reads the archive, and is back before anybody asks again."""
    with scene.held_load() as process, on_every_host(scene, faults.without_engine):
        pass
    yield scene.finish(process)


@contextmanager
def off_in_mid_load(scene: Scene) -> Iterator[Ended]:
    """The power fails while the engine reads the archive, and comes back."""
    with scene.held_load() as process, power_failure(scene):
        ended = scene.finish(process, 150)
    yield ended


@contextmanager
def gone_before_the_load(scene: Scene) -> Iterator[Ended]:
    """The engine dies while layers arrive."""
    process = scene.held_at_byte(MIDWAY)
    with on_every_host(scene, faults.without_engine):
        scene.let_go()
        ended = scene.finish(process)
    yield ended


@contextmanager
def small_for_staging(scene: Scene) -> Iterator[Ended]:
    """The disk of the staging folder is too small from the start."""
    with on_every_host(scene, lambda host: faults.small_disk(host, CACHE, 40 << 20)):
        ended = scene.ship()
    yield ended


@contextmanager
def fills_while_staging(scene: Scene) -> Iterator[Ended]:
    """Somebody else fills the disk while layers arrive; the next ship finds the file gone."""
    with on_every_host(scene, lambda host: faults.small_disk(host, CACHE, 200 << 20)):
        process = scene.held_at_byte(MIDWAY)
        scene.everywhere(f"dd if=/dev/zero of={CACHE}/somebody bs=1M 2>/dev/null || true")
        scene.let_go()
        ended = scene.finish(process)
        scene.everywhere(f"rm {CACHE}/somebody")
        yield ended


@contextmanager
def full_while_loading(scene: Scene) -> Iterator[Ended]:
    """The engine's disk has no room for what it reads."""
    with on_every_host(scene, lambda host: faults.small_disk(host, SCRATCH[host], 4 << 20)):
        ended = scene.ship()
    yield ended


ENGINES = [
    Fault(
        "engine killed in mid-load", killed_in_mid_load, {21, 22}, "refused the image|does not answer", restarted=True
    ),
    Fault("engine restarted in mid-load", restarted_in_mid_load, {0, 22}, "refused the image|^$", restarted=True),
    Fault("power fails in mid-load", off_in_mid_load, {20}, "cut|does not answer", restarted=True),
    Fault("engine gone before the load", gone_before_the_load, {21, 22}, "does not answer|refused", restarted=True),
    Fault("too small a disk", small_for_staging, {21}, "staging folder needs .* are free", sends=0),
    Fault("disk full while staging", fills_while_staging, {22}, "No space left on device"),
    Fault("disk full while loading", full_while_loading, {22}, "no space left"),
]
