"""Files that are whole or not there, and errors of the disk that say what to do."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import weakref
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from sistership.errors import LockedError, SistershipError

if TYPE_CHECKING:
    from collections.abc import Iterator

_HINTS: Final = {
    errno.ENOSPC: "free space on that disk, or move the store to another one",
    errno.EDQUOT: "the quota is used up: free space, or move the store to another disk",
    errno.EACCES: "give this user the right to write there, or choose another folder",
    errno.EPERM: "give this user the right to write there, or choose another folder",
    errno.EROFS: "the file system is read-only: choose another folder",
}


@contextmanager
def explained(path: Path, what: str) -> Iterator[None]:
    """Turn an OSError into an error with the path and the next step.

    Raises:
        SistershipError: in place of any OSError.
    """
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "look at the disk and its mount, then run it again")
        raise SistershipError(what, where=str(path), why=error.strerror or str(error), hint=hint) from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, made if needed; waits for the other holder."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class Hold:
    """A shared hold on a folder: many runs use it at once, and one may have it alone for a moment.

    It ends with this object, or with the process, however that ends.

    Args:
        path: its lock file, made if needed; waits while another run has the folder alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.end = weakref.finalize(self, os.close, self._handle)
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have the folder alone.

        Raises:
            LockedError: another run uses it.
        """
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A change of the lock that fails has let go of the old one.
            fcntl.flock(self._handle, fcntl.LOCK_SH)
            raise LockedError(
                "another run uses the store",
                where=str(self._path.parent),
                hint="wait for it to end; what holds the store never outlives its process",
            ) from None
        try:
            yield
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_SH)


class Draft:
    """A file under construction; locked while it is open, so that ``sweep`` spares it.

    Args:
        folder: where it is made, on the disk of its later place.
        lock: the lock that ``sweep`` takes; None when the caller holds it already.
    """

    def __init__(self, folder: Path, lock: Path | None) -> None:
        with locked(lock) if lock else nullcontext():
            handle, name = tempfile.mkstemp(dir=folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
        self.path = Path(name)
        self.file: BinaryIO = os.fdopen(handle, "wb")

    def publish(self, target: Path) -> None:
        """Give the finished file its name; whatever had that name is replaced, never half."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.path.rename(target)
        self.file.close()
        _sync_folder(target.parent)

    def discard(self) -> None:
        """Remove the file unless it was published."""
        with suppress(OSError):
            self.file.close()
        self.path.unlink(missing_ok=True)


def write_whole(target: Path, data: bytes, *, folder: Path, lock: Path | None) -> None:
    """Write a small file atomically."""
    draft = Draft(folder, lock)
    try:
        draft.file.write(data)
        draft.publish(target)
    finally:
        draft.discard()


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep(folder: Path, lock: Path) -> None:
    """Remove files under construction whose writer is gone."""
    with locked(lock):
        for path in folder.iterdir():
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
