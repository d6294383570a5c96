"""What `prune` found and did, as people read it and as the JSON that pipelines read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sistership.errors import SistershipError, worst
from sistership.image.gc import Item, Unneeded
from sistership.image.release import short
from sistership.report.events import Trouble
from sistership.report.table import coloured, render, terminal_width
from sistership.report.words import mebibytes
from sistership.ship.older import Fate
from sistership.ship.prune import Pruned
from sistership.tasks.show import JSON_VERSION
from sistership.tasks.troubles import HostTrouble, blocks


def pending(found: Sequence[Pruned], store: Unneeded | None) -> bool:
    """Whether there is something to remove."""
    return any(each.pending for each in found) or bool(store and (store.going or store.blobs))


def texts(found: Sequence[Pruned], store: Unneeded | None, root: str, *, done: bool) -> Iterator[str]:
    """A table for each host, then what is wrong on some, then a table for the store."""
    for each in found:
        if each.facts is not None:
            yield _host(each)
        elif each.twin and not each.error:
            yield f"{each.host}: the same engine as {each.twin}"
    troubles = [trouble for each in found for trouble in _troubles(each)]
    if troubles:
        yield blocks(troubles)
    if store is not None:
        yield _store(store, root, done=done)


def _host(each: Pruned) -> str:
    facts = each.facts
    head = f"{each.host}: {facts.version} {facts.store}" if facts else each.host
    rows = [(fate.shown, short(fate.image.id), *_what(fate, each)) for fate in each.fates]
    going = "remove" if each.freed is None else "removed"
    rows.extend(
        (shortened(one.staged.file), "-", mebibytes(one.staged.size), f"{going}: {one.why}") for one in each.leftovers
    )
    return "\n".join([f"{head}, {_sum(each.frees, each.freed)}", *_table(("IMAGE", "ID", "FREES", "WHAT"), rows)])


def _what(fate: Fate, each: Pruned) -> tuple[str, str]:
    refused = [each.refused[name] for name in fate.names if name in each.refused]
    if fate.keep or refused:
        return "-", f"stays: {fate.keep or refused[0]}"
    return mebibytes(fate.frees), "remove" if each.freed is None else "removed"


def _sum(frees: int, freed: int | None) -> str:
    if not frees:
        return "nothing to free"
    return f"{mebibytes(frees)} to free" if freed is None else f"{mebibytes(freed)} freed"


def shortened(file: str) -> str:
    """A staged file's name for people: digests are long, and the end says what the file is."""
    return file if len(file) <= 40 else f"{file[:12]}…{file[64:]}"  # noqa: PLR2004 - a digest has 64


def _troubles(each: Pruned) -> list[HostTrouble]:
    if each.error:
        return [HostTrouble(each.host, each.error.what, each.error.why or "", each.error.hint or "")]
    again = "sistership prune --hosts {host} --yes"
    return [HostTrouble(each.host, f"{name} is still there", why, again) for name, why in each.refused.items()]


def _store(found: Unneeded, root: str, *, done: bool) -> str:
    going = "removed" if done else "remove"
    rows = [
        (item.entry.name or item.entry.key[:12], item.entry.key[:12] or "-", _day(item.entry.used), *_fate(item, going))
        for item in found.items
    ]
    if found.loose:
        rows.append(("(no image)", "-", "-", mebibytes(found.loose), f"{going}: no image needs it"))
    head = f"store {root}: {_sum(found.frees, found.frees if done else None)}"
    return "\n".join([head, *_table(("IMAGE", "RECIPE", "USED", "FREES", "WHAT"), rows)])


def _fate(item: Item, going: str) -> tuple[str, str]:
    return ("-", f"stays: {item.keep}") if item.keep else (mebibytes(item.frees), going)


def _day(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}" if moment else "-"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    colours = ["warn" if row[-1].startswith("remove") else "" for row in rows]
    colour = {len(header) - 1: colours} if coloured(sys.stdout) else None
    return [render(header, rows, width=terminal_width(), colour=colour)]


def document(found: Sequence[Pruned], store: Unneeded | None, root: str, *, done: bool) -> dict[str, Any]:
    """The document of `prune --json`."""
    return {
        "version": JSON_VERSION,
        "type": "prune",
        "exit": worst([each.code for each in found]),
        "done": done,
        "hosts": [_host_json(each) for each in found],
        "store": store and _store_json(store, root, done=done),
    }


def _host_json(each: Pruned) -> dict[str, Any]:
    facts = each.facts
    return {
        "host": each.host,
        "engine": facts and {"version": facts.version, "store": facts.store, "id": facts.daemon},
        "same_as": each.twin or None,
        "images": [_fate_json(fate, each) for fate in each.fates],
        "staged": [
            {"file": one.staged.file, "size": one.staged.size, "age": one.staged.age, "why": one.why}
            for one in each.leftovers
        ],
        "frees": each.frees,
        "freed": each.freed,
        "error": _error(each.error),
        "exit": each.code,
    }


def _fate_json(fate: Fate, each: Pruned) -> dict[str, Any]:
    refused = {name: each.refused[name] for name in fate.names if name in each.refused}
    return {
        "id": fate.image.id,
        "name": fate.shown,
        "keep": fate.keep or None,
        "remove": list(fate.names) if fate.goes else [],
        "refused": refused,
        "frees": fate.frees,
    }


def _error(error: SistershipError | None) -> dict[str, Any] | None:
    return None if error is None else asdict(Trouble.of(error))


def _store_json(found: Unneeded, root: str, *, done: bool) -> dict[str, Any]:
    return {
        "root": root,
        "images": [
            {
                "name": item.entry.name or None,
                "recipe": item.entry.key or None,
                "manifest": item.entry.manifest,
                "used": f"{datetime.fromtimestamp(item.entry.used, UTC):%Y-%m-%dT%H:%M:%SZ}",
                "keep": item.keep or None,
                "frees": item.frees,
            }
            for item in found.items
        ],
        "loose": found.loose,
        "frees": found.frees,
        "freed": found.frees if done else None,
    }
