"""Images to ship, made without a build: three releases that differ from each other as real ones do."""

from __future__ import annotations

import io
import json
import random
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from sistership.errors import HostUnfitError
from sistership.fleet import bases, wheels
from sistership.fleet.paths import State
from sistership.fleet.spec import BASES
from sistership.image.compression import plain_chunks
from sistership.image.contents import file_hashes
from sistership.image.documents import config_document, image_of
from sistership.image.identity import Layer
from sistership.image.layer import read_layer, write_layer
from sistership.image.layout import Store
from sistership.image.pack import layer_of, measure, pack
from sistership.image.release import Release
from sistership.image.spans import Span
from sistership.image.tree import EMPTY, Node, changes, lay

NAME = "benchmark-ship"
#: Where its images are in a registry.
REPOSITORY = "team/benchmark-ship"
CREATED = "2026-01-01T00:00:00Z"
#: Of the own layers, as a template's final stage has them.
INSTRUCTIONS = ("COPY /layers/large/ /", "COPY /layers/bin/ /")
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
_LARGE = "app/lib/liblarge.so.1"


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
    with ExitStack() as stack:
        maker = _Maker(store, state, stack)
        libraries = [maker.own(0, files, maker.tree) for files in (old, new)]
        programs = [maker.own(1, _program(seed), libraries[0][1])[0] for seed in (1, 2)]
        picks = {"first": (0, 0), "program": (0, 1), "library": (1, 0)}
        return {
            name: _release(store, key * 64, (maker.base, libraries[library][0], programs[program]))
            for key, (name, (library, program)) in zip("abc", picks.items(), strict=True)
        }


def sized(sizes: Sequence[int], store: Store, state: State, report: Callable[[str], None]) -> dict[str, Release]:
    """One release for each size of its library, named by the size.

    Args:
        sizes: bytes, at most 254 of them.
        store, state, report: as of `make`.
    """
    report("packing images of several sizes (once)")
    found = {}
    for number, size in enumerate(sizes, start=1):
        with ExitStack() as stack:
            maker = _Maker(store, state, stack)
            libraries, tree = maker.own(0, {_LARGE: _bytes(_library(size, _noise(3)))}, maker.tree)
            layers = (maker.base, libraries, maker.own(1, _program(1), tree)[0])
            found[str(size)] = _release(store, f"{number:02x}" * 32, layers)
    return found


def _program(seed: int) -> Files:
    return {"app/bin/program": _bytes(_noise(seed).randbytes(PROGRAM))}


def layout_name(key: str) -> str:
    """How tools that read OCI layouts know the image of a recipe key in the store."""
    return f"{NAME}-{key[:2]}"


def largest(size: str, state: State) -> int:
    """Bytes of the largest file of the library layer."""
    return SMALL if size == "small" else max(source.size for source in _real(state, lambda _: None)[0].values())


def _noise(seed: int) -> random.Random:
    """The same bytes each time."""
    return random.Random(seed)  # noqa: S311


def _bytes(data: bytes) -> Source:
    return Source(len(data), lambda: io.BytesIO(data))


def _library(size: int, noise: random.Random) -> bytes:
    """Of each 64 KiB the larger part is random, the rest repeats itself: zstd leaves 57 %, as of cuBLAS."""
    return b"".join(noise.randbytes(37 << 10) + noise.randbytes(64) * 432 for _ in range(size >> 16))


def _small() -> tuple[Files, Files]:
    """A library and its next patch release: 100 places are others, and all behind them has moved."""
    noise = _noise(3)
    old = _library(SMALL, noise)
    new = bytearray(old)
    for at in sorted(noise.sample(range(len(new)), 100), reverse=True):
        new[at : at + 300] = noise.randbytes(320)
    return {_LARGE: _bytes(old)}, {_LARGE: _bytes(bytes(new))}


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


class _Maker:
    """Makes layers in canonical form, as a build leaves them: what a build makes of its export is the same image.

    Attributes:
        base: the layer of the practice runtime base and a file of our own: no host has it of another image.
        tree: what it holds.
    """

    def __init__(self, store: Store, state: State, stack: ExitStack) -> None:
        registry, spec = bases.Registry(state.registry), BASES[1]
        digest = bases.present(spec, state)
        if digest is None:
            raise HostUnfitError(f"the base {spec.reference} is missing", where=str(state.registry), hint="fleet.up")
        path = registry.blob_path(registry.layers(digest)[0].blob.digest)
        # Trees point into these files.
        self._scratch = lambda: stack.enter_context(store.scratch())
        self._store = store
        scratch = self._scratch()
        with path.open("rb") as packed:
            scratch.writelines(plain_chunks(Span.whole(packed), str(path)))
        scratch.seek(0)
        with tarfile.open(fileobj=scratch, mode="a") as tar:
            tar.addfile(tarfile.TarInfo(f"etc/{NAME}"))
        scratch.flush()
        whole = Span.whole(scratch)
        self.tree = lay(EMPTY, read_layer(whole, EMPTY, where="base", own=False)) or EMPTY
        self.base = _packed(store, whole.chunks, "base layer 1", base=True)

    def own(self, number: int, files: Files, below: Node) -> tuple[Layer, Node]:
        """An own layer, counted from 0, with these files, and the tree with it."""
        overlay = read_layer(_tar(files, self._scratch()), below, where=INSTRUCTIONS[number], own=True)
        after = lay(below, overlay) or EMPTY
        return _packed(self._store, partial(write_layer, changes(below, after)), INSTRUCTIONS[number]), after


def _tar(files: Files, scratch: BinaryIO) -> Span:
    """A layer with these files, as any builder might write it."""
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}
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
    scratch.flush()
    return Span.whole(scratch)


def _packed(store: Store, chunks: Callable[[], Iterable[bytes]], instruction: str, *, base: bool = False) -> Layer:
    diff_id, size = measure(chunks())
    return layer_of(pack(store, diff_id, size, chunks), base=base, created_by=instruction)


def _release(store: Store, key: str, layers: Sequence[Layer]) -> Release:
    """An image of these layers, recorded in the store as a build does it."""
    built = {"architecture": bases.architecture(), "os": "linux", "config": {"Cmd": ["/app/bin/program"]}}
    document = config_document(
        built,
        created=CREATED,
        labels={},
        base_layers=1,
        own=[(instruction, True) for instruction in INSTRUCTIONS],
        diff_ids=[each.diff_id for each in layers],
    )
    image, *manifests = image_of(document, layers)
    for each in (document, *manifests):
        store.add(each)
    reference = f"{NAME}:v1"
    store.record(key, image, CREATED, name=layout_name(key))
    return Release(NAME, key, reference, image, files=file_hashes(image, store), fields=json.loads(document))
