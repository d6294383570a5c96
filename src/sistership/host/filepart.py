"""A file as a program's standard input: the program reads it by itself, and we look how far it has come.

No byte passes through Python. A descriptor that a program inherits shares its position with ours, over a shared ssh
connection too: the client hands the very descriptor to the process that holds the connection.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sistership.errors import SistershipError
from sistership.host.watch import Watch

#: Seconds between two looks at the position.
_LOOK = 0.2

Progress = Callable[[int], object]


@dataclass(frozen=True)
class FilePart:
    """A file from an offset to its end.

    Attributes:
        path: a regular file that nobody changes while it is sent.
        offset: bytes at its beginning that are left out; at or beyond its end nothing is sent.
        progress: takes the bytes read since the last call, from a thread of its own or at the end.
            ssh reads ahead by the window of its channel: up to 2 MB of what is told have not left this machine.
    """

    path: Path
    offset: int = 0
    progress: Progress | None = None

    @contextmanager
    def opened(self) -> Iterator[OpenPart]:
        """The file, open at the offset.

        Raises:
            SistershipError: it is missing, cannot be read, or is no regular file; or, at the end of the block,
                its size has changed, so what was sent is not what was meant.
        """
        try:
            # Before it is opened: opening a named pipe would wait for its writer.
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise _unreadable(self.path, "it is no regular file")
            file = self.path.open("rb", buffering=0)
        except OSError as error:
            raise _unreadable(self.path, error.strerror or str(error)) from None
        with file:
            before = os.fstat(file.fileno()).st_size
            file.seek(self.offset)
            opened = OpenPart(file, self.offset, before, self.progress)
            yield opened
            opened.look()
            if (after := os.fstat(file.fileno()).st_size) != before:
                raise SistershipError(
                    "a file changed while it was sent",
                    where=str(self.path),
                    why=f"it had {before} bytes, and has {after} now",
                    hint="see what else writes to it, then run the command again",
                )


class OpenPart:
    """A file that is being read, by us or by whoever inherited its descriptor."""

    def __init__(self, file: FileIO, offset: int, size: int, progress: Progress | None) -> None:
        self._file = file
        self._size = size
        self._at = offset
        self._progress = progress

    def fileno(self) -> int:
        """Its descriptor, positioned at the next byte."""
        return self._file.fileno()

    @property
    def done(self) -> bool:
        """Everything was read when we looked last."""
        return self._at >= self._size

    def look(self) -> bool:
        """Tell how far the reading has come; whether it went on since the last look."""
        at = self._file.tell()
        # A reader that took too much may set it back; what was told stays told.
        if (new := at - self._at) <= 0:
            return False
        self._at = at
        if self._progress:
            self._progress(new)
        return True

    def pieces(self, size: int) -> Iterator[bytes]:
        """The bytes, at most `size` at a time, each told when the next one is asked for."""
        while piece := self._file.read(size):
            yield piece
            self.look()

    @contextmanager
    def followed(self, watch: Watch, failed: Callable[[BaseException], object]) -> Iterator[None]:
        """Meanwhile tell the progress, and `watch` whether anything moves while something waits to be read.

        Args:
            failed: takes what the progress function raised; nothing is followed after it.
        """
        over = threading.Event()

        def follow() -> None:
            try:
                while not over.wait(_LOOK):
                    if self.look():
                        watch.moved()
                    if self.done:
                        watch.taken()
            except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, which raises it
                failed(error)

        watch.offer()
        follower = threading.Thread(target=follow, daemon=True, name="follow")
        follower.start()
        try:
            yield
        finally:
            over.set()
            follower.join()


def _unreadable(path: Path, why: str) -> SistershipError:
    hint = "does it exist, and may this user read it? then run the command again"
    return SistershipError("a file to be sent cannot be read", where=str(path), why=why, hint=hint)
