"""sha256 beside the work that makes the bytes: each piece is hashed while the next one is read, packed or unpacked."""

from __future__ import annotations

import functools
import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Bytes below which handing a piece over costs more than hashing it.
_SMALL = 1 << 16


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """For the whole process; as many sums at a time as one pass over a layer needs."""
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="sha256")


@functools.cache
def _readers() -> ThreadPoolExecutor:
    """For work that takes as long as a pass does; none of it waits for another one's."""
    return ThreadPoolExecutor(max_workers=4, thread_name_prefix="beside")


def digest_beside(pieces: Iterable[bytes]) -> Future[str]:
    """The digest of all pieces, which are read and hashed beside what the caller does."""
    return _readers().submit(_digest, pieces)


def run_beside(work: Callable[[], None]) -> Future[None]:
    """Work that waits for the disk, beside what the caller does."""
    return _readers().submit(work)


def _digest(pieces: Iterable[bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return f"sha256:{found.hexdigest()}"


class Sha256:
    """Like hashlib's, but `update` returns before the piece is hashed; the piece must not change afterwards."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._last: Future[None] | None = None

    def update(self, data: bytes | memoryview) -> None:
        """Take the next piece."""
        self._wait()
        if len(data) < _SMALL:
            self._hash.update(data)
        else:
            self._last = _pool().submit(self._hash.update, data)

    @property
    def digest(self) -> str:
        """Of all that was taken so far, as ``sha256:`` and 64 hex digits."""
        self._wait()
        return f"sha256:{self._hash.hexdigest()}"

    def _wait(self) -> None:
        if self._last is not None:
            self._last.result()
            self._last = None
