"""The difference of a layer to an older one, as a zstd frame that the old files' bytes are the prefix of.

``zstd -d --patch-from`` unpacks it where the old files are. python-zstandard cannot make such a frame from a prefix
(its long-distance matcher does not look into dictionaries: 62 of 63 MB remained where 15 KB are enough), so old and
new bytes are compressed as one stream, cut where the new ones begin: with workers each job starts without entropy
tables or repeated offsets of the one before, so the second half is a frame of its own once it has a header
(RFC 8878, section 3.1.1.1). That is measured, not promised by zstd: every frame is unpacked again before it counts.
"""

from __future__ import annotations

import json
import mmap
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import zstandard

from sistership.errors import SistershipError
from sistership.image import disk
from sistership.image.archive import Blob, open_blob
from sistership.image.compression import WORKERS
from sistership.image.contents import large_files
from sistership.image.documents import canonical_json
from sistership.image.hashing import Sha256
from sistership.image.identity import Layer, hex_of
from sistership.image.spans import CHUNK

if TYPE_CHECKING:
    from sistership.image.layout import Store

#: Files below this size are no base for a difference: asking a host's engine for one takes longer than sending it.
LEAST: Final = 1 << 20
#: Old files that a difference is based on: a host is asked for them one after the other.
_MOST_FILES: Final = 32
#: zstd's largest window, 2 GiB: old and new bytes have to fit into it.
MAX_SPAN: Final = 1 << 31
#: With the long-distance matcher a higher level saves 3 % of a CUDA library's difference and takes twice the time.
_LEVEL: Final = 1
#: Of the whole layer's bytes: more is not worth the host's work, nor another form of the image on the containerd store.
_WORTH: Final = 0.9
#: Beside the bytes themselves: tables, jobs, the interpreter's own buffers.
_SPARE: Final = 96 << 20
_MAGIC: Final = 0xFD2FB528
#: Frame header: content size in 8 bytes, a single segment, no checksum (the layer's diffID is one), no dictionary ID.
_DESCRIPTOR: Final = 0xE0


class NoDifferenceError(Exception):
    """There is no difference to be had; the text says why. The whole layer is sent instead."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a layer comes out of an older one.

    Attributes:
        old: diffID of the older layer.
        new: diffID of the layer.
        files: absolute paths in the old image whose bytes, one file after the other, it is based on.
        base: sha256 of those bytes, 64 hex digits.
        base_size: how many they are.
        plain_size: bytes of the layer's tar, which it unpacks to.
        digest: of the difference's blob in the store; "" when it would save nothing.
        size: bytes of that blob.
    """

    old: str
    new: str
    files: tuple[str, ...]
    base: str
    base_size: int
    plain_size: int
    digest: str
    size: int

    @property
    def memory(self) -> int:
        """Bytes that a host needs to unpack it: the old files, the window, and zstd itself."""
        return self.base_size + self.plain_size + _SPARE


def needed(old: Layer, new: Layer) -> int:
    """Bytes of memory that it takes to make a difference, about 2.4 times the library (measured: 60 to 750 MB)."""
    span = old.plain_size + new.plain_size
    return span + span // 5 + _SPARE


def cached(store: Store, old: Layer, new: Layer) -> Difference | None:
    """The difference that was made before, its bytes checked; None when there is none, or not whole."""
    try:
        record = json.loads(_note(store, old, new).read_bytes())
        record["files"] = tuple(record["files"])
        found = Difference(**{field.name: record[field.name] for field in fields(Difference)})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if (found.old, found.new) != (old.diff_id, new.diff_id):
        return None
    return found if not found.digest or store.check(found.digest) else None


def make(store: Store, old: Layer, new: Layer) -> Difference:
    """The difference of two layers that the store has, made once and kept there for all hosts with that old layer.

    Raises:
        NoDifferenceError: it cannot be made here, or the older layer has no large file.
        SistershipError: the store cannot be read or written.
    """
    folder = _note(store, old, new).parent
    with disk.explained(folder, "the store cannot be written"):
        folder.mkdir(exist_ok=True)
    # One at a time, in all threads and processes: each takes memory of its own, and the next may find it made.
    with disk.locked(folder / ".lock"):
        found = cached(store, old, new)
        if found is None:
            found = _made(store, old, new)
            note = canonical_json(asdict(found))
            with disk.explained(folder, "the store cannot be written"):
                disk.write_whole(_note(store, old, new), note, folder=folder, lock=None)
    return found


def impossible(old: Layer, new: Layer, free: int | None) -> str:
    """Why no difference of these layers can be made on this machine; "" when it can. Pure.

    Args:
        free: bytes of memory that are free; None: not known.
    """
    if old.plain_size + new.plain_size > MAX_SPAN:
        return "old and new are more than 2 GiB, zstd's largest window"
    if free is None or free < needed(old, new):
        have = "an unknown amount is" if free is None else f"{free >> 20} MiB are"
        return f"making the difference takes {needed(old, new) >> 20} MiB of memory, {have} free here"
    return ""


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that a program may take on this machine, within its control group; None: not known."""
    found: list[int] = []
    with suppress(OSError, ValueError, IndexError):
        lines = (root / "proc/meminfo").read_text().splitlines()
        found.append(next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10)
    with suppress(OSError, ValueError, StopIteration):
        group = root / "sys/fs/cgroup"
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(found, default=None)


def _note(store: Store, old: Layer, new: Layer) -> Path:
    return store.root / "differences" / f"{hex_of(old.diff_id)}-{hex_of(new.diff_id)}"


def _made(store: Store, old: Layer, new: Layer) -> Difference:
    why = impossible(old, new, free_memory())
    if why:
        raise NoDifferenceError(why)
    with store.scratch() as base:
        files, digest = _take_base(store, old, base)
        if not files:
            raise NoDifferenceError("the older layer has no large file")
        size = base.tell()
        about = Difference(old.diff_id, new.diff_id, files, digest, size, new.plain_size, "", new.size)
        made = _packed(store, new, base, size)
        if made is None:
            return about
        if not _proven(store, new, base, made[0]):
            store.path(made[0]).unlink(missing_ok=True)
            raise NoDifferenceError("the difference does not unpack to the layer with this version of python-zstandard")
    return Difference(old.diff_id, new.diff_id, files, digest, size, new.plain_size, *made)


def _take_base(store: Store, old: Layer, base: BinaryIO) -> tuple[tuple[str, ...], str]:
    """Write the older layer's large files into `base`; their paths, and the sha256 of their bytes."""
    files: list[str] = []
    found = Sha256()
    for path, stream in large_files(old, store, LEAST):
        files.append(path)
        while chunk := stream.read(CHUNK):
            found.update(chunk)
            base.write(chunk)
        if len(files) == _MOST_FILES:
            break
    base.flush()
    return tuple(files), hex_of(found.digest)


class _TooLargeError(Exception):
    """The difference is no smaller than the layer."""


def _packed(store: Store, new: Layer, base: BinaryIO, base_size: int) -> tuple[str, int] | None:
    """Digest and size of the difference's blob; None when it would be as large as the layer."""
    span = base_size + new.plain_size
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL,
        window_log=max(20, (span - 1).bit_length()),
        enable_ldm=True,
        threads=WORKERS,
        write_content_size=False,
    )
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    base.seek(0)
    while chunk := base.read(CHUNK):
        packer.compress(chunk)
    packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    try:
        with store.writer() as blob:
            blob.write(struct.pack("<IBQ", _MAGIC, _DESCRIPTOR, new.plain_size))
            for chunk in open_blob(store, Blob(new, plain=True)):
                blob.write(packer.compress(chunk))
                _refuse_large(blob.size, new)
            blob.write(packer.flush())
            _refuse_large(blob.size, new)
    except _TooLargeError:
        return None
    return blob.digest, blob.size


def _refuse_large(size: int, new: Layer) -> None:
    if size > new.size * _WORTH:
        raise _TooLargeError


def _proven(store: Store, new: Layer, base: BinaryIO, digest: str) -> bool:
    """Whether the difference unpacks to the layer, with the old bytes as a dictionary of raw content."""
    found = Sha256()
    with mmap.mmap(base.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as old:
        prefix = zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    unpacker = zstandard.ZstdDecompressor(dict_data=prefix, max_window_size=MAX_SPAN)
    try:
        with store.path(digest).open("rb") as packed, unpacker.stream_reader(packed) as plain:
            while chunk := plain.read(CHUNK):
                found.update(chunk)
    except zstandard.ZstdError:
        return False
    except OSError as error:
        raise SistershipError("a blob cannot be read", where=str(store.path(digest)), why=str(error)) from None
    return found.digest == new.diff_id
