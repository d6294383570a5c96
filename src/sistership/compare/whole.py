"""Two whole images, from the store or as `docker save` wrote them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from sistership.compare import trees
from sistership.compare.causes import causes_of
from sistership.compare.layers import LayerSource, differing
from sistership.compare.model import Comparison, Difference, Kind, Side
from sistership.compare.values import leaves
from sistership.image.blobs import damaged
from sistership.image.compression import unpack_zstd
from sistership.image.documents import platform_of
from sistership.image.identity import Image, Layer, digest_of
from sistership.image.layout import Store
from sistership.image.saved import SavedImage, open_saved
from sistership.image.spans import Span

#: What a config says of its layers is compared as layers.
_OF_LAYERS: Final = ("rootfs", "history")

Scratch = Callable[[], BinaryIO]


def images(a: Image, store_a: Store, b: Image, store_b: Store, *, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Compare two images; what a store does not hold is said to be unread.

    Args:
        a: one image.
        store_a: holds its blobs, or some of them, and gives temporary files.
        b: the other.
        store_b: holds its blobs; may be the same store.
        names: what to call them.

    Raises:
        BuildError: a layer is damaged.
        SistershipError: a blob is damaged, or the disk fails.
    """
    return two(stored(a, store_a, names[0]), stored(b, store_b, names[1]), store_a.scratch)


def saved(a: Path, b: Path, scratch: Scratch, *, names: tuple[str, str] | None = None) -> Comparison:
    """Compare two files that ``docker save`` wrote, as they are: times and order of entries count, too.

    Args:
        a: one file.
        b: the other.
        scratch: makes temporary files, gone when closed.
        names: what to call them; the files' names by default.

    Raises:
        BuildError: a file is damaged, or holds no image or several.
    """
    with saved_image(a, scratch, names and names[0]) as one, saved_image(b, scratch, names and names[1]) as other:
        return two(one, other, scratch)


@dataclass(frozen=True)
class Opened:
    """One image, wherever it is, with a way to its layers.

    Attributes:
        config: None where its bytes are not at hand.
        layers: from the lowest on.
    """

    side: Side
    config: Mapping[str, Any] | None = field(repr=False)
    layers: tuple[LayerSource, ...]

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """Of all layers, from the lowest on."""
        return tuple(layer.diff_id for layer in self.layers)


def stored(image: Image, store: Store, name: str) -> Opened:
    """An image whose blobs are in the store, or some of them."""
    return Opened(Side(name, image.config, image.platform), _config(image, store), tuple(_sources(image, store)))


@contextmanager
def saved_image(path: Path, scratch: Scratch, name: str | None = None) -> Iterator[Opened]:
    """An image in a file that ``docker save`` or ``export`` wrote; its layers can be read while the block lasts.

    Raises:
        BuildError: the file is damaged, or holds no image or several.
    """
    with open_saved(path, scratch) as image:
        side = Side(name or path.name, digest_of(image.config_bytes), platform_of(image.config))
        yield Opened(side, image.config, tuple(_saved_sources(image)))


def two(a: Opened, b: Opened, scratch: Scratch) -> Comparison:
    """Compare two images; what is not at hand is said to be unread.

    Raises:
        BuildError: a layer is damaged.
        SistershipError: a blob is damaged, or the disk fails.
    """
    if (a.side.config, a.diff_ids, a.side.platform) == (b.side.config, b.diff_ids, b.side.platform):
        return Comparison(a.side, b.side, same=True)
    found: list[Difference] = []
    unread: list[str] = []
    layers_a, layers_b = _based(a.layers, b.layers), _based(b.layers, a.layers)
    pairs = differing(layers_a, layers_b)
    for mine, theirs in pairs:
        found += trees.compare((mine, theirs), scratch)
        if mine and theirs and (mine.open is None or theirs.open is None):
            unread.append(f"layer {mine.number} ({mine.instruction})")
        elif mine and theirs is None:
            found += trees.alone(mine, layers_b, scratch, in_a=True)
        elif theirs and mine is None:
            found += trees.alone(theirs, layers_a, scratch, in_a=False)
    if not pairs and a.diff_ids != b.diff_ids:
        found.append(Difference(None, "", "layers", Kind.CONFIG, "the same layers in another order"))
    if a.config is None or b.config is None:
        unread.append("the config")
    else:
        found += config(a.config, b.config)
    skipped = sum(one.kind is Kind.CONTENT and not one.parts for one in found)
    if skipped:
        unread.append(f"the inside of {skipped} more files")
    return Comparison(a.side, b.side, same=False, differences=tuple(found), unread=tuple(unread))


def _based(layers: tuple[LayerSource, ...], others: tuple[LayerSource, ...]) -> tuple[LayerSource, ...]:
    """Layers of an image that does not say which came with its base: as many as the other image says."""
    count = sum(layer.base for layer in others)
    if any(layer.base for layer in layers) or not count < len(layers):
        return layers
    return tuple(replace(layer, base=number < count) for number, layer in enumerate(layers))


def config(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """Fields of two configs that differ, labels and variables by name; layers and history are no part of it."""
    mine, theirs = (leaves({key: value for key, value in side.items() if key not in _OF_LAYERS}) for side in (a, b))
    for name in sorted({*mine, *theirs}):
        one, two = mine.get(name), theirs.get(name)
        if one != two:
            found = Difference(None, "", name, Kind.CONFIG, f"{_said(one)} in A, {_said(two)} in B")
            yield replace(found, causes=causes_of(found))


def _said(value: str | None) -> str:
    return "not set" if value is None else value


def _config(image: Image, store: Store) -> Mapping[str, Any] | None:
    document = json.loads(store.read(image.config)) if store.has(image.config) else None
    return document if isinstance(document, dict) else None


def _sources(image: Image, store: Store) -> list[LayerSource]:
    return [
        LayerSource(number, layer.created_by, layer.base, layer.diff_id, _opener(layer, store))
        for number, layer in enumerate(image.layers, start=1)
    ]


def _opener(layer: Layer, store: Store) -> Callable[[], Any] | None:
    """Opens a layer of the store, whichever zstd blob it is packed into now."""
    packed = store.blob_of(layer.diff_id)
    digest = packed.digest if packed else layer.digest
    return partial(_unpacked, layer.diff_id, digest, store) if store.has(digest) else None


@contextmanager
def _unpacked(diff_id: str, digest: str, store: Store) -> Iterator[Span]:
    path, found = store.path(digest), hashlib.sha256()
    with store.scratch() as file:
        with path.open("rb") as packed:
            for chunk in unpack_zstd(packed, str(path)):
                found.update(chunk)
                file.write(chunk)
        file.flush()
        if "sha256:" + found.hexdigest() != diff_id:
            raise damaged(path)
        yield Span.whole(file)


def _saved_sources(image: SavedImage) -> list[LayerSource]:
    history = [line for line in image.config.get("history") or () if not line.get("empty_layer")]
    count = len(image.diff_ids)
    made = [str(line.get("created_by", "")) for line in history] if len(history) == count else [""] * count
    return [
        LayerSource(number + 1, made[number], _of_base(made[number]), diff_id, partial(_saved_layer, image, number))
        for number, diff_id in enumerate(image.diff_ids)
    ]


def _of_base(instruction: str) -> bool:
    """Whether a canonical image says of a layer that it came with the base; other images do not say."""
    return instruction.startswith("base layer ")


@contextmanager
def _saved_layer(image: SavedImage, number: int) -> Iterator[Span]:
    yield image.layer(number)
