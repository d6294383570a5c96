"""Which layers a host loads together while others still travel. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sistership.image.layout import Store
from sistership.image.prefix import Prefix, prefix
from sistership.image.release import OWN_REGISTRY, Release, own_path, short
from sistership.ship.plan import HostPlan, LayerPlan

#: Bytes, unpacked, that are worth a load of their own: it takes about 0.3 s on top (measured on Engine 26.1).
LEAST: Final = 32 << 20
#: Bytes to be sent below which nothing is gained by loading before they are there.
AHEAD: Final = 8 << 20


@dataclass(frozen=True)
class Batch:
    """Layers that are loaded together.

    Attributes:
        depth: how many of the image's lowest layers the host has afterwards.
        layers: diffIDs of those that this load brings.
    """

    depth: int
    layers: frozenset[str]


def batches(plan: HostPlan, release: Release) -> tuple[Batch, ...]:
    """The loads of a plan, one after the other; the last one makes the whole image.

    A host unpacks one layer while the next ones travel, where both are large. An engine takes layers only upon those
    below them, so the order is that of the image.
    """
    todo = {each.layer.diff_id: each for each in plan.layers if each.state != "have"}
    found: list[Batch] = []
    taken: list[LayerPlan] = []
    coming = sum(each.send for each in todo.values())
    for depth, diff_id in enumerate(release.image.diff_ids, start=1):
        each = todo.pop(diff_id, None)  # the same layer may occur twice
        if each is None:
            continue
        taken.append(each)
        coming -= each.send
        if coming >= LEAST and sum(one.layer.plain_size for one in taken) >= LEAST:
            found.append(_batch(depth, taken))
            taken = []
    return (*found, _batch(len(release.image.layers), taken))


def _batch(depth: int, layers: Sequence[LayerPlan]) -> Batch:
    return Batch(depth, frozenset(each.layer.diff_id for each in layers))


def worth_loading_early(plan: HostPlan) -> bool:
    """Whether enough travels that a load that begins before it has arrived is sooner done."""
    return plan.send >= AHEAD


def cuts(release: Release, store: Store) -> dict[int, Prefix]:
    """The image's lowest layers as images, by their number.

    Raises:
        SistershipError: the image's config is missing or damaged in the store.
    """
    config = store.read(release.image.config)
    return {depth: prefix(release.image, config, depth) for depth in range(1, len(release.image.layers))}


def name_of(release: Release, cut: Prefix) -> str:
    """The name of a prefix: one of ours, as that of the image, by its own config digest."""
    return f"{OWN_REGISTRY}/{own_path(release.reference.rpartition(':')[0])}:{short(cut.image.config)}"
