"""sha256 beside other work gives what hashlib gives."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

import pytest

from sistership.image.hashing import Sha256, digest_beside

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize("sizes", [(), (0,), (1, 1 << 16, 5), (1 << 20,) * 5, ((1 << 16) - 1, 1 << 16, (1 << 16) + 1)])
def test_pieces_count_in_their_order(sizes: tuple[int, ...]) -> None:
    """Small pieces are hashed at once, large ones beside; the sum is that of all, whenever it is asked for."""
    source, ours, theirs = random.Random(1), Sha256(), hashlib.sha256()
    for size in sizes:
        piece = source.randbytes(size)
        ours.update(memoryview(piece) if size % 2 else piece)
        theirs.update(piece)
        if size == 5:
            assert ours.digest == f"sha256:{theirs.hexdigest()}"
    assert ours.digest == f"sha256:{theirs.hexdigest()}"
    assert ours.digest == f"sha256:{theirs.hexdigest()}"


def test_digest_beside_reads_all_pieces() -> None:
    """The sum of an iterator that is read in another thread; its error comes out where the sum is asked for."""
    pieces = [bytes([number]) * 70_000 for number in range(5)]
    assert digest_beside(iter(pieces)).result() == "sha256:" + hashlib.sha256(b"".join(pieces)).hexdigest()

    def broken() -> Iterator[bytes]:
        yield b"1"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        digest_beside(broken()).result()
