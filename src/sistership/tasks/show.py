"""Verdicts and plans as people read them, and as the JSON that pipelines read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sistership.errors import SistershipError
from sistership.image.release import Release, short
from sistership.report.events import Begin, HostDone, Plan, Trouble
from sistership.report.jsonlines import JSON_VERSION as JSON_VERSION  # noqa: PLC0414 - documents have the same
from sistership.report.table import coloured, render, terminal_width
from sistership.report.words import mebibytes
from sistership.ship.difference_plan import NO_OLDER
from sistership.ship.host import Shipped
from sistership.ship.plan import HostPlan
from sistership.tasks.troubles import HostTrouble, blocks
from sistership.verify.hosts import HostVerdict
from sistership.verify.verdict import STORES, Kind, expected_ids

R = TypeVar("R", HostVerdict, Shipped)


def expectation(release: Release) -> str:
    """One line: what every host should hold."""
    image = release.image
    size = mebibytes(sum(layer.size for layer in image.layers))
    return f"{release.reference}  {image.platform}  config {short(image.config)}  {len(image.layers)} layers, {size}"


def begin(release: Release, hosts: Sequence[str]) -> Begin:
    """Work on a release begins on these hosts, for whoever listens."""
    title, platform = expectation(release), release.image.platform
    return Begin(title, release.variant, platform, release.key, release.reference, tuple(hosts))


def verdicts_text(verdicts: Sequence[HostVerdict]) -> str:
    """For each release: what is expected, one row per host with engine, store, ID and verdict, then what is wrong."""
    parts: list[str] = []
    for release, found in _by_release(verdicts):
        rows = [(each.host, *_engine_and_id(each), str(each.verdict.kind)) for each in found]
        colours = ["good" if each.verdict.kind is Kind.OK else "bad" for each in found]
        parts += [expectation(release), _table(("HOST", "ENGINE", "STORE", "ID", "VERDICT"), rows, colours)]
        troubles = [
            HostTrouble(each.host, str(each.verdict.kind), each.verdict.why, each.verdict.hint)
            for each in found
            if each.verdict.kind is not Kind.OK
        ]
        parts += [blocks(troubles)] if troubles else []
        parts += [f"{each.host}: ok, {each.verdict.why}" for each in found if _remark(each)]
    return "\n".join(parts)


def _remark(each: HostVerdict) -> bool:
    return each.verdict.kind is Kind.OK and bool(each.verdict.why)


def _engine_and_id(each: HostVerdict) -> tuple[str, str, str]:
    facts = each.facts
    shown = short(each.verdict.shown) if each.verdict.shown else "-"
    return (facts.version, facts.store, shown) if facts else ("-", "-", shown)


def _by_release(found: Sequence[R]) -> list[tuple[Release, list[R]]]:
    """Results in groups of one release, in the order in which releases first come."""
    groups: dict[str, list[R]] = {}
    for each in found:
        groups.setdefault(each.release.key, []).append(each)
    return [(group[0].release, group) for group in groups.values()]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str]) -> str:
    """A table whose last column is the verdict, in its colour."""
    colour = {len(header) - 1: colours} if coloured(sys.stdout) else None
    return render(header, rows, width=terminal_width(), colour=colour)


def verdicts_json(verdicts: Sequence[HostVerdict], code: int) -> dict[str, Any]:
    """The document of `verify --json`."""
    releases = {each.release.key: each.release for each in verdicts}
    return {
        "version": JSON_VERSION,
        "type": "verify",
        "exit": code,
        "images": [release_json(release) for release in releases.values()],
        "hosts": [_verdict_json(each) for each in verdicts],
    }


def release_json(release: Release) -> dict[str, Any]:
    """What is expected everywhere, with the ID that each kind of store will show."""
    image = release.image
    return {
        "variant": release.variant,
        "recipe": release.key,
        "reference": release.reference,
        "platform": image.platform,
        "config": image.config,
        "diff_ids": list(image.diff_ids),
        "ids": {store: list(expected_ids(image, store)) for store in STORES},
    }


def _verdict_json(each: HostVerdict) -> dict[str, Any]:
    facts = each.facts
    engine = facts and {
        "version": facts.version,
        "store": facts.store,
        "platform": facts.platform,
        "id": facts.daemon,
    }
    return {
        "host": each.host,
        "variant": each.release.variant,
        "reference": each.release.reference,
        "engine": engine,
        "id": each.verdict.shown or None,
        "verdict": str(each.verdict.kind),
        "why": each.verdict.why or None,
        "next": each.verdict.hint.replace("{host}", each.host) or None,
        "exit": each.verdict.exit_code,
    }


def plan_text(host: str, plan: HostPlan | SistershipError) -> str:
    """One host's plan for people."""
    if isinstance(plan, SistershipError):
        lines = [
            f"{host}: {plan.what}",
            f"  why:  {plan.why}" if plan.why else "",
            f"  next: {plan.hint}" if plan.hint else "",
        ]
        return "\n".join(line for line in lines if line)
    head = f"{host}: {plan.version} {plan.store}"
    if not plan.layers:
        return f"{head}, {'; '.join(plan.steps)}"
    lines = [f"{head}, {plan.steps[0] if plan.source or plan.remark else f'{mebibytes(plan.send)} to send'}"]
    width = max(6, *(len(layer.state) for layer in plan.layers))
    for layer in plan.layers:
        what = layer.layer.created_by or ("base layer" if layer.layer.base else "layer")
        row = f"  {layer.state:<{width}}  {mebibytes(layer.send):>10}  {short(layer.layer.diff_id)}"
        lines.append(f"{row}  {what[:60]}")
        # Without an older image there is nothing to choose, and nothing to tell people.
        if layer.why and layer.why != NO_OLDER:
            lines.append(f"  {'':<{width}}  {'':>10}  {layer.why}")
    lines.append(f"  disk: {mebibytes(plan.stage)} while staging, {mebibytes(plan.disk)} while loading")
    lines.extend(f"  then {step}" for step in plan.steps[1:])
    return "\n".join(lines)


def plan_json(host: str, plan: HostPlan | SistershipError) -> dict[str, Any]:
    """One host's plan in the document of `plan --json`."""
    if isinstance(plan, SistershipError):
        return {"host": host, "action": None, "error": plan.what, "why": plan.why, "next": plan.hint, "exit": plan.code}
    return {
        "host": host,
        "action": str(plan.action),
        "engine": {"version": plan.version, "store": plan.store, "id": plan.daemon},
        "encoding": str(plan.encoding),
        "send": plan.send,
        "source": plan.source or None,
        "disk": {"stage": plan.stage, "engine": plan.disk},
        "moves": {"from": plan.moves[0], "kept_as": plan.moves[1]} if plan.moves else None,
        "layers": [
            {
                "diff_id": each.layer.diff_id,
                "state": each.state,
                "size": each.size,
                "send": each.send,
                "why": each.why or None,
            }
            for each in plan.layers
        ],
        "exit": 0,
    }


def shipped_text(results: Sequence[Shipped]) -> str:
    """For each release: what was shipped, one row per host with its share of the bytes, then what went wrong."""
    parts: list[str] = []
    for release, found in _by_release(results):
        stored = sum(layer.size for layer in release.image.layers)
        rows = [(each.host, share(each.sent, stored), mebibytes(each.sent), outcome_words(each)) for each in found]
        colours = ["good" if each.code == 0 else "bad" for each in found]
        parts += [expectation(release), _table(("HOST", "SHARE", "SENT", "VERDICT"), rows, colours)]
        troubles = [_trouble(each) for each in found if each.code]
        parts += [blocks(troubles)] if troubles else []
    return "\n".join(parts)


def share(sent: int, stored: int) -> str:
    """Sent bytes as a share of an image's stored bytes; what was sent at all is never shown as nothing."""
    percent = 100 * sent / stored if stored else 0.0
    return f"{percent:.0f} %" if percent >= 10 or not sent else f"{max(percent, 0.01):.2f} %"  # noqa: PLR2004


def outcome_words(each: Shipped) -> str:
    """A host's verdict after a ship, or `failed` when none could be drawn."""
    return "failed" if each.error and each.verdict.kind is Kind.UNKNOWN else str(each.verdict.kind)


def planned_events(document: Mapping[str, Any]) -> Iterator[Plan | HostDone]:
    """The plans of `plan --json` as events; a host without a plan is done with."""
    for image in document["images"]:
        for host in image["hosts"]:
            if host["action"] is None:
                trouble = Trouble(host["error"], host["host"], host["why"], host["next"])
                yield HostDone(host["host"], image["reference"], "failed", host["exit"], error=trouble)
                continue
            send = sum(1 for layer in host["layers"] if layer["state"] in {"send", "pull", "difference"})
            have = (len(host["layers"]) or len(image["diff_ids"])) - send
            disk, name = host["disk"], image["reference"]
            yield Plan(host["host"], name, host["action"], host["send"], have, send, disk["stage"], disk["engine"])


def _trouble(each: Shipped) -> HostTrouble:
    if each.error:
        what = each.error.what if outcome_words(each) == "failed" else outcome_words(each)
        why = each.error.why or "" if what == each.error.what else each.verdict.why
        return HostTrouble(each.host, what, why, each.error.hint or each.verdict.hint)
    return HostTrouble(each.host, outcome_words(each), each.verdict.why, each.verdict.hint)


def outcome(each: Shipped, seconds: float) -> HostDone:
    """A host's end, for whoever listens."""
    trouble = None
    if each.code:
        found = _trouble(each)
        hint = found.next.replace("{host}", each.host)
        trouble = Trouble(found.what, each.host, found.why or None, hint or None)
    return HostDone(
        each.host, each.release.reference, outcome_words(each), each.code, each.sent, seconds, error=trouble
    )
