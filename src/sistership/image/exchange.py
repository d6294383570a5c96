"""One file with one image in it: written on the machine that built, taken in on a machine that ships.

It is the archive that engines load and an OCI layout at once, with the identity (`sistership.json`) beside the blobs.
The same image and lock always give the same bytes. `imports` reads it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from sistership.errors import SistershipError
from sistership.image import archive, disk
from sistership.image.exported import NAME, Exported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sistership.image.layout import Store

_AGAIN: Final = "copy or download it again, and compare its sha256 with the one that export printed"


@dataclass(frozen=True)
class Written:
    """A finished export: its sha256 as 64 hex digits, its bytes."""

    path: Path
    sha256: str
    size: int


def sidecar(path: Path) -> Path:
    """The file beside an export that holds its sha256, as `sha256sum -c` reads it."""
    return path.with_name(f"{path.name}.sha256")


def write(exported: Exported, store: Store, path: Path, tell: Callable[[int, int], object] | None = None) -> Written:
    """Write an export and its sha256 file; whole or not at all.

    Args:
        exported: what to write; all its blobs are in the store.
        store: where they are.
        path: the file; one of that name is replaced at the end.
        tell: gets bytes done and bytes in all.

    Raises:
        SistershipError: a blob is missing or damaged, or the disk is full or cannot be written.
    """
    parts = archive.pieces(
        exported.image, store, name=exported.release.unique, plain=False, extra={NAME: exported.to_bytes()}
    )
    total = archive.size(parts)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
    if free < total:
        raise SistershipError(
            "the export does not fit on that disk",
            where=str(path),
            why=f"it needs {-(-total >> 20)} MiB, {free >> 20} MiB are free",
            hint="free space there, or choose another --output",
        )
    with _explained(path), _whole(path) as file:
        out = _Counted(file, total, tell)
        archive.write(parts, store, cast("BinaryIO", out))
    with _explained(sidecar(path)), _whole(sidecar(path)) as file:
        file.write(f"{out.sha256}  {path.name}\n".encode())
    return Written(path, out.sha256, total)


def is_archive(path: Path) -> bool:
    """Whether a file begins as a tar does.

    Raises:
        SistershipError: it cannot be read.
    """
    with disk.explained(path, "the file cannot be read"), path.open("rb") as file:
        return file.read(512)[257:262] == b"ustar"


def check_sum(path: Path, given: str | None = None) -> str:
    """The file's sha256, 64 hex digits, compared with `given` and with the file beside it where there is one.

    Raises:
        SistershipError: it has another, or cannot be read.
    """
    with disk.explained(path, "the export cannot be read"):
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        beside = sidecar(path).read_text(errors="replace").split() if sidecar(path).is_file() else []
    for expected, source in ((given, "--sha256"), (beside[0] if beside else None, sidecar(path).name)):
        if expected is not None and expected.lower() != found:
            raise damaged(path, f"its sha256 is {found}, {source} says {expected[:64]}")
    return found


def damaged(path: Path, why: str) -> SistershipError:
    """The error for an export that is not as it was written."""
    return SistershipError("the export is damaged; nothing was taken from it", where=str(path), why=why, hint=_AGAIN)


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name at the end of the block, flushed to the disk, or never."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SistershipError(
            "the export cannot be written; no file of that name was changed",
            where=str(path),
            why=error.strerror or str(error),
            hint="free space there, or choose another --output",
        ) from error


class _Counted:
    """A file that hashes and counts what goes through."""

    def __init__(self, file: BinaryIO, total: int, tell: Callable[[int, int], object] | None) -> None:
        self._file, self._total, self._tell = file, total, tell
        self._hash, self._done = hashlib.sha256(), 0

    def writelines(self, chunks: Iterable[bytes]) -> None:
        """Append pieces."""
        for chunk in chunks:
            self.write(chunk)

    def write(self, data: bytes) -> int:
        """Append bytes."""
        self._hash.update(data)
        self._done += len(data)
        if self._tell:
            self._tell(self._done, self._total)
        return self._file.write(data)

    @property
    def sha256(self) -> str:
        """Of all bytes so far, as 64 hex digits."""
        return self._hash.hexdigest()
