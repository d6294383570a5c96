"""``python -m sistership.fleet up|status|down``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sistership.errors import INTERRUPTED, OK, SistershipError
from sistership.fleet import down, status, up

if TYPE_CHECKING:
    from collections.abc import Sequence


def _talk(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def parser() -> argparse.ArgumentParser:
    """The three verbs and their flags."""
    top = argparse.ArgumentParser(prog="python -m sistership.fleet", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("up", help="have the practice hosts running")
    start.add_argument("--project", type=Path, default=Path.cwd(), help="folder that gets .sistership/fleet")
    start.add_argument("--hosts", help="names or globs, separated by commas; ^NAME leaves one out")
    verbs.add_parser("status", help="say how each host is")
    stop = verbs.add_parser("down", help="remove the hosts; caches stay")
    stop.add_argument("--purge", action="store_true", help="remove the caches too")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    options = parser().parse_args(argv)
    try:
        if options.verb == "up":
            up(options.project, hosts=options.hosts.split(",") if options.hosts else None, report=_talk)
        elif options.verb == "down":
            down(purge=options.purge, report=_talk)
        else:
            for host in status():
                print(host)  # noqa: T201
    except SistershipError as error:
        _talk(str(error))
        return error.code
    except KeyboardInterrupt:
        _talk("interrupted; fleet up repairs what is half-done")
        return INTERRUPTED
    return OK


if __name__ == "__main__":
    sys.exit(main())
