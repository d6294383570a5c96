"""Put a canonical image back into the store from what an engine saved of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sistership.errors import IdentityError
from sistership.image.blobs import Packed
from sistership.image.compression import is_zstd
from sistership.image.documents import image_of
from sistership.image.identity import Image, Layer, digest_of
from sistership.image.layout import Store
from sistership.image.pack import layer_of, measure, pack
from sistership.image.saved import SavedImage, open_saved

if TYPE_CHECKING:
    from pathlib import Path


def restore(saved: Path, expected: Image, store: Store) -> Image:
    """The same image, its blobs in the store again.

    Zstd blobs that the engine kept are taken as they are. Others are packed again, and another zstd library may make
    other bytes: then digest and size of those layers and the manifest's digest differ from what was expected, while
    config, diffIDs and the plain manifest never do.

    Args:
        saved: what ``docker save`` wrote, any engine's form.
        expected: the image as the lock has it.
        store: gets every blob.

    Raises:
        IdentityError: the file holds another image.
        BuildError: the file is damaged.
        SistershipError: the store cannot be written.
    """
    with open_saved(saved, store.scratch) as save:
        found = digest_of(save.config_bytes)
        if found != expected.config or save.diff_ids != expected.diff_ids:
            raise IdentityError(
                "the saved image is another one",
                where=str(saved),
                why=f"its config is {found}, expected {expected.config}",
                hint="ask another host that verifies, or build the variant again",
            )
        layers = [_take(save, number, layer, store) for number, layer in enumerate(expected.layers)]
        image, *manifests = image_of(save.config_bytes, layers)
        for document in (save.config_bytes, *manifests):
            store.add(document)
    return image


def _take(save: SavedImage, number: int, expected: Layer, store: Store) -> Layer:
    plain = save.layer(number)
    blob = save.blobs[number]
    if is_zstd(blob) and blob.size == expected.size and measure(blob.chunks())[0] == expected.digest:
        with store.writer(expected.digest) as copy:
            for chunk in blob.chunks():
                copy.write(chunk)
        packed = Packed(expected.diff_id, plain.size, expected.digest, expected.size)
        store.remember(packed)
    else:
        packed = pack(store, expected.diff_id, plain.size, plain.chunks)
    return layer_of(packed, base=expected.base, created_by=expected.created_by)
