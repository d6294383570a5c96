"""What is inside an image's own layers, file by file: what `verify --deep` compares on a host."""

from __future__ import annotations

import hashlib
import tarfile

import zstandard

from sistership.errors import BuildError
from sistership.image.compression import MAX_WINDOW
from sistership.image.identity import Image, Layer
from sistership.image.layout import Store
from sistership.image.spans import CHUNK


def file_hashes(image: Image, store: Store) -> dict[str, str]:
    """Path → sha256 (64 hex digits) of every regular file in the image's own layers, sorted.

    A name that is no UTF-8 or holds a control character cannot be asked for in a shell and is left out;
    its layer's diffID still covers it.

    Raises:
        BuildError: a layer in the store is damaged.
    """
    found: dict[str, str] = {}
    for layer in image.layers:
        if not layer.base:
            found.update(_of_layer(layer, store))
    return dict(sorted(found.items()))


def _of_layer(layer: Layer, store: Store) -> dict[str, str]:
    found: dict[str, str] = {}
    path = store.path(layer.digest)
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    try:
        with (
            path.open("rb") as packed,
            unpacker.stream_reader(packed, read_across_frames=True) as plain,
            tarfile.open(fileobj=plain, mode="r|", bufsize=CHUNK, errors="surrogateescape") as tar,
        ):
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is not None and member.name.isprintable():
                    digest = hashlib.sha256()
                    while chunk := stream.read(CHUNK):
                        digest.update(chunk)
                    found[f"/{member.name}"] = digest.hexdigest()
    except (OSError, tarfile.TarError, zstandard.ZstdError) as error:
        raise BuildError(
            "a layer in the store cannot be read", where=str(path), why=str(error), hint="build the variant again"
        ) from None
    return found
