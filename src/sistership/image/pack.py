"""Layers on their way into the store: read once, and compressed only when no blob holds them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sistership.errors import BuildError
from sistership.image.blobs import Packed
from sistership.image.compression import packer
from sistership.image.hashing import Sha256
from sistership.image.identity import Layer
from sistership.image.layout import Store

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
    """The zstd blob of a layer whose diffID is known, made unless the store has a sound one; in constant memory.

    Args:
        store: where the blob is or goes.
        diff_id: digest of the uncompressed tar.
        plain_size: its bytes.
        chunks: gives the tar, piece by piece.

    Raises:
        BuildError: the pieces are not the tar that was announced.
        SistershipError: the store cannot be written.
    """

    def accept(found: str) -> None:
        if found != diff_id:
            raise _changed(f"it was {diff_id}")

    return known(store, diff_id, plain_size) or pack_new(store, plain_size, chunks(), accept)


def pack_made(
    store: Store, plain_size: int, chunks: Callable[[], Iterable[bytes]], accept: Callable[[str], object]
) -> Packed:
    """The same of a layer whose diffID only its bytes tell: they are read once where it is new to the store.

    Args:
        store: where the blob is or goes.
        plain_size: bytes of the uncompressed tar, exactly.
        chunks: gives the tar, piece by piece, the same each time.
        accept: as of ``pack_new``.

    Raises:
        BuildError: the pieces are not of that size, or not the same each time.
        SistershipError: the store cannot be written.
    """
    if not store.may_hold(plain_size):
        return pack_new(store, plain_size, chunks(), accept)
    diff_id, size = measure(chunks())
    accept(diff_id)
    return pack(store, diff_id, size, chunks)


def known(store: Store, diff_id: str, plain_size: int) -> Packed | None:
    """The sound blob that the store has of a layer; None when it has none."""
    found = store.blob_of(diff_id)
    return found if found and found.plain_size == plain_size and store.check(found.digest) else None


def pack_new(store: Store, plain_size: int, chunks: Iterable[bytes], accept: Callable[[str], object]) -> Packed:
    """The blob of a layer that the store has not got; diffID and blob are made of the same bytes in one pass.

    Args:
        store: where the blob goes.
        plain_size: bytes of the uncompressed tar: the blob begins with this number.
        chunks: the tar, piece by piece.
        accept: takes the diffID, and raises when the layer must not be kept: nothing of it is in the store then.

    Raises:
        BuildError: the pieces are not of that size.
        SistershipError: the store cannot be written.
    """
    compressor = packer(plain_size)
    found, size = Sha256(), 0
    with store.writer() as blob:
        for chunk in chunks:
            found.update(chunk)
            size += len(chunk)
            if size > plain_size:
                break
            if packed := compressor.compress(chunk):
                blob.write(packed)
        if size != plain_size:
            raise _changed(f"it was of {plain_size} bytes")
        blob.write(compressor.flush())
        accept(found.digest)
    done = Packed(found.digest, plain_size, blob.digest, blob.size)
    store.remember(done)
    return done


def layer_of(packed: Packed, *, base: bool, created_by: str) -> Layer:
    """The layer of an image that a blob holds."""
    return Layer(packed.diff_id, packed.digest, packed.size, packed.plain_size, base, created_by)


def _changed(why: str) -> BuildError:
    return BuildError("a layer changed while it was packed", why=why, hint="export the image again")
