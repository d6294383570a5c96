"""Differences in place of whole layers, where they win: the link is measured, and what may win is made here.

`difference_plan` decides, `remake` has the host make layers of what it was sent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from sistership.errors import SistershipError
from sistership.host.facts import HostFacts
from sistership.host.inventory import Peer
from sistership.image.difference import LEAST, Difference, NoDifferenceError, cached, make
from sistership.image.layout import Store
from sistership.image.release import Release, short
from sistership.report.words import mebibytes
from sistership.ship.difference_plan import (
    MAKE,
    NO_OLDER,
    Older,
    apply_seconds,
    because,
    older_image,
    reason_against,
    too_little_memory,
    unable,
    with_differences,
)
from sistership.ship.have import known_manifests, layers_had
from sistership.ship.plan import Action, HostPlan, LayerPlan
from sistership.verify.verdict import Kind, Verdict

#: Random bytes that measure a link, at most: 1 Gbit/s then takes longer than starting a shell.
_PROBE: Final = 4 << 20
#: What a probe may cost, as a part of the bytes that it decides about.
_PROBE_SHARE: Final = 16
#: A link that carries more is no reason for a difference, and cannot be measured with so few bytes: 1 Gbit/s.
_FAST: Final = 117e6


def improved(
    peer: Peer,
    release: Release,
    facts: HostFacts,
    verdict: Verdict,
    plan: HostPlan,
    store: Store,
    *,
    minimize: bool = False,
    tell: Callable[[str], object] = str,
) -> HostPlan:
    """The plan with differences in place of whole layers, where that wins; else with the reason why not.

    Differences are made on the way and kept in the store: only then their size is known.

    Args:
        minimize: what counts is bytes, not time.
        tell: is told what takes long.

    Raises:
        HostUnreachableError: the connection was cut while its speed was measured.
    """
    large = [each.layer for each in plan.layers if each.state == "send" and each.send >= LEAST]
    # What turned out incomplete once gets everything anew.
    if plan.action is not Action.LOAD or plan.source or verdict.kind is Kind.INCOMPLETE or not large:
        return plan
    images = [image for record in store.records() if (image := store.get(record.key))]
    older = older_image(release, facts, images, large)
    why = unable(facts) if older else NO_OLDER
    if why or older is None:
        return because(plan, {layer.diff_id: why for layer in large})
    speed = None if minimize else link_speed(peer, plan.send // _PROBE_SHARE)
    found, reasons = _differences(plan, older, facts, store, speed, tell)
    plan = because(plan, reasons)
    if not found:
        return plan
    had = layers_had(release.image, facts, known_manifests(store), plain=True)
    other = with_differences(plan, release, facts, older, found, had)
    lost = reason_against(plan, other, facts, speed)
    return because(plan, dict.fromkeys(found, lost)) if lost else other


def link_speed(peer: Peer, size: int) -> float:
    """Bytes a second that reach a host, by a small probe of random bytes; at most 1 Gbit/s is told.

    Args:
        size: bytes that the probe may have; it takes 4 MiB at most.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    size = min(size, _PROBE)
    began = time.monotonic()
    peer.transport.run("cat >/dev/null", stdin=b"\0", timeout=60)
    started = time.monotonic()
    peer.transport.run("cat >/dev/null", stdin=os.urandom(size), timeout=600)
    # Without what starting a shell takes.
    return size / max(time.monotonic() - started - (started - began), size / _FAST)


def _differences(
    plan: HostPlan, older: Older, facts: HostFacts, store: Store, speed: float | None, tell: Callable[[str], object]
) -> tuple[dict[str, Difference], dict[str, str]]:
    """By diffID: the differences that may win, and why there is none for the other large layers."""
    found: dict[str, Difference] = {}
    reasons: dict[str, str] = {}
    for each in plan.layers:
        if each.state == "send" and each.send >= LEAST:
            try:
                found[each.layer.diff_id] = _difference(each, older, facts, store, speed, tell)
            except NoDifferenceError as error:
                reasons[each.layer.diff_id] = str(error)
            except SistershipError as error:
                reasons[each.layer.diff_id] = f"{error.what}: {error.why}" if error.why else error.what
    return found, reasons


def _difference(
    each: LayerPlan, older: Older, facts: HostFacts, store: Store, speed: float | None, tell: Callable[[str], object]
) -> Difference:
    new, old = each.layer, older.counterpart(each.layer)
    if old is None:
        raise NoDifferenceError("the older image there has no such layer")
    known = cached(store, old, new)
    if known is None and not store.has(old.digest):
        raise NoDifferenceError("the store here has lost the older layer")
    memory = known.memory if known else old.plain_size + new.plain_size
    if why := too_little_memory(facts, memory):
        raise NoDifferenceError(why)
    if speed is not None:
        making = 0.0 if known else new.plain_size / MAKE
        if making + apply_seconds(new, known) >= each.send / speed:
            raise NoDifferenceError(f"at {mebibytes(int(speed))}/s the whole layer is there sooner")
    if known is None:
        tell(f"making the difference of layer {short(new.diff_id)}")
    found = known or make(store, old, new)
    if not found.digest or found.size >= each.send:
        raise NoDifferenceError("a difference would be no smaller")
    if why := too_little_memory(facts, found.memory):
        raise NoDifferenceError(why)
    return found
