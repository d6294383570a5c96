"""Which layers a host has for certain, so that they need not be sent. Pure.

Rules measured on Engines 20.10, 26.1 and 28.5 and Podman 5.4: the classic store takes a layer it has under the same
chain ID (the same layers below it, in the same order); the containerd store takes the very blob, and its API lists no
blobs, so only an image whose manifest we made ourselves tells what is there. Podman takes a plain layer that it has in
any image, at any place, and a compressed one that came to it as that very blob.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.image.identity import Image
from sistership.image.layout import Store

#: Manifest digest → digests of its layer blobs, of every image that we made in either form.
Manifests = Mapping[str, frozenset[str]]


def manifests_of(images: Sequence[Image]) -> dict[str, frozenset[str]]:
    """The layer blobs of each image's two manifest forms."""
    found: dict[str, frozenset[str]] = {}
    for image in images:
        found[image.manifest] = frozenset(layer.digest for layer in image.layers)
        found[image.manifest_plain] = frozenset(image.diff_ids)
    return found


def known_manifests(store: Store) -> dict[str, frozenset[str]]:
    """The manifests of every image in the store."""
    images = (store.get(record.key) for record in store.records())
    return manifests_of([image for image in images if image is not None])


def layers_had(image: Image, facts: HostFacts, known: Manifests, *, plain: bool) -> frozenset[str]:
    """diffIDs of the image's layers that may be left out of the archive for this host.

    Args:
        plain: the archive carries plain layers, so the containerd store has to hold plain blobs.
    """
    if facts.store == "classic":
        return frozenset(image.diff_ids[: _common_layers(image, facts.images)])
    blobs = _blobs(facts, known, plain=plain) if facts.blobs is None else facts.blobs
    return frozenset(layer.diff_id for layer in image.layers if (layer.diff_id if plain else layer.digest) in blobs)


def _blobs(facts: HostFacts, known: Manifests, *, plain: bool) -> set[str]:
    """Digests of the blobs that an engine has by its images; a plain layer's is its diffID."""
    blobs: set[str] = set()
    for held in facts.images:
        # Without its layers shown an image is not complete there, whatever its ID says.
        if not held.diff_ids:
            continue
        if facts.store == "containerd":
            blobs |= known.get(held.id, frozenset())
        elif plain:
            blobs |= set(held.diff_ids)
        else:
            for name in held.digests:
                blobs |= known.get(name.partition("@")[2], frozenset())
    return blobs


def _common_layers(image: Image, held: Sequence[HeldImage]) -> int:
    """How many of the image's lowest layers some held image has as its own lowest ones."""
    best = 0
    for other in held:
        count = 0
        for mine, theirs in zip(image.diff_ids, other.diff_ids, strict=False):
            if mine != theirs:
                break
            count += 1
        best = max(best, count)
    return best
