"""The store: an OCI layout that holds every blob once, safe against crashes and other processes.

``blobs/sha256/<hex>`` is content, ``index.json`` says which recipe made what, ``layers/<hex of the diffID>`` remembers
which zstd blob a layer was packed into, so that it is packed once and keeps its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from sistership.errors import SistershipError
from sistership.image import disk
from sistership.image.documents import INDEX, MANIFEST, OCI_LAYOUT, canonical_json, image_of, layers_of
from sistership.image.hashing import Sha256, run_beside
from sistership.image.identity import Image, digest_of, hex_of, is_digest
from sistership.image.spans import CHUNK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

#: Bytes of a blob that the disk gets while the next ones are made: at its end little is left to wait for.
_AHEAD: Final = 32 << 20
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
class Packed:
    """A layer as it is in the store: diffID and plain size in bytes, digest and size of its zstd blob."""

    diff_id: str
    plain_size: int
    digest: str
    size: int


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


class BlobWriter:
    """Takes the bytes of one blob; ``digest`` and ``size`` are final when the ``with`` block has ended."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._hash = Sha256()
        self._syncing: Future[None] | None = None
        self._handed = 0
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        with disk.explained(self._path, "a blob cannot be written"):
            self._file.write(data)
        self._hash.update(data)
        self.size += len(data)
        if self.size - self._handed >= _AHEAD and (self._syncing is None or self._syncing.done()):
            self.settle()
            with disk.explained(self._path, "a blob cannot be written"):
                self._file.flush()
            self._syncing = run_beside(partial(os.fdatasync, self._file.fileno()))
            self._handed = self.size

    def settle(self) -> None:
        """Wait for what the disk was handed; the system tells of an error there once, so nobody else would hear."""
        if self._syncing is not None:
            with disk.explained(self._path, "a blob cannot be written"):
                syncing, self._syncing = self._syncing, None
                syncing.result()

    @property
    def digest(self) -> str:
        """Digest of all bytes written so far."""
        return self._hash.digest


class Store:
    """An OCI layout on disk; made when it is not there.

    Args:
        root: its folder, private to the user when it has to be made.

    Raises:
        SistershipError: the folder cannot be made or written; every method that writes raises it, too.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._blobs = root / "blobs" / "sha256"
        self._layers = root / "layers"
        self._drafts = root / "drafts"
        self._lock = root / ".lock"
        with disk.explained(root, "the store cannot be used"):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self._blobs, self._layers, self._drafts):
                folder.mkdir(parents=True, exist_ok=True)
            self._hold = disk.Hold(root / ".use")
            disk.sweep(self._drafts, self._lock)
            if not (root / "oci-layout").exists():
                self._write(root / "oci-layout", OCI_LAYOUT)

    def path(self, digest: str) -> Path:
        """Where a blob is, or would be."""
        return self._blobs / hex_of(digest)

    def has(self, digest: str) -> bool:
        """Whether the blob is there; only ``check`` says that it is sound."""
        return self.path(digest).is_file()

    def check(self, digest: str) -> bool:
        """Whether the blob is there and its bytes have this digest."""
        with disk.explained(self.path(digest), "a blob cannot be read"):
            try:
                with self.path(digest).open("rb") as file:
                    return hashlib.file_digest(file, "sha256").hexdigest() == hex_of(digest)
            except FileNotFoundError:
                return False

    def read(self, digest: str) -> bytes:
        """The bytes of a small blob, checked.

        Raises:
            SistershipError: it is missing or damaged.
        """
        with disk.explained(self.path(digest), "a blob cannot be read"):
            data = self.path(digest).read_bytes()
        if digest_of(data) != digest:
            raise damaged(self.path(digest))
        return data

    def chunks(self, digest: str) -> Iterator[bytes]:
        """The bytes of a blob, at most CHUNK at a time.

        Raises:
            SistershipError: it is missing, or, after the last chunk, it is damaged.
        """
        found = hashlib.sha256()
        with disk.explained(self.path(digest), "a blob cannot be read"):
            file = self.path(digest).open("rb")
        with file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
                yield chunk
        if found.hexdigest() != hex_of(digest):
            raise damaged(self.path(digest))

    def add(self, data: bytes) -> str:
        """Store a small blob and give its digest."""
        digest = digest_of(data)
        if not self.check(digest):
            with disk.explained(self.path(digest), "a blob cannot be written"):
                self._write(self.path(digest), data)
        return digest

    @contextmanager
    def writer(self, expected: str | None = None) -> Iterator[BlobWriter]:
        """Stream a blob in; it appears when the block ends without an error, whole, in place of a damaged one.

        Args:
            expected: the digest it has to have.

        Raises:
            SistershipError: the bytes have another digest, nothing is stored then; or the disk fails.
        """
        with disk.explained(self.root, "a blob cannot be written"):
            draft = disk.Draft(self._drafts, self._lock)
        try:
            blob = BlobWriter(draft.file, self.root)
            try:
                yield blob
            finally:
                blob.settle()
            if expected is not None and blob.digest != expected:
                raise SistershipError(
                    f"the bytes have digest {blob.digest}, not {expected}", hint="fetch or build them again"
                )
            with disk.explained(self.root, "a blob cannot be written"):
                draft.publish(self.path(blob.digest))
        finally:
            draft.discard()

    def scratch(self) -> BinaryIO:
        """A nameless temporary file on the store's disk; it is gone when closed, or when the process ends."""
        with disk.explained(self.root, "no temporary file can be made"):
            return tempfile.TemporaryFile(dir=self.root)

    def remember(self, packed: Packed) -> None:
        """Note which zstd blob a layer was packed into."""
        with disk.explained(self._layers, "the store cannot be written"):
            self._write(self._layers / hex_of(packed.diff_id), canonical_json(asdict(packed)))

    def blob_of(self, diff_id: str) -> Packed | None:
        """The zstd blob that holds a layer, when it is here with the right size; None otherwise."""
        try:
            packed = Packed(**json.loads((self._layers / hex_of(diff_id)).read_bytes()))
            sound = packed.diff_id == diff_id and self.path(packed.digest).stat().st_size == packed.size
        except (OSError, ValueError, TypeError):
            return None
        return packed if sound else None

    def may_hold(self, plain_size: int) -> bool:
        """Whether a layer of this many bytes, uncompressed, was packed before; which one, its bytes have to tell."""
        with disk.explained(self._layers, "the store cannot be read"):
            names = [f"sha256:{note.name}" for note in self._layers.iterdir()]
        notes = (self.blob_of(name) for name in names if is_digest(name))
        return any(known.plain_size == plain_size for known in notes if known)

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

    def blobs(self) -> dict[str, int]:
        """Digest → bytes of every blob that is here, needed or not."""
        with disk.explained(self._blobs, "the store cannot be read"):
            sizes = {f"sha256:{path.name}": path.stat().st_size for path in self._blobs.iterdir()}
            return {digest: size for digest, size in sizes.items() if is_digest(digest)}

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

    def _write(self, path: Path, data: bytes, *, locked: bool = False) -> None:
        disk.write_whole(path, data, folder=self._drafts, lock=None if locked else self._lock)


def damaged(path: Path) -> SistershipError:
    """The error for a blob whose bytes do not have its digest."""
    return SistershipError(
        "a blob in the store is damaged",
        where=str(path),
        why="its bytes do not have the digest it is named by",
        hint="delete that file and build again; if it happens twice, check the disk",
    )


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
