"""One ship in a process of its own, so that its CPU time and its memory are that ship's alone.

Reads what to ship as JSON from standard input and writes what it took as JSON to standard output.
Everything from the start of Python to the closed connections counts.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sistership import trace
from sistership.host.inventory import connected
from sistership.image.layout import Store
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.registry.place import Place
from sistership.report.events import Event, Step
from sistership.report.listeners import Listener
from sistership.ship.road import Road
from sistership.ship.ship import ship_all

_CHILD_SUBREAPER = 36  # prctl(2)


@dataclass(frozen=True)
class Course(Listener):
    """What happened when: steps as they are told, and programs and scripts from their start to their end.

    Attributes:
        began: by the monotonic clock, seconds.
        lines: (start, end, host, what); seconds since `began`. A step has no length.
    """

    began: float
    lines: list[tuple[float, float, str, str]] = field(default_factory=list)
    running: dict[int, str] = field(default_factory=dict)

    def tell(self, event: Event) -> None:
        """Note a step."""
        if isinstance(event, Step):
            now = time.monotonic() - self.began
            self.lines.append((now, now, event.host, event.text))

    def observe(self, seen: trace.Started | trace.Ended) -> None:
        """Note a program or a script."""
        if isinstance(seen, trace.Started):
            self.running[seen.number] = _gist(" ".join(seen.argv) or seen.script)
        else:
            now = time.monotonic() - self.began
            self.lines.append((now - seen.seconds, now, seen.host, self.running.pop(seen.number)))


def _gist(script: str) -> str:
    """A script's text on one line, without what would make it long."""
    return " ".join(script.split())[:200]


def release_of(order: dict[str, Any], store: Store) -> Release:
    """The image to ship: all but the hashes of its files, which a lock would have, is in the store."""
    image = store.get(order["key"])
    if image is None:
        raise SystemExit(f"the store has no image {order['key']}")
    fields = json.loads(store.read(image.config))
    return Release("benchmark", order["key"], order["reference"], image, files=order["files"], fields=fields)


def shipped(order: dict[str, Any], course: Course) -> list[str]:
    """Ship it. Returns what went wrong, by host."""
    store = Store(Path(order["store"]))
    config = Path(order["ssh_config"])
    if order["built_on"]:
        from ship_build import finished  # noqa: PLC0415 - a ship from the store does not need it

        builder = Host(order["built_on"], ssh=order["built_on"], ssh_config=config)
        finished(builder, order["key"], order["instructions"], order["created"], store, course)
    release = release_of(order, store)
    hosts = [Host(name, ssh=name, ssh_config=config) for name in order["hosts"]]
    road = Road(Place(*order["registry"])) if order["registry"] else None
    with connected(hosts) as peers:
        done = ship_all(peers, [release], store, course, lambda *_: None, road=road, minimize=order["minimize"])
    return [f"{each.host}: {each.error or each.verdict.why}" for each in done if each.code]


def all_ended() -> None:
    """Wait for the connections that ssh keeps open in the background: only then their CPU time is counted."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def cpu_seconds() -> float:
    """Of this process and of every program that it started."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def peak_memory() -> int:
    """Bytes that this process had at most. Not `ru_maxrss`, which begins with what the starting process had."""
    found = re.search(r"(?m)^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


def main() -> None:
    """Ship once and tell what it took."""
    # ssh's master connection leaves its parent; so it comes back to this process when it ends.
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    order = json.load(sys.stdin)
    course = Course(order["began"])
    with trace.observed(course.observe):
        failed = shipped(order, course)
    ended = time.monotonic()
    all_ended()
    found = {"ended": ended, "failed": failed, "cpu": cpu_seconds(), "peak": peak_memory(), "course": course.lines}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
