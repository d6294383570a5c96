"""The archive that loads on every engine, as pieces that a host can put together from blobs it has staged.

OCI layout and docker's ``manifest.json`` in one uncompressed tar, blobs first and metadata last: a cut stream
carries no metadata, so no engine makes an image of it. Measured with Docker 20.10 to 28.5, both stores, and podman 5.8;
engines before 23.0 need plain layers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from sistership.errors import SistershipError
from sistership.image import disk, documents
from sistership.image.blobs import damaged
from sistership.image.compression import unpack_zstd
from sistership.image.identity import Image, Layer, hex_of
from sistership.image.layout import Store
from sistership.image.tarwrite import END, archive_header, padding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_FOLDER: Final = "blobs/sha256/"


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of the archive: headers, padding, metadata."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Blob:
    """A layer's bytes: its zstd blob as it is, or, when ``plain``, what that blob unpacks to."""

    layer: Layer
    plain: bool

    @property
    def size(self) -> int:
        """Bytes in the archive."""
        return self.layer.plain_size if self.plain else self.layer.size

    @property
    def digest(self) -> str:
        """Digest of these bytes."""
        return self.layer.diff_id if self.plain else self.layer.digest


Piece = Bytes | Blob


def pieces(
    image: Image,
    store: Store,
    *,
    name: str,
    plain: bool,
    leave_out: Collection[str] = (),
    extra: Mapping[str, bytes] | None = None,
    documents_of: Mapping[str, bytes] | None = None,
) -> tuple[Piece, ...]:
    """The archive of an image; two Bytes never follow each other, and the first and the last piece are Bytes.

    Args:
        image: what to send; the store has its config and manifests.
        store: where they are.
        name: fully qualified name with a tag; podman renames short ones.
        plain: uncompressed layers, for engines before 23.0.
        leave_out: diffIDs of layers the host has.
        extra: further files by name, which engines ignore.
        documents_of: config and manifests by digest, of an image that the store does not know.

    Raises:
        SistershipError: config or manifest is missing or damaged in the store.
    """
    manifest_digest = image.manifest_plain if plain else image.manifest
    known = documents_of or {}
    config, manifest = (known.get(each) or store.read(each) for each in (image.config, manifest_digest))
    parts: list[Piece] = []
    for layer in {layer.diff_id: layer for layer in image.layers if layer.diff_id not in leave_out}.values():
        blob = Blob(layer, plain)
        parts += [Bytes(archive_header(_FOLDER + hex_of(blob.digest), blob.size)), blob, Bytes(padding(blob.size))]
    files = {
        _FOLDER + hex_of(image.config): config,
        _FOLDER + hex_of(manifest_digest): manifest,
        **(extra or {}),
        "oci-layout": documents.OCI_LAYOUT,
        "index.json": _index(manifest_digest, len(manifest), name),
        "manifest.json": _docker_manifest(image, name, plain=plain),
    }
    parts += [Bytes(archive_header(path, len(data)) + data + padding(len(data))) for path, data in files.items()]
    return tuple(_merged([*parts, Bytes(END)]))


def size(parts: Iterable[Piece]) -> int:
    """Bytes of the whole archive."""
    return sum(len(part.data) if isinstance(part, Bytes) else part.size for part in parts)


def write(parts: Sequence[Piece], store: Store, out: BinaryIO) -> None:
    """Write the archive; a damaged blob ends it before its metadata.

    Raises:
        SistershipError: a blob is missing or damaged.
    """
    for part in parts:
        if isinstance(part, Bytes):
            out.write(part.data)
        else:
            out.writelines(open_blob(store, part))


def open_blob(store: Store, blob: Blob) -> Iterator[bytes]:
    """The bytes of a Blob piece, a chunk at a time.

    Raises:
        SistershipError: it is missing, or, at the latest after the last chunk, damaged.
    """
    if not blob.plain:
        yield from store.chunks(blob.digest)
        return
    path = store.path(blob.layer.digest)
    found = hashlib.sha256()
    with disk.explained(path, "a blob cannot be read"):
        file = path.open("rb")
    with file:
        for chunk in unpack_zstd(file, str(path)):
            found.update(chunk)
            yield chunk
    if found.hexdigest() != hex_of(blob.digest):
        raise damaged(path)


def _index(manifest: str, length: int, name: str) -> bytes:
    """Name and tag stand where containerd and podman look for them."""
    line = {
        "mediaType": documents.MANIFEST,
        "digest": manifest,
        "size": length,
        "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": _tag(name)},
    }
    return documents.canonical_json({"schemaVersion": 2, "mediaType": documents.INDEX, "manifests": [line]})


def _docker_manifest(image: Image, name: str, *, plain: bool) -> bytes:
    layers = [_FOLDER + hex_of(Blob(layer, plain).digest) for layer in image.layers]
    return documents.canonical_json([{"Config": _FOLDER + hex_of(image.config), "RepoTags": [name], "Layers": layers}])


def _tag(name: str) -> str:
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag or "/" not in repository:
        raise SistershipError(f"{name!r} is no fully qualified image name with a tag", hint="use HOST/NAME:TAG")
    return tag


def _merged(parts: Iterable[Piece]) -> Iterator[Piece]:
    pending = b""
    for part in parts:
        if isinstance(part, Bytes):
            pending += part.data
        else:
            yield Bytes(pending)
            yield part
            pending = b""
    yield Bytes(pending)
