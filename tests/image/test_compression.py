"""Compressed streams to their very end, and no further."""

from __future__ import annotations

import gzip
import io
import os

import pytest
import zstandard

from sistership.errors import BuildError
from sistership.image import compression
from sistership.image.compression import is_compressed, packer, plain_chunks, unpack_zstd
from sistership.image.spans import CHUNK

from .savefile import gzip_members, span_of, zstd_frames


def unpacked(data: bytes) -> bytes:
    """What a stream unpacks to, in bounded chunks."""
    chunks = list(plain_chunks(span_of(data), "layer 1"))
    assert all(len(chunk) <= CHUNK for chunk in chunks)
    return b"".join(chunks)


def packed(data: bytes) -> bytes:
    """A blob as the store makes it."""
    compressor = packer(len(data))
    return compressor.compress(data) + compressor.flush()


def test_two_zstd_frames() -> None:
    """All 1,000,000 bytes of two frames (indygreg/python-zstandard#59, #196): one-shot functions give half."""
    first, second = os.urandom(500_000), os.urandom(500_000)
    pack = zstandard.ZstdCompressor().compress
    data = pack(first) + pack(second)
    assert len(zstandard.ZstdDecompressor().decompress(data)) == 500_000
    assert unpacked(data) == first + second


@pytest.mark.parametrize("pack", [gzip_members, zstd_frames, bytes, gzip.compress, packed])
@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, 3 * CHUNK + 7])
def test_every_form_unpacks_whole(pack, size: int) -> None:
    """Members, frames, skippable frames and plain bytes; also what shrinks a thousandfold, a chunk at a time."""
    data = b"ab" * (size // 2) + b"c" * (size % 2)
    if not (pack is bytes and size == 0):
        assert unpacked(pack(data)) == data


def test_skippable_frame_first() -> None:
    """pzstd begins its streams with a skippable frame."""
    data = b"\x50\x2a\x4d\x18\x04\0\0\0\0\0\0\0" + zstandard.compress(b"content")
    assert is_compressed(span_of(data))
    assert unpacked(data) == b"content"


def test_plain_tar_is_not_compressed() -> None:
    """Only the magic numbers count."""
    assert not is_compressed(span_of(b"etc/\0\0\0"))
    assert not is_compressed(span_of(b""))


@pytest.mark.parametrize("cut", [1, 8, 200])
def test_a_cut_gzip_stream_is_found(cut: int) -> None:
    """Also when only its checksum is missing."""
    with pytest.raises(BuildError, match="damaged compressed stream"):
        unpacked(gzip.compress(os.urandom(5000))[:-cut])


def test_garbage_after_a_gzip_member_is_found() -> None:
    """What follows a member has to be another one."""
    with pytest.raises(BuildError, match="damaged compressed stream"):
        unpacked(gzip.compress(b"x") + b"garbage")


def test_a_flipped_bit_is_found() -> None:
    """Our frames carry a checksum; in incompressible bytes nothing else would tell."""
    data = bytearray(packed(os.urandom(100_000)))
    data[50_000] ^= 1
    with pytest.raises(BuildError, match="checksum"):
        list(unpack_zstd(io.BytesIO(data), "blob"))


def test_bytes_do_not_depend_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same blob with one worker and with four, in any chunking."""
    data = b"".join(bytes([n % 7, n % 11, n % 13]) * 50 for n in range(40_000))
    results = set()
    for workers, step in ((1, len(data)), (2, 65_536), (4, 1_000_003)):
        monkeypatch.setattr(compression, "WORKERS", workers)
        compressor = packer(len(data))
        parts = [compressor.compress(data[at : at + step]) for at in range(0, len(data), step)]
        results.add(b"".join([*parts, compressor.flush()]))
    assert len(results) == 1
