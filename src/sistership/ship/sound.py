"""What is sent is whole here: each blob of the store is hashed once per ship, ahead of the bytes that travel."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from sistership.errors import ShipError
from sistership.image.layout import Store
from sistership.image.release import Release, short


def check_store(release: Release, store: Store, *, deep: bool = True) -> None:
    """Refuse to send what is not whole here: a damaged blob is found by its checksum, never on a host.

    Args:
        deep: hash the blobs; otherwise only their absence is found.

    Raises:
        ShipError: a blob is missing or damaged.
    """
    broken = store.image_complete(release.image, deep=deep)
    if broken:
        raise damaged(store, release, broken)


def damaged(store: Store, release: Release, broken: list[str]) -> ShipError:
    """The error for blobs of an image that cannot be sent."""
    return ShipError(
        f"{len(broken)} of the image's blobs are missing or damaged in the store: {short(broken[0])} …",
        where=str(store.root),
        hint=f"sistership build --variant {release.variant} brings them back",
    )


class Sound:
    """Hashes blobs in the order in which they will be sent; hosts that wait for the same one share the result."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._lock = threading.Lock()
        self._found: dict[str, Future[bool]] = {}

    def __enter__(self) -> Self:
        """Nothing is hashed before somebody asks."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hash no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ahead(self, digests: Iterable[str]) -> None:
        """Begin to hash these, one after the other."""
        with self._lock:
            for digest in digests:
                if digest not in self._found:
                    self._found[digest] = self._pool.submit(self._store.check, digest)

    def passed(self, digest: str, release: Release) -> None:
        """Wait until a blob was hashed.

        Raises:
            ShipError: it is missing or damaged.
        """
        self.ahead([digest])
        if not self._found[digest].result():
            raise damaged(self._store, release, [digest])
