"""Blobs of the store: content named by its digest, and which zstd blob each layer was packed into.

Safe against crashes and other processes: a blob appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from sistership.errors import SistershipError
from sistership.image import disk
from sistership.image.documents import canonical_json
from sistership.image.hashing import Sha256, run_beside
from sistership.image.identity import digest_of, hex_of, is_digest
from sistership.image.spans import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

#: Bytes of a blob that the disk gets while the next ones are made: at its end little is left to wait for.
_AHEAD: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """A layer as it is in the store: diffID and plain size in bytes, digest and size of its zstd blob."""

    diff_id: str
    plain_size: int
    digest: str
    size: int


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


class Blobs:
    """The folders of a store; made when they are not there.

    Args:
        root: the store's folder, private to the user when it has to be made.

    Raises:
        SistershipError: a folder cannot be made or written; every method that writes raises it, too.
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

    def blobs(self) -> dict[str, int]:
        """Digest → bytes of every blob that is here, needed or not."""
        with disk.explained(self._blobs, "the store cannot be read"):
            sizes = {f"sha256:{path.name}": path.stat().st_size for path in self._blobs.iterdir()}
            return {digest: size for digest, size in sizes.items() if is_digest(digest)}

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
