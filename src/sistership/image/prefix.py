"""An image cut to its lowest layers: loaded on the way to the whole one, while its other layers still travel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from sistership.image.documents import canonical_json, image_of
from sistership.image.identity import Image


@dataclass(frozen=True)
class Prefix:
    """The lowest layers of an image as an image of its own.

    Attributes:
        image: its identity; no store has it.
        documents: its config and manifests, by digest.
    """

    image: Image
    documents: Mapping[str, bytes]


def prefix(image: Image, config: bytes, depth: int) -> Prefix:
    """The lowest `depth` layers of an image.

    It keeps what the image says of itself (its labels say whose it is), so the history ends where the layers do.

    Args:
        config: the image's config document.
        depth: from 1 to the number of its layers.
    """
    fields = json.loads(config)
    fields["rootfs"] = {"type": "layers", "diff_ids": list(image.diff_ids[:depth])}
    history = fields.get("history") or []
    filled = accumulate(0 if line.get("empty_layer") else 1 for line in history)
    fields["history"] = [line for line, layers in zip(history, filled, strict=True) if layers <= depth]
    document = canonical_json(fields)
    cut, *manifests = image_of(document, image.layers[:depth])
    digests = (cut.config, cut.manifest, cut.manifest_plain)
    return Prefix(cut, dict(zip(digests, (document, *manifests), strict=True)))
