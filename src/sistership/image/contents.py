"""What is inside an image's own layers: every file's hash, which `verify --deep` compares on a host, or one file."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final

import zstandard

from sistership.errors import BuildError
from sistership.image.compression import MAX_WINDOW
from sistership.image.identity import Image, Layer
from sistership.image.layout import Store
from sistership.image.saved import SavedImage
from sistership.image.spans import CHUNK
from sistership.image.tarstream import entries

#: Bytes of one file that are read: the largest that we write into images are lists of some hundred lines.
MOST: Final = 4 << 20


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
            found.update(layer_hashes(layer, store))
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class Found:
    """A file of an image, and how many own layers lie above the one that holds it."""

    data: bytes
    above: int


def own_file(image: Image, store: Store, path: str) -> Found | None:
    """A small regular file from the topmost of the image's own layers that has the path; None when none has.

    Args:
        path: absolute; no link is followed.

    Raises:
        BuildError: a layer in the store is damaged or missing.
    """
    own = [layer for layer in image.layers if not layer.base]
    for above, layer in enumerate(reversed(own)):
        with _tar(layer, store) as tar:
            for member in tar:
                stream = tar.extractfile(member) if f"/{member.name}" == path and member.isreg() else None
                if stream is not None:
                    return Found(stream.read(MOST), above)
    return None


def saved_file(image: SavedImage, path: str) -> Found | None:
    """The same from a file of `docker save`, where every layer counts.

    Raises:
        BuildError: a layer is damaged.
    """
    name = path.removeprefix("/").encode()
    for above, number in enumerate(reversed(range(len(image.diff_ids)))):
        for entry in entries(image.layer(number), f"{image.path}, layer {number + 1}"):
            if entry.path == name and entry.content is not None:
                return Found(entry.content.read(0, MOST), above)
    return None


def large_files(layer: Layer, store: Store, least: int) -> Iterator[tuple[str, IO[bytes]]]:
    """Absolute path and content of each regular file of at least `least` bytes, in the order of the layer.

    Files whose name no shell can be asked for are left out. Each content is read before the next one is asked for.

    Raises:
        BuildError: the layer in the store is damaged or missing.
    """
    with _tar(layer, store) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isreg() and member.size >= least else None
            if stream is not None and member.name.isprintable():
                yield f"/{member.name}", stream


def layer_hashes(layer: Layer, store: Store) -> dict[str, str]:
    """The same of one layer, not sorted."""
    found: dict[str, str] = {}
    with _tar(layer, store) as tar:
        for member in tar:
            deletion = member.name.rpartition("/")[2].startswith(".wh.")
            stream = tar.extractfile(member) if member.isreg() and not deletion else None
            if stream is not None and member.name.isprintable():
                digest = hashlib.sha256()
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
                found[f"/{member.name}"] = digest.hexdigest()
    return found


@contextmanager
def _tar(layer: Layer, store: Store) -> Iterator[tarfile.TarFile]:
    """A layer of the store as a tar that is read once, from its beginning on."""
    path = store.path(layer.digest)
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    try:
        with (
            path.open("rb") as packed,
            unpacker.stream_reader(packed, read_across_frames=True) as plain,
            tarfile.open(fileobj=plain, mode="r|", bufsize=CHUNK, errors="surrogateescape") as tar,
        ):
            yield tar
    except (OSError, tarfile.TarError, zstandard.ZstdError) as error:
        raise BuildError(
            "a layer in the store cannot be read", where=str(path), why=str(error), hint="build the variant again"
        ) from None
