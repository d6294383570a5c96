"""Images to ship, made without a build: three releases that differ from each other as real ones do."""

from __future__ import annotations

import io
import json
import random
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from sistership.errors import HostUnfitError
from sistership.fleet import bases, wheels
from sistership.fleet.paths import State
from sistership.fleet.spec import BASES
from sistership.image.compression import plain_chunks
from sistership.image.contents import file_hashes
from sistership.image.documents import canonical_json, image_of
from sistership.image.identity import Layer
from sistership.image.layout import Store
from sistership.image.pack import layer_of, measure, pack
from sistership.image.release import Release
from sistership.image.spans import Span

NAME = "benchmark-ship"
CREATED = "2026-01-01T00:00:00Z"
#: cuBLAS of two patch releases, the library that is replaced.
RELEASES = (
    wheels.Pin("nvidia-cublas-cu12", "12.9.1.4", "453611eb21a7c1f2c2156ed9f3a45b691deda0440ec550860290dc901af5b4c2"),
    wheels.Pin("nvidia-cublas-cu12", "12.9.2.10", "e4f53a8ca8c5d6e8c492d0d0a3d565ecb59a751b19cfdaa4f6da0ab2104c1702"),
)
#: Lies in the same layer in both releases, and makes the image larger than 1 GB.
UNCHANGED = "nvidia-nvvm"
LIBRARY = re.compile(r"nvidia/(?:cublas|cu13)/lib/(lib[^/]+\.so\.\d+)")
SMALL = 64 << 20
PROGRAM = 256 << 10


@dataclass(frozen=True)
class Source:
    """A file of a layer: its size in bytes, and how to open it."""

    size: int
    open: Callable[[], IO[bytes]]


Files = Mapping[str, Source]


def make(size: str, store: Store, state: State, report: Callable[[str], None]) -> dict[str, Release]:
    """The releases `first`, `program` (a small program is another) and `library` (the libraries are others).

    Args:
        size: `real` has CUDA libraries, `small` has bytes that compress like them.
        store: where they go.
        state: the practice fleet's cache: the base image and downloaded packages.
        report: takes one line per step.

    Raises:
        HostUnfitError: the practice base is missing, or a package cannot be downloaded.
    """
    old, new = _real(state, report) if size == "real" else _small()
    report("packing the layers (once)")
    base = _base(store, state)
    libraries = [_layer(store, "COPY /layers/large/ /", files) for files in (old, new)]
    programs = [_layer(store, "COPY /layers/bin/ /", {"app/bin/program": _bytes(_noise(seed))}) for seed in (1, 2)]
    picks = {"first": (0, 0), "program": (0, 1), "library": (1, 0)}
    return {
        name: _release(store, key * 64, (base, libraries[library], programs[program]))
        for key, (name, (library, program)) in zip("abc", picks.items(), strict=True)
    }


def _noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(PROGRAM)  # noqa: S311  the same bytes each time


def _bytes(data: bytes) -> Source:
    return Source(len(data), lambda: io.BytesIO(data))


def _small() -> tuple[Files, Files]:
    """A library and its next patch release: 100 places are others, and all behind them has moved.

    Of each 64 KiB the larger part is random, the rest repeats itself: zstd leaves 57 %, as of cuBLAS.
    """
    noise = random.Random(3)  # noqa: S311  the same bytes each time
    old = b"".join(noise.randbytes(37 << 10) + noise.randbytes(64) * 432 for _ in range(SMALL >> 16))
    new = bytearray(old)
    for at in sorted(noise.sample(range(len(new)), 100), reverse=True):
        new[at : at + 300] = noise.randbytes(320)
    return {"app/lib/liblarge.so.1": _bytes(old)}, {"app/lib/liblarge.so.1": _bytes(bytes(new))}


def _real(state: State, report: Callable[[str], None]) -> tuple[Files, Files]:
    stop = threading.Event()
    same = next(pin for pin in wheels.pins() if pin.name == UNCHANGED)
    old, new, beside = (wheels.fetch(pin, state, stop, report) for pin in (*RELEASES, same))
    return {**_libraries(old), **_libraries(beside)}, {**_libraries(new), **_libraries(beside)}


def _libraries(wheel: Path) -> Files:
    """The shared libraries of a Python package; it stays open as long as one of them is of use."""
    archive = zipfile.ZipFile(wheel)
    found = {info: LIBRARY.fullmatch(info.filename) for info in archive.infolist()}

    def source(info: zipfile.ZipInfo) -> Source:
        return Source(info.file_size, lambda: archive.open(info))

    return {f"app/lib/{name[1]}": source(info) for info, name in found.items() if name}


def _base(store: Store, state: State) -> Layer:
    """The layer of the practice runtime base and a file of our own: no host has it of another image."""
    registry, spec = bases.Registry(state.registry), BASES[1]
    digest = bases.present(spec, state)
    if digest is None:
        raise HostUnfitError(f"the base {spec.reference} is missing", where=str(state.registry), hint="fleet.up")
    path = registry.blob_path(registry.layers(digest)[0].blob.digest)
    with path.open("rb") as packed, store.scratch() as scratch:
        scratch.writelines(plain_chunks(Span.whole(packed), str(path)))
        scratch.seek(0)
        with tarfile.open(fileobj=scratch, mode="a") as tar:
            tar.addfile(tarfile.TarInfo(f"etc/{NAME}"))
        return _stored(store, scratch, base=True, instruction="base layer 1")


def _layer(store: Store, instruction: str, files: Files) -> Layer:
    """A layer with these files, in the store."""
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}
    with store.scratch() as scratch:
        with tarfile.open(fileobj=scratch, mode="w") as tar:
            for path in sorted({*folders, *files}):
                header = tarfile.TarInfo(path)
                header.mode, header.type = 0o755, tarfile.DIRTYPE
                if source := files.get(path):
                    header.type, header.size = tarfile.REGTYPE, source.size
                    with source.open() as stream:
                        tar.addfile(header, stream)
                else:
                    tar.addfile(header)
        return _stored(store, scratch, base=False, instruction=instruction)


def _stored(store: Store, tar: BinaryIO, *, base: bool, instruction: str) -> Layer:
    tar.flush()
    whole = Span.whole(tar)
    diff_id, size = measure(whole.chunks())
    return layer_of(pack(store, diff_id, size, whole.chunks), base=base, created_by=instruction)


def _release(store: Store, key: str, layers: Sequence[Layer]) -> Release:
    """An image of these layers, recorded in the store as a build does it."""
    fields: dict[str, Any] = {"architecture": bases.architecture(), "os": "linux", "created": CREATED}
    fields["config"] = {"Cmd": ["/app/bin/program"]}
    fields["rootfs"] = {"type": "layers", "diff_ids": [each.diff_id for each in layers]}
    fields["history"] = [{"created": CREATED, "created_by": each.created_by} for each in layers]
    document = canonical_json(fields)
    image, *manifests = image_of(document, layers)
    for each in (document, *manifests):
        store.add(each)
    store.record(key, image, CREATED)
    return Release(NAME, key, f"{NAME}:v1", image, files=file_hashes(image, store), fields=json.loads(document))
