"""A host's plan as an event, for whoever listens."""

from __future__ import annotations

from sistership.image.release import Release
from sistership.report.events import Plan
from sistership.ship.plan import HostPlan


def planned(plan: HostPlan, release: Release) -> Plan:
    """What the plan says, in figures: bytes, layers that are there already or staged, layers to send."""
    send = sum(1 for layer in plan.layers if layer.state in {"send", "pull", "difference"})
    # A plan without layers sends nothing: the engine holds them all.
    total = len(plan.layers) or len({layer.diff_id for layer in release.image.layers})
    return Plan(
        host=plan.host,
        image=release.reference,
        action=str(plan.action),
        bytes=plan.send,
        have=total - send,
        send=send,
        stage=plan.stage,
        engine=plan.disk,
    )
