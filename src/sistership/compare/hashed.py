"""An image whose bytes are not at hand against one that is: by the hashes that the lock keeps of its files."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Container, Iterator, Mapping, Sequence

from sistership.compare.layers import LayerSource
from sistership.compare.model import Difference
from sistership.compare.records import hashes
from sistership.image.tarstream import entries, show

_WHITEOUT = b".wh."


def files(
    recorded: Mapping[str, str], layers: Sequence[LayerSource], base: Container[str], *, recorded_in_a: bool
) -> Iterator[Difference]:
    """Files that differ by their sha256, of the layers that do not come with the base.

    Args:
        recorded: path → 64 hex digits, the lock's `files`.
        layers: of the image that is at hand, from the lowest on.
        base: diffIDs of the recorded image's base layers.
        recorded_in_a: the recorded image is A.

    Raises:
        BuildError: a layer is damaged.
    """
    found: dict[str, str] = {}
    for layer in layers:
        if layer.diff_id in base or layer.base or layer.open is None:
            continue
        with layer.open() as span:
            for entry in entries(span, layer.instruction):
                folder, name = posixpath.split(entry.path)
                if name.startswith(_WHITEOUT):
                    found.pop(show(posixpath.join(folder, name.removeprefix(_WHITEOUT))), None)
                elif entry.content is not None:
                    digest = hashlib.sha256()
                    for chunk in entry.content.chunks():
                        digest.update(chunk)
                    found[show(entry.path)] = digest.hexdigest()
    yield from hashes(recorded, found) if recorded_in_a else hashes(found, recorded)
