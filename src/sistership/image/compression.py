"""Compressed streams: reading whatever engines and builders write, writing the one form the store keeps.

A stream may hold several gzip members or zstd frames; all of them belong to it (python-zstandard's one-shot
functions return the first frame alone, without an error: indygreg/python-zstandard#59).
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, BinaryIO, Final

import zstandard

from sistership.errors import BuildError
from sistership.image.spans import CHUNK, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Packed once, sent to a few hosts: above this level the time grows much faster than the bytes shrink. Measured with
#: zstd 1.5.7 on libcublas.so.12 (105 MB): level 3 leaves 69.2 MB in 1.0 s of one processor, 4 leaves 67.9 in 1.35,
#: 6 leaves 68.7 in 1.7, 10 leaves 67.0 in 3.3. On the first 157 MB of libcublasLt.so.12: 26.9 MB in 0.5 s, 26.8 in
#: 0.6, 25.5 in 1.85, 24.4 in 4.3. What 10 saves of an image of 1 GB is 0.2 s for each host at 1 Gbit/s.
#: Of an image of 1.05 GB (cuBLAS and NVVM, 920 MB, and a base of 134 MB), packed by two processors: level 4 leaves
#: 567.8 MB in 1.81 s, 3 leaves 576.8 in 1.56, 2 leaves 599.1 in 1.13, 1 leaves 627.2 in 1.20. Against 4, level 3 saves
#: 0.25 s once and costs 0.08 s for each host at 1 Gbit/s, 2 saves 0.7 and costs 0.28: from three hosts on, on slower
#: links, and with more processors, 4 is sooner.
LEVEL: Final = 4
#: The bytes are the same for one to four workers (measured with zstd 1.5.7), but not for none.
WORKERS: Final = max(1, min(4, os.cpu_count() or 1))
#: The largest window read: engines refuse more than 512 MiB themselves.
MAX_WINDOW: Final = 1 << 29

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = tuple(bytes([low]) + b"\x2a\x4d\x18" for low in range(0x50, 0x60))


def is_zstd(span: Span) -> bool:
    """Whether these bytes begin a zstd stream, with a frame or a skippable frame."""
    return span.read(0, 4) in (_ZSTD, *_ZSTD_SKIPPABLE)


def is_compressed(span: Span) -> bool:
    """Whether these bytes begin a gzip or zstd stream."""
    return span.read(0, 2) == _GZIP or is_zstd(span)


def plain_chunks(span: Span, where: str) -> Iterator[bytes]:
    """The uncompressed bytes of a plain, gzip or zstd stream, at most CHUNK at a time.

    A cut zstd stream may end early without an error: the caller checks digest or size.

    Args:
        span: the whole stream.
        where: what the stream is, for messages.

    Raises:
        BuildError: the stream is damaged, or a gzip stream is cut.
    """
    if span.read(0, 2) == _GZIP:
        yield from _gunzip(span, where)
    elif is_zstd(span):
        with span.open() as stream:
            yield from unpack_zstd(stream, where)
    else:
        yield from span.chunks()


def unpack_zstd(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """The bytes of all zstd frames of a stream, at most CHUNK at a time; see ``plain_chunks`` for cut streams.

    Raises:
        BuildError: a frame is damaged, or its checksum is wrong.
    """
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    with unpacker.stream_reader(stream, read_across_frames=True, closefd=False) as reader:
        try:
            while chunk := reader.read(CHUNK):
                yield chunk
        except zstandard.ZstdError as error:
            raise _damaged(where, str(error)) from None


def packer(plain_size: int) -> zstandard.ZstdCompressionObj:
    """A compressor whose bytes depend on the content and the zstd library alone.

    The frame carries size and checksum: without a checksum a flipped bit unpacks to wrong bytes in silence.

    Args:
        plain_size: how many bytes it will get, exactly.
    """
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=WORKERS, write_checksum=True, write_content_size=True)
    return compressor.compressobj(size=plain_size)


def _gunzip(span: Span, where: str) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    used = False
    for chunk in span.chunks():
        data = chunk
        while data:
            if member.eof:
                member, used = zlib.decompressobj(wbits=31), False
            used = True
            try:
                yield member.decompress(data, CHUNK)
            except zlib.error as error:
                raise _damaged(where, str(error)) from None
            data = member.unused_data if member.eof else member.unconsumed_tail
    if used and not member.eof:
        yield from _rest(member)
        if not member.eof:
            raise _damaged(where, "the gzip stream is cut")


def _rest(member: zlib._Decompress) -> Iterator[bytes]:
    """What zlib still holds although all input was taken."""
    while rest := member.decompress(b"", CHUNK):
        yield rest


def _damaged(where: str, why: str) -> BuildError:
    return BuildError("damaged compressed stream", where=where, why=why, hint="export or copy it again")
