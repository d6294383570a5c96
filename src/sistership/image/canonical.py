"""From what a builder exported to the canonical image: the same content gives the same config digest everywhere.

Base layers stay exactly as they were, since hosts may have them already. Each own layer is reduced to what it
changes in the tree below, written by one writer with one time, and config and history come from the recipe.
Measured with what Engines 20.10, 26.1 and 28.5, classic and containerd stores, made of one Dockerfile:
2 of 22 diffIDs agree as exported, all of them in canonical form.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from sistership.errors import BuildError
from sistership.image.documents import config_document, image_of, refuse_triggers
from sistership.image.layer import layer_size, read_layer, write_layer
from sistership.image.meter import Meter
from sistership.image.once import Writers
from sistership.image.pack import known, layer_of, pack_made, pack_new
from sistership.image.saved import SavedImage, SavedLayer, open_saved
from sistership.image.tree import EMPTY, changes, lay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sistership.image.blobs import Packed
    from sistership.image.identity import Image, Layer
    from sistership.image.layout import Store
    from sistership.image.tree import Change, Node

_NO_LABELS: Final[Mapping[str, str]] = {}


def canonicalise(
    saved: Path,
    *,
    instructions: Sequence[str],
    created: str,
    labels: Mapping[str, str] | None = None,
    store: Store,
    tell: Callable[[int, int], object] | None = None,
) -> Image:
    """Put the canonical form of a saved image into the store.

    Args:
        saved: what ``docker save`` wrote, any engine's form.
        instructions: one for each layer of the final stage, the last layers of the image; the others are the base's.
        created: ISO date for config and history; file times are one constant instead.
        labels: replace labels of the same name that the builder set.
        store: gets every blob, both manifests and the config.
        tell: takes bytes of layers done and bytes in all, as they were saved.

    Raises:
        BuildError: the file is damaged, or holds something that cannot be made equal on every engine.
        SistershipError: the store cannot be written.
    """
    with open_saved(saved, store.scratch) as save:
        refuse_triggers(save.config, str(saved))
        count = len(save.diff_ids) - len(instructions)
        if count < 0:
            raise BuildError(
                f"the image has {len(save.diff_ids)} layers for {len(instructions)} instructions",
                where=str(saved),
                hint="build it from the rendered Dockerfile, without squashing",
            )
        _refuse_other_layers(save, instructions)
        meter = Meter(save.blobs, tell)
        tree, base = _take_base(save, count, store, meter)
        own = list(_take_own(save, tree, instructions, store, meter))
        layers = [*base, *(layer for layer in own if layer)]
        config = config_document(
            save.config,
            created=created,
            labels=labels or _NO_LABELS,
            base_layers=count,
            own=[(text, layer is not None) for text, layer in zip(instructions, own, strict=True)],
            diff_ids=[layer.diff_id for layer in layers],
        )
    image, *manifests = image_of(config, layers)
    for document in (config, *manifests):
        store.add(document)
    return image


def _refuse_other_layers(save: SavedImage, instructions: Sequence[str]) -> None:
    """A builder that leaves a layer out, or adds one, would make the last of the base's layers an own one in silence.

    Its history tells which instruction made which layer, except where the base came without one.
    """
    history = save.config.get("history") or ()
    told = [str(line.get("created_by") or "") for line in history if not line.get("empty_layer")]
    if len(told) != len(save.diff_ids):
        return
    for line, instruction in zip(told[len(told) - len(instructions) :], instructions, strict=True):
        if instruction.split(maxsplit=1)[0] not in line.split():
            raise BuildError(
                f"the builder's history has {line[:80]!r} where {instruction} should be",
                where=str(save.path),
                why="it left a layer out, or added one, so what belongs to the base cannot be told",
                hint="take another version of the builder, and report this one",
            )


def _take_base(save: SavedImage, count: int, store: Store, meter: Meter) -> tuple[Node, list[Layer]]:
    tree, layers = EMPTY, []
    for number in range(count):
        name = f"base layer {number + 1}"
        with save.opened(number) as saved:
            packed = _base_blob(store, saved, meter.over(number, saved.span))
            tree = lay(tree, read_layer(saved.span, tree, where=name, own=False)) or EMPTY
        layers.append(layer_of(packed, base=True, created_by=name))
        meter.through(number)
    return tree, layers


def _base_blob(store: Store, saved: SavedLayer, chunks: Callable[[], Iterable[bytes]]) -> Packed:
    """The blob of a layer whose diffID the config has: what packs it finds out whether its bytes have it."""
    if store.blob_of(saved.diff_id):
        saved.begin()
    return known(store, saved.diff_id, saved.span.size) or pack_new(store, saved.span.size, chunks(), saved.accept)


def _take_own(
    save: SavedImage, tree: Node, instructions: Sequence[str], store: Store, meter: Meter
) -> Iterator[Layer | None]:
    """The canonical layer of each instruction, None where it changes nothing."""
    writers = Writers()
    first = len(save.diff_ids) - len(instructions)
    for number, instruction in enumerate(instructions, start=first):
        with save.opened(number) as saved:
            saved.begin()
            overlay = read_layer(saved.span, tree, where=f"layer {number + 1} ({instruction})", own=True)
            after = lay(tree, overlay) or EMPTY
            found = changes(tree, after)
            writers.take(found, instruction)
            packed = _own_blob(store, saved, found) if found else None
        tree = after
        yield layer_of(packed, base=False, created_by=instruction) if packed else None
        meter.through(number)


def _own_blob(store: Store, saved: SavedLayer, found: Sequence[Change]) -> Packed:
    """The blob of the canonical form; it counts only once the bytes that it was made of are proven."""
    return pack_made(store, layer_size(found), partial(write_layer, found), lambda _: saved.prove())
