"""What two layers say of their files beside the files themselves: times, owners' names, order.

None of it is part of a canonical layer, so it shows only between layers as builders wrote them, or where the canonical
form itself changed.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from typing import NamedTuple

from sistership.compare.model import Kind
from sistership.image.spans import CHUNK, Span


class _Header(NamedTuple):
    mtime: float
    names: tuple[str, str]


def compare(a: Span, b: Span) -> Iterator[tuple[Kind, str]]:
    """What differs between the headers of two layers, each with one sentence; nothing where they agree."""
    mine, theirs = _headers(a), _headers(b)
    both = [name for name in mine if name in theirs]
    if both != [name for name in theirs if name in mine]:
        first = next(one for one, two in zip_longest(both, (name for name in theirs if name in mine)) if one != two)
        yield Kind.ORDER, f"the same entries in another order, from {_path(first)} on"
    moved = [name for name in both if mine[name].mtime != theirs[name].mtime]
    if moved:
        times = (_time(side[moved[0]].mtime) for side in (mine, theirs))
        detail = f"{len(moved)} of {len(both)} entries have another time: {_path(moved[0])} {' and '.join(times)}"
        yield Kind.TIMES, detail
    named = [name for name in both if mine[name].names != theirs[name].names]
    if named:
        owners = (":".join(side[named[0]].names) or "none" for side in (mine, theirs))
        yield Kind.NAMES, f"{len(named)} entries have owners of another name: {_path(named[0])} {' and '.join(owners)}"


def _headers(span: Span) -> dict[str, _Header]:
    found: dict[str, _Header] = {}
    with span.open() as stream, tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as tar:
        for info in tar:
            found[info.name] = _Header(info.mtime, (info.uname, info.gname))
    return found


def _path(name: str) -> str:
    return "/" + name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(seconds)
