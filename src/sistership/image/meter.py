"""How far the work on the layers of a saved image is, in bytes as they were saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sistership.image.spans import Span


class Meter:
    """Counts layers that are worked on one after the other.

    Args:
        blobs: the layers as they were saved, compressed or not.
        tell: takes the bytes that are through, and those of all layers.
    """

    def __init__(self, blobs: Sequence[Span], tell: Callable[[int, int], object] | None) -> None:
        self._sizes = [blob.size for blob in blobs]
        self._tell = tell
        self._done = 0

    def over(self, number: int, plain: Span) -> Callable[[], Iterator[bytes]]:
        """The pieces of a layer, counted from 0, told about while they are taken.

        Args:
            plain: the layer, uncompressed.
        """

        def pieces() -> Iterator[bytes]:
            taken = 0
            for chunk in plain.chunks():
                yield chunk
                taken += len(chunk)
                self._say(self._done + self._sizes[number] * taken // plain.size)

        return pieces

    def through(self, number: int) -> None:
        """A layer is done, however much of it had to be read."""
        self._done += self._sizes[number]
        self._say(self._done)

    def _say(self, done: int) -> None:
        if self._tell:
            self._tell(done, sum(self._sizes))
