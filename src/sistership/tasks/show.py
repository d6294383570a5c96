"""Verdicts and plans as people read them, and as the JSON that pipelines read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from sistership.errors import SistershipError
from sistership.image.release import Release, short
from sistership.report.events import mebibytes
from sistership.report.table import coloured, render, terminal_width
from sistership.ship.plan import HostPlan
from sistership.ship.ship import Shipped
from sistership.verify.hosts import HostVerdict
from sistership.verify.verdict import Kind, expected_ids

#: Of every JSON document; it changes when a field changes its meaning or goes away, not when one is added.
JSON_VERSION = 1


def expectation(release: Release) -> str:
    """One line: what every host should hold."""
    image = release.image
    return (
        f"{release.reference}  {image.platform}  config {short(image.config)}  "
        f"manifest {short(image.manifest)}  {len(image.layers)} layers"
    )


def verdict_table(verdicts: Sequence[HostVerdict]) -> str:
    """One row per host and release: host, engine and store, the ID that host shows, verdict, why."""
    rows, colours = [], []
    for each in verdicts:
        engine = f"{each.facts.version} {each.facts.store}" if each.facts else "-"
        shown = short(each.verdict.shown) if each.verdict.shown else "-"
        why = each.verdict.why
        if each.verdict.hint:
            why = f"{why}; next: {each.verdict.hint.replace('HOST', each.host)}"
        rows.append((each.host, engine, each.release.reference, shown, str(each.verdict.kind), why))
        colours.append("good" if each.verdict.kind is Kind.OK else "bad")
    header = ("HOST", "ENGINE", "IMAGE", "ID", "VERDICT", "WHY")
    return render(header, rows, width=terminal_width(), colour={4: colours} if coloured(sys.stdout) else None)


def verdicts_json(verdicts: Sequence[HostVerdict], code: int) -> dict[str, Any]:
    """The document of `verify --json`."""
    releases = {each.release.key: each.release for each in verdicts}
    return {
        "version": JSON_VERSION,
        "kind": "verify",
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
        "ids": {store: list(expected_ids(image, store)) for store in ("classic", "containerd")},
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
        "next": each.verdict.hint.replace("HOST", each.host) or None,
        "exit": each.verdict.exit_code,
    }


def plan_text(host: str, plan: HostPlan | SistershipError) -> str:
    """One host's plan for people."""
    if isinstance(plan, SistershipError):
        return f"{host}: {plan.what}" + (f"\n  next: {plan.hint}" if plan.hint else "")
    head = f"{host}: {plan.version} {plan.store}"
    if not plan.layers:
        return f"{head}, {'; '.join(plan.steps)}"
    lines = [f"{head}, {mebibytes(plan.send)} to send"]
    for layer in plan.layers:
        what = layer.layer.created_by or ("base layer" if layer.layer.base else "layer")
        lines.append(f"  {layer.state:<6}  {mebibytes(layer.send):>10}  {short(layer.layer.diff_id)}  {what[:60]}")
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
        "engine": {"version": plan.version, "store": plan.store},
        "encoding": str(plan.encoding),
        "send": plan.send,
        "disk": {"stage": plan.stage, "engine": plan.disk},
        "moves": {"from": plan.moves[0], "kept_as": plan.moves[1]} if plan.moves else None,
        "layers": [
            {"diff_id": each.layer.diff_id, "state": each.state, "size": each.size, "send": each.send}
            for each in plan.layers
        ],
        "exit": 0,
    }


def shipped_table(results: Sequence[Shipped]) -> str:
    """One row per host and release after a ship."""
    rows, colours = [], []
    for each in results:
        why = each.verdict.why
        hint = (each.error.hint if each.error else None) or each.verdict.hint
        if hint:
            why = f"{why}; next: {hint.replace('HOST', each.host)}"
        verdict = "failed" if each.error and each.verdict.kind is Kind.UNKNOWN else str(each.verdict.kind)
        rows.append((each.host, each.release.reference, mebibytes(each.sent), verdict, why))
        colours.append("good" if each.code == 0 else "bad")
    header = ("HOST", "IMAGE", "SENT", "VERDICT", "WHY")
    return render(header, rows, width=terminal_width(), colour={3: colours} if coloured(sys.stdout) else None)
