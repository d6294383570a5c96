"""Packing: what comes into the store, and what must not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from sistership.errors import BuildError
from sistership.image.archive import Blob, open_blob
from sistership.image.blobs import Packed
from sistership.image.compression import packer
from sistership.image.pack import layer_of, pack, pack_made, pack_new

from .savefile import sha

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sistership.image.layout import Store

DATA = random.Random(1).randbytes(3_000_000)
OTHER = DATA[::-1]


def pieces(data: bytes = DATA) -> Iterator[bytes]:
    """Uneven ones."""
    return (data[at : at + 700_001] for at in range(0, len(data), 700_001))


def nothing_kept(store: Store) -> bool:
    """No blob, no note, no draft."""
    return not any(path.is_file() for name in ("blobs", "layers", "drafts") for path in (store.root / name).rglob("*"))


def test_one_pass_makes_diff_id_and_blob(store: Store) -> None:
    """Read once, the layer has the diffID of its bytes and the blob that a known diffID would have given."""
    told: list[str] = []
    found = pack_new(store, len(DATA), pieces(), told.append)
    assert told == [found.diff_id] == [sha(DATA)]
    assert b"".join(open_blob(store, Blob(layer_of(found, base=False, created_by=""), plain=True))) == DATA
    assert store.blob_of(sha(DATA)) == found
    assert pack(store, sha(DATA), len(DATA), lambda: pytest.fail("read again")) == found


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_another_size_than_announced_is_refused(size: int, store: Store) -> None:
    """The frame says how many bytes it holds, so a wrong number must never be kept."""
    with pytest.raises(BuildError, match="changed while it was packed"):
        pack_new(store, size, pieces(), lambda _: None)
    assert nothing_kept(store)


def test_what_is_not_accepted_is_not_kept(store: Store) -> None:
    """A refusal at the very end leaves neither blob nor note."""

    def refuse(_: str) -> None:
        raise BuildError("damaged")

    for make in (
        lambda: pack_new(store, len(DATA), pieces(), refuse),
        lambda: pack_made(store, len(DATA), pieces, refuse),
    ):
        with pytest.raises(BuildError, match="damaged"):
            make()
        assert nothing_kept(store)
    with pytest.raises(BuildError, match="changed while it was packed"):
        pack(store, sha(OTHER), len(DATA), pieces)
    assert nothing_kept(store)


def test_a_made_layer_is_read_once_or_compressed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """New: one reading. Of a size that the store has: its diffID first, and the compressor only where that is new."""
    readings: list[bytes] = []
    compressed: list[int] = []

    def counting(plain_size: int) -> object:
        compressed.append(plain_size)
        return packer(plain_size)

    def made(data: bytes) -> Packed:
        def read() -> Iterator[bytes]:
            readings.append(data)
            return pieces(data)

        return pack_made(store, len(data), read, lambda _: None)

    monkeypatch.setattr("sistership.image.pack.packer", counting)
    first = made(DATA)
    assert (len(readings), len(compressed)) == (1, 1)
    assert made(DATA) == first
    assert (len(readings), len(compressed)) == (2, 1)
    assert made(OTHER).diff_id == sha(OTHER)
    assert (len(readings), len(compressed)) == (4, 2)


def test_a_made_layer_of_a_known_size_is_refused_too(store: Store) -> None:
    """Also where it has to be read twice, nothing is kept of bytes that are not accepted."""
    pack_new(store, len(DATA), pieces(), lambda _: None)

    def refuse(_: str) -> None:
        raise BuildError("damaged")

    with pytest.raises(BuildError, match="damaged"):
        pack_made(store, len(OTHER), lambda: pieces(OTHER), refuse)
    assert store.blob_of(sha(OTHER)) is None
