"""What ``docker save`` wrote, whichever engine it was.

Engines before 25 write ``<id>/layer.tar`` and links between equal layers, later ones an OCI layout beside
``manifest.json``; those with the containerd store keep layers compressed and add attestations.
An engine that fails while it writes puts its message into the tar and still reports success, so all of it is checked.
"""

from __future__ import annotations

import json
import posixpath
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from sistership.errors import BuildError
from sistership.image import disk
from sistership.image.compression import is_compressed, plain_chunks
from sistership.image.documents import INDEX
from sistership.image.hashing import Sha256, digest_beside
from sistership.image.identity import digest_of, is_digest
from sistership.image.spans import Span
from sistership.image.tarstream import Entry, Kind, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Future
    from pathlib import Path

_INDEXES: Final = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
_MAX_LINKS: Final = 8
_MAX_JSON: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class _Candidate:
    config: bytes
    layers: tuple[Span | None, ...]


class SavedLayer:
    """The uncompressed tar of a layer, its bytes compared with the diffID before or beside what is done with them.

    Args:
        span: the tar.
        diff_id: what its bytes have to have.
        proven: they were compared already.
        wrong: makes the error for bytes that have another one, which it takes.
    """

    def __init__(self, span: Span, diff_id: str, *, proven: bool, wrong: Callable[[str], BuildError]) -> None:
        self.span = span
        self.diff_id = diff_id
        self._proven = proven
        self._wrong = wrong
        self._beside: Future[str] | None = None
        self._stop = threading.Event()

    def begin(self) -> None:
        """Compare the bytes beside what the caller does next."""
        if not self._proven and self._beside is None:
            self._beside = digest_beside(self._chunks())

    def prove(self) -> None:
        """Wait until the bytes were compared.

        Raises:
            BuildError: they do not have the diffID.
        """
        self.begin()
        if self._beside and not self._proven:
            self.accept(self._beside.result())

    def accept(self, digest: str) -> None:
        """Take the digest of all the bytes from a caller that had to read them anyway.

        Raises:
            BuildError: it is not the diffID.
        """
        if digest != self.diff_id:
            raise self._wrong(digest)
        self._proven = True

    def close(self) -> None:
        """Nothing reads the bytes any more when this returns."""
        self._stop.set()
        if self._beside:
            self._beside.exception()

    def _chunks(self) -> Iterator[bytes]:
        for chunk in self.span.chunks():
            if self._stop.is_set():
                return
            yield chunk


class SavedImage:
    """The one image of a save file.

    Args:
        path: the file, for messages.
        config: its config, byte for byte.
        blobs: its layers as they were saved, from the lowest on.
        scratch: makes temporary files for layers that were saved compressed.
    """

    def __init__(self, path: Path, config: bytes, blobs: tuple[Span, ...], scratch: Callable[[], BinaryIO]) -> None:
        self.path = path
        self.config_bytes = config
        self.config: Mapping[str, Any] = json.loads(config)
        self.diff_ids: tuple[str, ...] = tuple(self.config["rootfs"]["diff_ids"])
        self.blobs = blobs
        self._scratch = scratch
        self._plain: dict[str, Span] = {}

    def layer(self, number: int) -> Span:
        """The uncompressed tar of a layer, counted from 0; its bytes have the layer's diffID.

        Raises:
            BuildError: they have not.
        """
        with self.opened(number) as layer:
            return layer.span

    @contextmanager
    def opened(self, number: int) -> Iterator[SavedLayer]:
        """The same for a caller that need not wait for the comparison: it is made when the block has ended.

        What the block makes of the bytes must not be kept before ``SavedLayer.prove`` or ``accept`` let it pass.

        Raises:
            BuildError: the bytes do not have the layer's diffID, whatever else the block found wrong with them.
        """
        diff_id, blob = self.diff_ids[number], self.blobs[number]
        span = self._plain.get(diff_id)
        if span is None and is_compressed(blob):
            span = self._unpacked(number)
        layer = SavedLayer(span or blob, diff_id, proven=span is not None, wrong=partial(self._wrong, number))
        try:
            try:
                yield layer
            except BuildError:
                layer.prove()
                raise
            layer.prove()
        finally:
            layer.close()
        self._plain[diff_id] = layer.span

    def _unpacked(self, number: int) -> Span:
        """A layer that was saved compressed, its bytes compared on the way."""
        file, found = self._scratch(), Sha256()
        with disk.explained(self.path, "a compressed layer cannot be unpacked"):
            for chunk in plain_chunks(self.blobs[number], self._where(number)):
                found.update(chunk)
                file.write(chunk)
            file.flush()
        if found.digest != self.diff_ids[number]:
            raise self._wrong(number, found.digest)
        return Span.whole(file)

    def _wrong(self, number: int, found: str) -> BuildError:
        return BuildError(
            "a layer's bytes do not have its diffID",
            where=self._where(number),
            why=f"expected {self.diff_ids[number]}, found {found}: the layer is cut or damaged",
            hint="export the image again; if it stays so, remove it from the engine and build it again",
        )

    def _where(self, number: int) -> str:
        return f"{self.path}, layer {number + 1}"


@contextmanager
def open_saved(path: Path, scratch: Callable[[], BinaryIO]) -> Iterator[SavedImage]:
    """Open a save file that holds one image; attestations are no images.

    Args:
        path: the file.
        scratch: makes temporary files, as ``Store.scratch`` does.

    Raises:
        BuildError: damaged or cut, no image, several images, or an image that lacks layers.
    """
    with ExitStack() as stack:
        with disk.explained(path, "the saved image cannot be read"):
            file = stack.enter_context(path.open("rb"))

        def temporary() -> BinaryIO:
            return stack.enter_context(scratch())

        members = {entry.path: entry for entry in entries(Span.whole(file), str(path))}
        config, blobs = _the_image(_Members(members, path), path)
        yield SavedImage(path, config, blobs, temporary)


class _Members:
    def __init__(self, entries_: Mapping[bytes, Entry], path: Path) -> None:
        self._entries = entries_
        self._path = path

    def find(self, name: str) -> Span | None:
        """The content of a member, links between equal layers followed."""
        at = posixpath.normpath(name).encode()
        for _ in range(_MAX_LINKS):
            entry = self._entries.get(at)
            if entry is None or entry.content is not None:
                return entry.content if entry else None
            if entry.kind is Kind.SYMLINK:
                at = posixpath.normpath(posixpath.join(posixpath.dirname(at), entry.link))
            elif entry.kind is Kind.HARDLINK:
                at = entry.link
            else:
                return None
        return None

    def json(self, name: str) -> Any:
        span = self.find(name)
        if span is None:
            return None
        try:
            return json.loads(span.read(0, _MAX_JSON))
        except ValueError as error:
            raise self.broken(f"{name} is no JSON: {error}") from None

    def bytes(self, name: str) -> bytes | None:
        """The bytes of a small member, checked against the digest in its name if there is one."""
        span = self.find(name)
        if span is None:
            return None
        data = span.read(0, _MAX_JSON)
        named = "sha256:" + posixpath.basename(name).removesuffix(".json")
        if is_digest(named) and digest_of(data) != named:
            raise self.broken(f"{name} does not have the digest it is named by")
        return data

    def broken(self, why: str) -> BuildError:
        return BuildError("the saved image is damaged", where=str(self._path), why=why, hint="export the image again")


def _the_image(members: _Members, path: Path) -> tuple[bytes, tuple[Span, ...]]:
    found = {candidate.config: candidate for candidate in _candidates(members)}
    if len(found) != 1:
        raise BuildError(
            "the file holds no image" if not found else f"the file holds {len(found)} images",
            where=str(path),
            hint="save exactly one image, of one platform, by its name: docker save NAME",
        )
    candidate = next(iter(found.values()))
    wanted = json.loads(candidate.config)["rootfs"]["diff_ids"]
    blobs = tuple(blob for blob in candidate.layers if blob is not None)
    if len(blobs) != len(candidate.layers) or len(blobs) != len(wanted):
        raise BuildError(
            f"the saved image has {len(blobs)} of its {len(wanted)} layers",
            where=str(path),
            why="an engine with the containerd store saves an incomplete image without an error",
            hint="remove the image from that engine, then build or load it again",
        )
    return candidate.config, blobs


def _candidates(members: _Members) -> Iterator[_Candidate]:
    listed = members.json("manifest.json")
    pairs: Iterator[tuple[str, list[str]]]
    if listed is not None:
        pairs = ((entry["Config"], entry.get("Layers") or []) for entry in listed)
    else:
        pairs = _indexed(members, members.json("index.json") or {})
    try:
        for config_name, layer_names in pairs:
            config = members.bytes(config_name)
            if config is not None and _is_image(json.loads(config)):
                yield _Candidate(config, tuple(members.find(name) for name in layer_names))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise members.broken(f"its metadata lacks something: {error!r}") from None


def _indexed(members: _Members, index: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for descriptor in index.get("manifests", []):
        manifest = members.json(_blob(descriptor))
        if manifest is None:
            continue
        if manifest.get("mediaType", descriptor["mediaType"]) in _INDEXES or "manifests" in manifest:
            yield from _indexed(members, manifest)
        else:
            yield _blob(manifest["config"]), [_blob(layer) for layer in manifest["layers"]]


def _blob(descriptor: Mapping[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _is_image(config: Mapping[str, Any]) -> bool:
    """Attestations carry the platform unknown/unknown."""
    return config.get("os") not in (None, "unknown") and bool((config.get("rootfs") or {}).get("diff_ids"))
