"""The practice bases: made from packages, put straight into the storage of the practice registry.

An image that `docker import` made has no digest, and BuildKit then looks for it on the network.
So a registry offers the bases. Its storage is written here, in the layout that the filesystem driver of distribution
documents (`registry/storage/paths.go`): no engine takes part, equal packages give equal digests,
and the digests outlive the hosts.

A base with CUDA has two layers: that of the Debian base with the same packages, byte for byte, and CUDA's.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sistership.errors import HostUnfitError
from sistership.fleet import wheels
from sistership.fleet.paths import State, write_atomic
from sistership.fleet.roots import debootstrap
from sistership.fleet.spec import BASES, CUDA_BASES, EPOCH, BaseSpec, digest_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from sistership.fleet.process import Reporter, Sink

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


@dataclass(frozen=True)
class Blob:
    """A stored blob: digest (``sha256:…``) and size in bytes."""

    digest: str
    size: int


@dataclass(frozen=True)
class Layer:
    """A gzip layer and the digest of its uncompressed tar (diffID)."""

    blob: Blob
    diff_id: str


class _Hashing:
    """Passes bytes on and hashes them on the way."""

    def __init__(self, out: BinaryIO | gzip.GzipFile) -> None:
        self._out = out
        self._sha = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes, /) -> int:
        self._sha.update(data)
        self.size += len(data)
        self._out.write(data)
        return len(data)

    def flush(self) -> None:
        self._out.flush()

    @property
    def digest(self) -> str:
        return f"sha256:{self._sha.hexdigest()}"


class Registry:
    """The storage folder of one registry."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._v2 = root / "docker" / "registry" / "v2"

    def blob_path(self, digest: str) -> Path:
        """Where the blob `digest` lies."""
        algorithm, hexa = digest.split(":")
        return self._v2 / "blobs" / algorithm / hexa[:2] / hexa / "data"

    def put(self, data: bytes) -> Blob:
        """Store a small blob."""
        blob = Blob(f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
        write_atomic(self.blob_path(blob.digest), data)
        return blob

    def adopt(self, file: Path, digest: str) -> Blob:
        """Move `file`, whose content has `digest`, into the storage."""
        blob = Blob(digest, file.stat().st_size)
        self.blob_path(digest).parent.mkdir(parents=True, exist_ok=True)
        file.chmod(0o644)
        file.replace(self.blob_path(digest))
        return blob

    def _link(self, folder: Path, digest: str) -> None:
        write_atomic(folder / "link", digest.encode())

    def tag(self, repository: str, tag: str, manifest: Blob, parts: tuple[Blob, ...]) -> None:
        """Let `repository:tag` name `manifest`, whose config and layers are `parts`. The tag comes last."""
        home = self._v2 / "repositories" / repository
        for part in parts:
            self._link(home / "_layers" / part.digest.replace(":", "/"), part.digest)
        self._link(home / "_manifests" / "revisions" / manifest.digest.replace(":", "/"), manifest.digest)
        tags = home / "_manifests" / "tags" / tag
        self._link(tags / "index" / manifest.digest.replace(":", "/"), manifest.digest)
        self._link(tags / "current", manifest.digest)

    def layers(self, digest: str) -> tuple[Layer, ...]:
        """The layers of a manifest that is there whole."""
        manifest = json.loads(self.blob_path(digest).read_bytes())
        image = json.loads(self.blob_path(manifest["config"]["digest"]).read_bytes())
        return tuple(
            Layer(Blob(layer["digest"], layer["size"]), diff_id)
            for layer, diff_id in zip(manifest["layers"], image["rootfs"]["diff_ids"], strict=True)
        )

    def current(self, repository: str, tag: str) -> str | None:
        """Manifest digest of `repository:tag` if it and all its blobs are there, else None."""
        link = self._v2 / "repositories" / repository / "_manifests" / "tags" / tag / "current" / "link"
        if not link.is_file():
            return None
        digest = link.read_text().strip()
        path = self.blob_path(digest)
        if not path.is_file():
            return None
        manifest = json.loads(path.read_bytes())
        parts = [manifest["config"], *manifest["layers"]]
        whole = all(
            (blob := self.blob_path(part["digest"])).is_file() and blob.stat().st_size == part["size"] for part in parts
        )
        return digest if whole else None


def key(spec: BaseSpec) -> str:
    """Twelve hex digits that change with all that decides the base's bytes."""
    if spec.cuda is None:
        return spec.root.key
    return digest_of({"root": spec.root.key, "cuda": wheels.key(spec.cuda), "env": spec.env})[:12]


def config(spec: BaseSpec, diff_ids: Sequence[str], architecture: str) -> dict[str, object]:
    """Image config of a base; nothing in it depends on when or where it was made."""
    created = datetime.fromtimestamp(EPOCH, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    step = {"created": created, "created_by": f"sistership practice base {spec.repository}:{spec.tag}"}
    return {
        "architecture": architecture,
        "config": {"Cmd": ["/bin/sh"], "Env": list(spec.env), "Labels": {"dev.sistership.base": key(spec)}},
        "created": created,
        "history": [step for _ in diff_ids],
        "os": "linux",
        "rootfs": {"diff_ids": list(diff_ids), "type": "layers"},
    }


def manifest(config_blob: Blob, layers: Sequence[Blob]) -> dict[str, object]:
    """Manifest (schema 2) of a base with gzip layers."""
    return {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {"mediaType": _CONFIG, "size": config_blob.size, "digest": config_blob.digest},
        "layers": [{"mediaType": _LAYER, "size": layer.size, "digest": layer.digest} for layer in layers],
    }


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def architecture() -> str:
    """This machine's architecture in the words of image configs."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _packed(registry: Registry, write: Callable[[Sink], None]) -> Layer:
    """Store what `write` puts into the sink it gets as a gzip layer."""
    registry.root.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".layer.", dir=registry.root)
    try:
        with os.fdopen(descriptor, "wb") as out:
            packed = _Hashing(out)
            # No name and no time in the gzip header; level 4: it only travels over the loopback.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=packed, mtime=0) as packer:
                plain = _Hashing(packer)
                write(plain)
            out.flush()
            os.fsync(out.fileno())
        return Layer(registry.adopt(Path(name), packed.digest), plain.digest)
    finally:
        Path(name).unlink(missing_ok=True)


def _debian(spec: BaseSpec, registry: Registry, state: State, stop: threading.Event, report: Reporter) -> Layer:
    """The first layer; a base with CUDA takes it from the base without."""
    if spec.cuda is not None:
        plain = next(base for base in BASES if base.root == spec.root)
        return registry.layers(make(plain, state, stop, report))[0]
    report(f"{spec.repository}:{spec.tag}: unpacking Debian packages (about a minute, once)")
    return _packed(registry, lambda sink: debootstrap(spec.root, sink, state, stop))


def _spec_file(spec: BaseSpec, state: State) -> Path:
    return state.registry / "specs" / f"{spec.repository.replace('/', '-')}-{spec.tag}"


def present(spec: BaseSpec, state: State) -> str | None:
    """Manifest digest of the base in the registry's storage, None when it is missing, damaged or of an older recipe."""
    made_from = _spec_file(spec, state)
    if not made_from.is_file() or made_from.read_text() != key(spec):
        return None
    return Registry(state.registry).current(spec.repository, spec.tag)


def make(spec: BaseSpec, state: State, stop: threading.Event, report: Reporter) -> str:
    """Have the base in the registry's storage; returns its manifest digest.

    Raises:
        HostUnfitError: this machine lacks a program, a connection or disk.
        Stopped: `stop` was set.
    """
    if digest := present(spec, state):
        return digest
    registry = Registry(state.registry)
    layers = [_debian(spec, registry, state, stop, report)]
    if (part := spec.cuda) is not None:
        report(f"{spec.repository}:{spec.tag}: adding CUDA")
        layers.append(_packed(registry, lambda sink: wheels.layer(part, sink, state, stop, report)))
    blobs = tuple(layer.blob for layer in layers)
    config_blob = registry.put(_json(config(spec, [layer.diff_id for layer in layers], architecture())))
    manifest_blob = registry.put(_json(manifest(config_blob, blobs)))
    registry.tag(spec.repository, spec.tag, manifest_blob, (config_blob, *blobs))
    write_atomic(_spec_file(spec, state), key(spec).encode())
    return manifest_blob.digest


def make_cuda(state: State, stop: threading.Event, report: Reporter) -> None:
    """Have the bases with CUDA. Where they cannot be made, `report` says so: the fleet is of use without them."""
    lost = "sample-cuda cannot be built"
    if architecture() != "amd64":
        report(f"{lost}: NVIDIA's compiler is pinned for amd64 alone, and this machine is {architecture()}")
        return
    try:
        for spec in CUDA_BASES:
            make(spec, state, stop, report)
    except HostUnfitError as error:
        report(f"{lost}: {error}")


def pinned(state: State) -> dict[str, str]:
    """Reference → reference with digest, of every base that is there."""
    found = {spec.reference: present(spec, state) for spec in (*BASES, *CUDA_BASES)}
    return {reference: f"{reference}@{digest}" for reference, digest in found.items() if digest}
