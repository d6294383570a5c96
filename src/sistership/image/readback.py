"""What a build left in the store, read back and refused unless it is in canonical form.

Nothing here trusts what wrote it: each own layer is unpacked once, header by header, and its files are hashed on the
way. The hashes are compared with those that the build stage took before any engine had the files in its hands.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sistership.errors import BuildError
from sistership.image import disk
from sistership.image.compression import unpack_zstd
from sistership.image.contents import layer_hashes
from sistership.image.documents import canonical_json, image_of, layers_of, platform_of
from sistership.image.hashing import Sha256
from sistership.image.identity import hex_of
from sistership.image.tarstream import BLOCK, Entry, Kind, pax_size, read_header, show
from sistership.image.tarwrite import END, EPOCH, layer_header
from sistership.image.tree import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sistership.image.identity import Image, Layer
    from sistership.image.layout import Store

#: What the build stage wrote of the files of one layer, as ``sha256sum`` writes it: hash, two spaces, path.
LISTS: Final = re.compile(rb"app/share/sistership/[^/]+\.sha256")

_LINE: Final = re.compile(rb"([0-9a-f]{64})  /(.+)")
_MAX_LIST: Final = 16 << 20
_WHITEOUT: Final = b".wh."
_PLUMBING: Final = b".wh..wh."
_KINDS: Final = (Kind.FILE, Kind.HARDLINK, Kind.SYMLINK, Kind.DIRECTORY)


@dataclass(slots=True)
class _Contents:
    """What the own layers hold: path without its slash → sha256 hex; hard links count as the file they name."""

    files: dict[bytes, str] = field(default_factory=dict)
    links: dict[bytes, str] = field(default_factory=dict)
    lists: dict[bytes, bytes] = field(default_factory=dict)


def read_back(image: Image, store: Store) -> dict[str, str]:
    """Check that the canonical form was reached, by the bytes in the store; each own layer is read once.

    Base layers are not looked into: they are as they were pulled, and their diffIDs were compared when they came.

    Returns:
        Path → sha256 (64 hex digits) of every regular file in own layers, as `contents.file_hashes` gives it.

    Raises:
        BuildError: the form was not reached, or a file is not the one that the build stage made.
        SistershipError: the store cannot be read.
    """
    _check_documents(image, store)
    found = _Contents()
    writers: dict[bytes, tuple[int, bool]] = {}
    for number, layer in enumerate(image.layers, start=1):
        if not layer.base:
            _LayerReader(layer, number, found, writers).read(store)
    _check_lists(image, store, found)
    names = ((path.decode("utf-8", "surrogateescape"), digest) for path, digest in found.files.items())
    return dict(sorted((f"/{name}", digest) for name, digest in names if name.isprintable()))


def _check_documents(image: Image, store: Store) -> None:
    """Config, history and both manifests say the same of the same layers, in the one spelling."""
    config, packed, plain = (store.read(digest) for digest in (image.config, image.manifest, image.manifest_plain))
    try:
        document = json.loads(config)
        bases = sum(layer.base for layer in image.layers)
        described = layers_of(config, packed, plain, bases)
        times = {document["created"], *(line["created"] for line in document["history"])}
        wrong = {
            "the config is not in the one spelling": canonical_json(document) != config,
            "the config is of another platform": platform_of(document) != image.platform,
            "the history has more than one date": len(times) != 1,
            "config, history and manifests do not describe the same layers": described != image.layers,
            "the manifests are not in the one spelling": image_of(config, described)[0] != image,
        }
    except (KeyError, TypeError, ValueError) as error:
        wrong = {f"config or manifest is damaged: {error!r}": True}
    for what, is_so in wrong.items():
        if is_so:
            raise _not_canonical(what, f"config {image.config[7:19]}")


class _LayerReader:
    """One pass over one own layer.

    Args:
        found: takes what is in it.
        writers: path → layer and whether it is a directory there, of the layers below; takes this layer's.
    """

    def __init__(self, layer: Layer, number: int, found: _Contents, writers: dict[bytes, tuple[int, bool]]) -> None:
        self._layer = layer
        self._number = number
        self._where = f"layer {number} ({layer.created_by})"
        self._found = found
        self._writers = writers
        self._directories: set[bytes] = set()
        self._hashes: dict[bytes, str] = {}
        self._last = b""

    def read(self, store: Store) -> None:
        path = store.path(self._layer.digest)
        with disk.explained(path, "a layer cannot be read"):
            file = path.open("rb")
        with file:
            tape = _Tape(unpack_zstd(file, str(path)), self._where)
            while any(block := tape.take(BLOCK)):
                self._entry(block, tape)
            rest = block + tape.rest()
        if rest != END:
            raise self._wrong(f"it ends with {len(rest)} bytes that are not the end of a tar")
        if not self._last:
            raise self._wrong("it is empty")
        if (tape.digest, tape.size) != (self._layer.diff_id, self._layer.plain_size):
            raise self._wrong(f"its bytes have diffID {tape.digest[7:19]}, not {self._layer.diff_id[7:19]}")

    def _entry(self, block: bytes, tape: _Tape) -> None:
        raw, pax = block, b""
        if (size := pax_size(block, self._where)) is not None:
            pax = tape.take(size)
            padding = tape.take(-size % BLOCK)
            block = tape.take(BLOCK)
            raw += pax + padding + block
        header = read_header(block, pax, self._where)
        self._check_form(header.entry, header.size, raw, block)
        self._check_place(header.entry)
        self._check_writers(header.entry)
        self._take(header.entry, header.size, tape)

    def _check_form(self, entry: Entry, size: int, raw: bytes, block: bytes) -> None:
        path = show(entry.path)
        if entry.kind not in _KINDS:
            raise self._wrong(f"{path} is a device or a pipe")
        if block[136:148] != b"%011o\0" % EPOCH:
            raise self._wrong(f"{path} has another time than the one constant")
        if any(block[265:329]):
            raise self._wrong(f"{path} names its owners")
        if _name(entry.path).startswith(_PLUMBING):
            raise self._wrong(f"{show(entry.path)} is no deletion of one name")
        wanted = layer_header(
            entry.path + b"/" if entry.kind is Kind.DIRECTORY else entry.path,
            entry.kind,
            mode=entry.mode,
            uid=entry.uid,
            gid=entry.gid,
            size=size,
            link=entry.link,
            xattrs=entry.xattrs,
        )
        if _name(entry.path).startswith(_WHITEOUT):
            wanted = layer_header(entry.path, Kind.FILE)
        if raw != wanted:
            raise self._wrong(f"the header of {path} is written another way")

    def _check_place(self, entry: Entry) -> None:
        path, parent = entry.path, entry.path.rpartition(b"/")[0]
        if path <= self._last:
            raise self._wrong(f"{show(path)} comes after {show(self._last)}")
        if parent and parent not in self._directories:
            raise self._wrong(f"{show(path)} comes without the directory it is in")
        self._last = path
        if entry.kind is Kind.DIRECTORY:
            self._directories.add(path)

    def _check_writers(self, entry: Entry) -> None:
        path = join(entry.path.rpartition(b"/")[0], _name(entry.path).removeprefix(_WHITEOUT))
        mine = (self._number, entry.kind is Kind.DIRECTORY)
        earlier = self._writers.setdefault(path, mine)
        if earlier is not mine and not (earlier[1] and mine[1]):
            raise self._wrong(f"{show(path)} is in layer {earlier[0]} too")

    def _take(self, entry: Entry, size: int, tape: _Tape) -> None:
        path = entry.path
        if entry.kind is Kind.HARDLINK:
            if entry.link not in self._hashes:
                raise self._wrong(f"{show(path)} is a hard link to {show(entry.link)}, which is no file before it")
            self._found.links[path] = self._hashes[entry.link]
        elif entry.kind is Kind.FILE:
            kept = bytearray()
            keep = size <= _MAX_LIST and LISTS.fullmatch(path)
            digest = Sha256()
            for chunk in tape.pieces(size):
                digest.update(chunk)
                if keep:
                    kept += chunk
            if any(tape.take(-size % BLOCK)):
                raise self._wrong(f"{show(path)} is not filled up with zeros")
            if not _name(path).startswith(_WHITEOUT):
                self._hashes[path] = self._found.files[path] = hex_of(digest.digest)
            if keep:
                self._found.lists[path] = bytes(kept)

    def _wrong(self, what: str) -> BuildError:
        return _not_canonical(what, self._where)


class _Tape:
    """An uncompressed tar that is read once from its beginning to its end, and hashed on the way."""

    def __init__(self, chunks: Iterable[bytes], where: str) -> None:
        self._chunks = iter(chunks)
        self._where = where
        self._ahead = memoryview(b"")
        self._hash = Sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        """Digest of all that was unpacked so far."""
        return self._hash.digest

    def pieces(self, size: int) -> Iterator[bytes | memoryview]:
        """The next ``size`` bytes, as they come."""
        while size > 0:
            if not self._ahead:
                self._next()
            piece, self._ahead = self._ahead[:size], self._ahead[size:]
            size -= len(piece)
            yield piece

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        return b"".join(self.pieces(size))

    def rest(self) -> bytes:
        """What is left, as far as it matters: a canonical layer has one more block."""
        found = bytes(self._ahead)
        for chunk in self._chunks:
            self._count(chunk)
            found = (found + chunk)[: 2 * len(END)]
        return found

    def _next(self) -> None:
        chunk = next(self._chunks, b"")
        if not chunk:
            raise _not_canonical("it is cut", self._where)
        self._count(chunk)
        self._ahead = memoryview(chunk)

    def _count(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self.size += len(chunk)


def _check_lists(image: Image, store: Store, found: _Contents) -> None:
    """Compare what the build stage made with what is in the image: an engine may have lost a file on the way.

    A file that the base holds already, in the same place and with the same content, is in no own layer.
    """
    inside = found.files | found.links
    for name, text in sorted(found.lists.items()):
        listed = _listed(text, show(name))
        absent = {path for path in listed if path not in inside}
        below = _in_base(image, store, absent) if absent else {}
        for path, digest in sorted(listed.items()):
            has = inside.get(path) or below.get(path)
            if has != digest:
                raise BuildError(
                    f"{show(path)} is not the file that the build stage made",
                    where=show(name),
                    why=f"made {digest[:12]}, found {has[:12] if has else 'none'}:"
                    " on the containerd store a second file of equal size and time is lost",
                    hint="copy each path once, by one COPY alone, and build again",
                )


def _listed(text: bytes, where: str) -> Mapping[bytes, str]:
    listed: dict[bytes, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise BuildError(
                f"a line of a list of hashes cannot be read: {line[:80].decode(errors='replace')!r}",
                where=where,
                why="wanted: sha256, two spaces, path from the root",
                hint="let only the build stage's collect.sh write there, and give files names without line breaks",
            )
        listed[match[2]] = match[1].decode()
    return listed


def _in_base(image: Image, store: Store, wanted: set[bytes]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for layer in image.layers:
        if layer.base:
            hashes = layer_hashes(layer, store)
            found |= {path: hashes[show(path)] for path in wanted if show(path) in hashes}
    return found


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _not_canonical(what: str, where: str) -> BuildError:
    return BuildError(
        f"the image is not in canonical form: {what}",
        where=where,
        why="it would not be the same image on every host, so it is not recorded",
        hint="build again; if it stays so, report it with the build's log",
    )
