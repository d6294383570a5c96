"""The store: an OCI layout that holds every blob once, safe against crashes and other processes.

``blobs/sha256/<hex>`` is content, ``index.json`` says which recipe made what, ``layers/<hex of the diffID>`` remembers
which zstd blob a layer was packed into, so that it is packed once and keeps its digest.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sistership.errors import SistershipError
from sistership.image import disk
from sistership.image.blobs import Blobs
from sistership.image.documents import INDEX, MANIFEST, OCI_LAYOUT, canonical_json, image_of, layers_of
from sistership.image.identity import Image, is_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

_KEY: Final = "sistership.recipe"
_PLAIN: Final = "sistership.manifest-plain"
_BASE: Final = "sistership.base-layers"
_NAME: Final = "io.containerd.image.name"
_REF: Final = "org.opencontainers.image.ref.name"
_CREATED: Final = "org.opencontainers.image.created"
_ARCHIVED: Final = "sistership.archived-base"
_PLATFORM: Final = "sistership.platform"
_DOCUMENTS: Final = "sistership.documents"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the store's index: which recipe made which manifest (zstd form), under what name, with what date."""

    key: str
    name: str
    created: str
    manifest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the store's index and what it keeps in the store.

    Attributes:
        key: recipe key; "" for an archived base.
        base: the pin of an archived base; "" for an image of ours.
        platform: of an archived base.
        needs: digests of all blobs without which it is not whole; of a damaged one those that can be found out.
        used: when it was last made or asked for, in seconds since 1970; 0: not known.
    """

    key: str
    name: str
    manifest: str
    base: str
    platform: str
    needs: frozenset[str]
    used: float


class Store(Blobs):
    """An OCI layout on disk; made when it is not there.

    Args:
        root: its folder, private to the user when it has to be made.

    Raises:
        SistershipError: the folder cannot be made or written; every method that writes raises it, too.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        with disk.explained(root, "the store cannot be used"):
            self._hold = disk.Hold(root / ".use")
            disk.sweep(self._drafts, self._lock)
            if not (root / "oci-layout").exists():
                self._write(root / "oci-layout", OCI_LAYOUT)

    def record(self, key: str, image: Image, created: str, *, name: str = "") -> None:
        """Say in the index that a recipe made this image; replaces what the index said of that recipe.

        Args:
            key: the recipe key.
            image: all its blobs are in the store.
            created: ISO date.
            name: full image name with tag, for people and for tools that read OCI layouts.
        """
        annotations = {_KEY: key, _PLAIN: image.manifest_plain, _CREATED: created}
        annotations[_BASE] = str(sum(layer.base for layer in image.layers))
        if name:
            annotations |= {_NAME: name, _REF: name}
        self._list(image, annotations, (_KEY,))

    def keep_base(self, reference: str, platform: str, image: Image, documents: Sequence[str]) -> None:
        """Say in the index that this is an archived base, so that nobody takes its blobs for unused.

        Args:
            reference: the pin, ``name:tag@sha256:…``.
            platform: which of its images.
            image: all its blobs are in the store.
            documents: digests of what its registry had under the pin; they are in the store.
        """
        annotations = {_ARCHIVED: reference, _PLATFORM: platform, _PLAIN: image.manifest_plain}
        annotations[_DOCUMENTS] = ",".join(documents)
        self._list(image, annotations, (_ARCHIVED, _PLATFORM))

    def bases(self) -> tuple[tuple[str, str], ...]:
        """Reference and platform of each archived base, oldest first."""
        notes = (line.get("annotations", {}) for line in self._index())
        return tuple((note[_ARCHIVED], note.get(_PLATFORM, "")) for note in notes if _ARCHIVED in note)

    def in_use(self) -> frozenset[str]:
        """Digests of all blobs that a recorded image or an archived base needs; no other blob is of any use."""
        return frozenset(digest for entry in self.entries() for digest in entry.needs)

    def entries(self) -> tuple[Entry, ...]:
        """The index with what each line needs, oldest first."""
        return tuple(map(self._entry, self._index()))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every other run out of the store; those that begin meanwhile wait.

        Raises:
            LockedError: another run, or another ``Store`` of this one, is in use.
        """
        with self._hold.alone():
            yield

    def drop(self, entries: Collection[Entry], blobs: Collection[str]) -> None:
        """Take lines out of the index, then blobs away, in this order: what is listed is whole at any moment.

        Call it ``alone``.
        """
        gone = {(entry.key, entry.base, entry.platform) for entry in entries}
        with disk.explained(self.root, "the store cannot be written"), disk.locked(self._lock):
            if gone:
                kept = [line for line in self._index() if _identity(line) not in gone]
                document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": kept}
                self._write(self.root / "index.json", canonical_json(document), locked=True)
            for digest in blobs:
                self.path(digest).unlink(missing_ok=True)
            for note in self._layers.iterdir():
                if self.blob_of(f"sha256:{note.name}") is None:
                    note.unlink(missing_ok=True)

    def _entry(self, line: dict[str, Any]) -> Entry:
        key, base, platform = _identity(line)
        notes, manifest = line.get("annotations", {}), str(line.get("digest", ""))
        named = [manifest, notes.get(_PLAIN), *notes.get(_DOCUMENTS, "").split(",")]
        found = {digest for digest in named if is_digest(digest)}
        documents = [self._json(digest) for digest in sorted(found)]
        configs = {_digest_in(document.get("config")) for document in documents} - {""}
        found |= configs
        listed = {_digest_in(part) for document in documents for part in _list_in(document, "layers")} - {""}
        stacks = [_list_in(self._json(config).get("rootfs"), "diff_ids") for config in sorted(configs)]
        plain = {each for stack in stacks for each in stack if is_digest(each)}
        # By every way that leads to a layer: of several documents one may be damaged.
        found |= {packed.digest for each in plain | listed if (packed := self.blob_of(each)) is not None}
        found |= {each for each in listed if self.has(each)}
        used = 0.0
        with suppress(OSError):
            used = self.path(manifest).stat().st_mtime
        return Entry(key, notes.get(_NAME, "") or base, manifest, base, platform, frozenset(found), used)

    def _json(self, digest: str) -> dict[str, Any]:
        """A small document of the store; empty where it is missing, damaged or none."""
        try:
            document = json.loads(self.read(digest))
        except (SistershipError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def _touch(self, manifest: str) -> None:
        """Note that an image was used; a store that cannot be written is only read, and keeps what it has."""
        with suppress(OSError):
            os.utime(self.path(manifest))

    def _list(self, image: Image, annotations: dict[str, str], same: Sequence[str]) -> None:
        """Put a line into the index in place of those that have the same values of these annotations."""
        self._touch(image.manifest)
        system, architecture, *variant = image.platform.split("/")
        platform = {"os": system, "architecture": architecture} | ({"variant": variant[0]} if variant else {})
        line = {
            "mediaType": MANIFEST,
            "digest": image.manifest,
            "size": self.path(image.manifest).stat().st_size,
            "platform": platform,
            "annotations": annotations,
        }
        with disk.explained(self.root / "index.json", "the store's index cannot be written"), disk.locked(self._lock):
            wanted = [annotations[name] for name in same]
            others = [
                other for other in self._index() if [other.get("annotations", {}).get(name) for name in same] != wanted
            ]
            document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*others, line]}
            self._write(self.root / "index.json", canonical_json(document), locked=True)

    def records(self) -> tuple[Record, ...]:
        """What the index lists, oldest first."""
        return tuple(_record(line) for line in self._index() if _KEY in line.get("annotations", {}))

    def get(self, key: str) -> Image | None:
        """The image that a recipe made; None when the index has none, or its documents are missing or damaged.

        Whether all its layers are here says ``image_complete``.
        """
        for line in self._index():
            notes = line.get("annotations", {})
            if notes.get(_KEY) == key:
                return self._image(line["digest"], notes)
        return None

    def image_complete(self, image: Image, *, deep: bool = False) -> list[str]:
        """Digests of the image's blobs that are missing or damaged; empty when all is well.

        Whoever asks is about to use the image, which is noted, see ``gc``.

        Args:
            image: the image asked about.
            deep: hash the layers, too; else only their sizes are compared.
        """
        self._touch(image.manifest)
        documents = (image.config, image.manifest, image.manifest_plain)
        bad = [digest for digest in documents if not self.check(digest)]
        for digest, size in {layer.digest: layer.size for layer in image.layers}.items():
            path = self.path(digest)
            sound = path.is_file() and path.stat().st_size == size and (not deep or self.check(digest))
            if not sound:
                bad.append(digest)
        return bad

    def _image(self, manifest: str, notes: dict[str, str]) -> Image | None:
        try:
            packed, plain = self.read(manifest), self.read(notes[_PLAIN])
            config = self.read(json.loads(packed)["config"]["digest"])
            layers = layers_of(config, packed, plain, int(notes[_BASE]))
        except (SistershipError, KeyError, ValueError):
            return None
        image = image_of(config, layers)[0]
        return image if image.manifest == manifest else None

    def _index(self) -> list[dict[str, Any]]:
        path = self.root / "index.json"
        with disk.explained(path, "the store's index cannot be read"):
            try:
                text = path.read_bytes()
            except FileNotFoundError:
                return []
        try:
            manifests = json.loads(text)["manifests"]
            return [line for line in manifests if isinstance(line, dict)]
        except (ValueError, KeyError, TypeError) as error:
            raise SistershipError(
                "the store's index is damaged",
                where=str(path),
                why=str(error),
                hint="delete that file: the blobs stay, and the next build lists them again",
            ) from None


def _record(line: dict[str, Any]) -> Record:
    notes = line["annotations"]
    return Record(
        key=notes[_KEY], name=notes.get(_NAME, ""), created=notes.get(_CREATED, ""), manifest=line.get("digest", "")
    )


def _identity(line: dict[str, Any]) -> tuple[str, str, str]:
    """What tells a line of the index from every other: recipe key, or base and platform."""
    notes = line.get("annotations", {})
    return notes.get(_KEY, ""), notes.get(_ARCHIVED, ""), notes.get(_PLATFORM, "")


def _digest_in(part: object) -> str:
    """The digest of a descriptor; "" where it has none."""
    digest = part.get("digest") if isinstance(part, dict) else None
    return digest if isinstance(digest, str) and is_digest(digest) else ""


def _list_in(document: object, name: str) -> list[Any]:
    """A list of a document; empty where it has none of that name."""
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, list) else []
