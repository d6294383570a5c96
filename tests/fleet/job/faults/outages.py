"""What a fault takes from every host of a scene at once, and gives back when its block ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from sistership.fleet import faults

from .scene import Scene


@contextmanager
def on_every_host(scene: Scene, outage: Callable[[str], AbstractContextManager[object]]) -> Iterator[None]:
    """An outage of one host, given its name, on all of them."""
    with ExitStack() as all_of_them:
        for host in scene.hosts:
            all_of_them.enter_context(outage(host))
        yield


@contextmanager
def power_failure(scene: Scene) -> Iterator[None]:
    """Every host is off, and its cable dead; the power is back before the cables carry again."""
    with ExitStack() as all_of_them:
        for host in scene.hosts:
            all_of_them.enter_context(faults.powered_off(host, scene.project.fleet.project))
            scene.links[host].rule(0, "cut")
        yield
    for host in scene.hosts:
        scene.links[host].mend()
