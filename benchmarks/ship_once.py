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
from pathlib import Path
from typing import Any

from sistership.host.inventory import connected
from sistership.image.layout import Store
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.report.events import Silent
from sistership.ship.ship import ship_all

_CHILD_SUBREAPER = 36  # prctl(2)


def release_of(order: dict[str, Any], store: Store) -> Release:
    """The image to ship: all but the hashes of its files, which a lock would have, is in the store."""
    image = store.get(order["key"])
    if image is None:
        raise SystemExit(f"the store has no image {order['key']}")
    fields = json.loads(store.read(image.config))
    return Release("benchmark", order["key"], order["reference"], image, files=order["files"], fields=fields)


def shipped(order: dict[str, Any]) -> list[str]:
    """Ship it. Returns what went wrong, by host."""
    store = Store(Path(order["store"]))
    release = release_of(order, store)
    hosts = [Host(name, ssh=name, ssh_config=Path(order["ssh_config"])) for name in order["hosts"]]
    with connected(hosts) as peers:
        done = ship_all(peers, [release], store, Silent(), lambda *_: None, minimize=order["minimize"])
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
    failed = shipped(json.load(sys.stdin))
    ended = time.monotonic()
    all_ended()
    print(json.dumps({"ended": ended, "failed": failed, "cpu": cpu_seconds(), "peak": peak_memory()}))


if __name__ == "__main__":
    main()
