"""Ranges of open files, read piece by piece: an image of many gigabytes never has to fit into memory."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from sistership.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """``size`` bytes from ``offset`` on of a file that stays open as long as the span is used."""

    file: BinaryIO
    offset: int
    size: int

    @classmethod
    def whole(cls, file: BinaryIO) -> Span:
        """All bytes that the file has now."""
        return cls(file, 0, os.fstat(file.fileno()).st_size)

    def part(self, offset: int, size: int) -> Span:
        """A range inside this one; the caller has checked that it fits."""
        return Span(self.file, self.offset + offset, size)

    def read(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset`` on, fewer only at the end of the span."""
        size = max(0, min(size, self.size - offset))
        if size == 0:
            return b""  # a damaged file may ask for an offset that the system cannot even express
        data = os.pread(self.file.fileno(), size, self.offset + offset)
        while len(data) < size:
            more = os.pread(self.file.fileno(), size - len(data), self.offset + offset + len(data))
            if not more:
                raise BuildError("a file became shorter while it was read", where=str(self.file.name))
            data += more
        return data

    def chunks(self) -> Iterator[bytes]:
        """All bytes, at most CHUNK at a time."""
        for offset in range(0, self.size, CHUNK):
            yield self.read(offset, CHUNK)

    def open(self) -> io.BufferedReader:
        """A reader over these bytes, for libraries that want a file."""
        return io.BufferedReader(_Reader(self), CHUNK)

    def same_bytes(self, other: Span) -> bool:
        """Whether both ranges hold the same bytes."""
        if self.size != other.size:
            return False
        return all(mine == theirs for mine, theirs in zip(self.chunks(), other.chunks(), strict=True))


class _Reader(io.RawIOBase):
    def __init__(self, span: Span) -> None:
        self._span = span
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._span.read(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
