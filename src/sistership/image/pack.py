"""Layers on their way into the store: hashed first, compressed only when no blob holds them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sistership.errors import BuildError
from sistership.image.compression import packer
from sistership.image.hashing import Sha256
from sistership.image.identity import Layer
from sistership.image.layout import Packed, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def measure(chunks: Iterable[bytes]) -> tuple[str, int]:
    """DiffID and size in bytes of an uncompressed tar."""
    found, size = Sha256(), 0
    for chunk in chunks:
        found.update(chunk)
        size += len(chunk)
    return found.digest, size


def pack(store: Store, diff_id: str, plain_size: int, chunks: Callable[[], Iterable[bytes]]) -> Packed:
    """The layer's zstd blob, made unless the store has a sound one; in constant memory.

    Args:
        store: where the blob is or goes.
        diff_id: digest of the uncompressed tar.
        plain_size: its bytes.
        chunks: gives the tar, piece by piece.

    Raises:
        BuildError: the pieces are not the tar that was announced.
        SistershipError: the store cannot be written.
    """
    known = store.blob_of(diff_id)
    if known and known.plain_size == plain_size and store.check(known.digest):
        return known
    compressor = packer(plain_size)
    found, size = Sha256(), 0
    with store.writer() as blob:
        for chunk in chunks():
            found.update(chunk)
            size += len(chunk)
            if size > plain_size:
                break
            blob.write(compressor.compress(chunk))
        if size != plain_size or found.digest != diff_id:
            raise BuildError(
                "a layer changed while it was packed", why=f"it was {diff_id}", hint="export the image again"
            )
        blob.write(compressor.flush())
    packed = Packed(diff_id, plain_size, blob.digest, blob.size)
    store.remember(packed)
    return packed


def layer_of(packed: Packed, *, base: bool, created_by: str) -> Layer:
    """The layer of an image that a blob holds."""
    return Layer(packed.diff_id, packed.digest, packed.size, packed.plain_size, base, created_by)
