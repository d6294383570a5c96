"""An export, read back. Nothing that it says of itself is believed:
every blob is hashed, every layer unpacked, every document made anew and compared.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sistership.errors import BuildError, IdentityError, SistershipError
from sistership.image import disk
from sistership.image.blobs import Packed
from sistership.image.compression import unpack_zstd
from sistership.image.contents import file_hashes
from sistership.image.documents import image_of, layers_of
from sistership.image.exchange import damaged
from sistership.image.exported import NAME, Exported, parse
from sistership.image.identity import Image, Layer, digest_of, hex_of
from sistership.image.layout import Store
from sistership.image.spans import Span
from sistership.image.tarstream import Kind, entries, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_BLOB: Final = re.compile(rb"blobs/sha256/([0-9a-f]{64})")
_DOCUMENTS: Final = frozenset({b"oci-layout", b"index.json", b"manifest.json", NAME.encode()})
#: Larger documents come from a hostile file: the largest real ones are lists of a few thousand files.
_MAX_DOCUMENT: Final = 64 << 20
_FIELDS: Final = ("config", "platform", "layers", "manifest", "manifest_plain")
_ASK: Final = "take the file from whoever exported it"


@dataclass(frozen=True)
class Import:
    """An open export; its identity was read, nothing else was looked at yet.

    Attributes:
        exported: what it says of itself.
        blobs: hex digits of the digest in the name → the bytes.
    """

    path: Path
    exported: Exported
    blobs: Mapping[str, Span]

    def check(self, tell: Callable[[int, int], object] | None = None) -> None:
        """Hash every blob, unpack every layer, and make every document anew.

        Raises:
            IdentityError: the identity is that of another image.
            SistershipError: a blob is missing or damaged.
        """
        image = self.exported.image
        wanted = {hex_of(digest) for digest in (image.config, image.manifest, *(each.digest for each in image.layers))}
        for name in sorted(wanted - set(self.blobs)):
            raise self._damaged(f"the blob {name[:12]} is missing")
        for name in sorted(set(self.blobs) - wanted):
            raise self._damaged(f"the blob {name[:12]} belongs to no part of the image")
        self.check_documents()
        total, done = sum(layer.size for layer in image.layers), 0
        for layer in image.layers:
            self._check_layer(layer)
            done += layer.size
            if tell:
                tell(done, total)

    def check_documents(self) -> dict[str, Any]:
        """Compare the identity with config and manifest; no layer is read. Gives the config.

        Raises:
            IdentityError, SistershipError: as `check`.
        """
        image = self.exported.image
        config, manifest = self._document(image.config), self._document(image.manifest)
        try:
            made = _made_anew(config, manifest, image)
            self.exported.check_config(config)
        except IdentityError as error:
            raise IdentityError(error.what, where=str(self.path), hint=error.hint) from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(f"its config or manifest is none: {type(error).__name__} {error}") from None
        if wrong := [name for name in _FIELDS if getattr(made, name) != getattr(image, name)]:
            raise IdentityError(
                "the identity in the file is not that of its image",
                where=str(self.path),
                why=f"its record has another {wrong[0]} than the image itself",
                hint=_ASK,
            )
        fields: dict[str, Any] = json.loads(config)
        return fields

    def take(self, store: Store) -> Image:
        """Put the checked blobs into the store and list the image there. Call `check` first.

        Raises:
            IdentityError: the record's file hashes are not those of the layers.
            SistershipError: the disk is full, or the file changed since it was checked.
        """
        image, exported = self.exported.image, self.exported
        new = {layer.digest: layer for layer in image.layers if not store.check(layer.digest)}
        _check_space(store, sum(layer.size for layer in new.values()))
        for layer in new.values():
            with store.writer(layer.digest) as blob:
                for chunk in self.blobs[hex_of(layer.digest)].chunks():
                    blob.write(chunk)
        for layer in image.layers:
            if store.blob_of(layer.diff_id) is None:
                store.remember(Packed(layer.diff_id, layer.plain_size, layer.digest, layer.size))
        config = self._document(image.config)
        for document in (config, *image_of(config, image.layers)[1:]):
            store.add(document)
        files = exported.record.get("files")
        if files is not None and files != file_hashes(image, store):
            raise IdentityError(
                "the record's file hashes are not those of the image",
                where=str(self.path),
                hint=_ASK,
            )
        store.record(exported.key, image, exported.created, name=exported.release.reference)
        return image

    def _document(self, digest: str) -> bytes:
        span = self.blobs.get(hex_of(digest))
        if span is None:
            raise self._damaged(f"the blob {digest[7:19]} is missing")
        data = span.read(0, _MAX_DOCUMENT)
        if digest_of(data) != digest:
            raise self._damaged(f"the blob {digest[7:19]} has another sha256")
        return data

    def _check_layer(self, layer: Layer) -> None:
        span, name = self.blobs[hex_of(layer.digest)], layer.digest[7:19]
        found = hashlib.sha256()
        for chunk in span.chunks():
            found.update(chunk)
        if found.hexdigest() != hex_of(layer.digest):
            raise self._damaged(f"the blob {name} has another sha256")
        if span.size != layer.size:
            raise self._damaged(f"the blob {name} has {span.size} bytes, the record says {layer.size}")
        plain, size = hashlib.sha256(), 0
        try:
            with span.open() as stream:
                for chunk in unpack_zstd(stream, str(self.path)):
                    size += len(chunk)
                    if size > layer.plain_size:
                        break
                    plain.update(chunk)
        except BuildError as error:
            raise self._damaged(f"the layer {name} cannot be unpacked: {error.why}") from None
        if size != layer.plain_size or plain.hexdigest() != hex_of(layer.diff_id):
            raise self._damaged(f"the layer {name} does not unpack to its diffID")

    def _damaged(self, why: str) -> SistershipError:
        return damaged(self.path, why)


@contextmanager
def opened(path: Path) -> Iterator[Import]:
    """Open an export and read its identity.

    Raises:
        SistershipError: no export, cut, or with entries that no export has.
    """
    with disk.explained(path, "the export cannot be read"):
        file = path.open("rb")
    with file:
        try:
            identity, blobs = _members(path, Span.whole(file))
        except BuildError as error:
            raise damaged(path, f"{error.what}: {error.why}" if error.why else error.what) from None
        if identity is None:
            raise SistershipError(
                "this is no export of sistership",
                where=str(path),
                why=f"there is no {NAME} in it",
                hint="sistership export --variant NAME --output FILE makes one",
            )
        yield Import(path, parse(identity, f"{path}: {NAME}"), blobs)


def _members(path: Path, whole: Span) -> tuple[bytes | None, dict[str, Span]]:
    """`sistership.json` and the blobs; an export has no other kind of entry, so nothing can point elsewhere."""
    found: dict[bytes, Span] = {}
    strange = ""
    for entry in entries(whole, str(path)):
        if entry.content is None or entry.kind is not Kind.FILE:
            strange = strange or f"it has {show(entry.path)} as something else than a file"
        elif entry.path in found:
            strange = strange or f"it has {show(entry.path)} twice"
        elif not _BLOB.fullmatch(entry.path) and entry.path not in _DOCUMENTS:
            strange = strange or f"{show(entry.path)} is no part of an export"
        else:
            found[entry.path] = entry.content
    identity = found.get(NAME.encode())
    if identity is not None and strange:
        raise damaged(path, strange)
    blobs = {name[1].decode(): span for path_, span in found.items() if (name := _BLOB.fullmatch(path_))}
    return (identity.read(0, _MAX_DOCUMENT) if identity else None), blobs


def _made_anew(config: bytes, manifest: bytes, image: Image) -> Image:
    """The image that config and manifest describe; of the record only the sizes of plain layers are used."""
    _, packed, plain = image_of(config, image.layers)
    bases = sum(line["created_by"].startswith("base layer ") for line in json.loads(config)["history"])
    layers = layers_of(config, manifest, plain, bases)
    if packed != manifest:
        raise ValueError("the manifest is not in canonical form")
    return image_of(config, layers)[0]


def _check_space(store: Store, needed: int) -> None:
    with disk.explained(store.root, "the store cannot be used"):
        free = shutil.disk_usage(store.root).free
    if needed > free:
        raise SistershipError(
            "the image does not fit into the store",
            where=str(store.root),
            why=f"it needs {-(-needed >> 20)} MiB, {free >> 20} MiB are free",
            hint="free space there, or set SISTERSHIP_STORE to a folder on a larger disk",
        )
