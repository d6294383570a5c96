"""The practice bases: made from packages, put straight into the storage of the practice registry.

An image that `docker import` made has no digest, and BuildKit then looks for it on the network.
So a registry offers the bases. Its storage is written here, in the layout that the filesystem driver of distribution
documents (`registry/storage/paths.go`): no engine takes part, equal packages give equal digests,
and the digests outlive the hosts.
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

from sistership.fleet.paths import State, write_atomic
from sistership.fleet.roots import debootstrap
from sistership.fleet.spec import BASES, EPOCH, BaseSpec

if TYPE_CHECKING:
    import threading

    from sistership.fleet.process import Reporter

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


@dataclass(frozen=True)
class Blob:
    """A stored blob: digest (``sha256:…``) and size in bytes."""

    digest: str
    size: int


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


def config(spec: BaseSpec, diff_id: str, architecture: str) -> dict[str, object]:
    """Image config of a base; nothing in it depends on when or where it was made."""
    created = datetime.fromtimestamp(EPOCH, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "architecture": architecture,
        "config": {
            "Cmd": ["/bin/sh"],
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Labels": {"dev.sistership.base": spec.root.key},
        },
        "created": created,
        "history": [{"created": created, "created_by": f"sistership practice base {spec.repository}:{spec.tag}"}],
        "os": "linux",
        "rootfs": {"diff_ids": [diff_id], "type": "layers"},
    }


def manifest(config_blob: Blob, layer: Blob) -> dict[str, object]:
    """Manifest (schema 2) of a base with one gzip layer."""
    return {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {"mediaType": _CONFIG, "size": config_blob.size, "digest": config_blob.digest},
        "layers": [{"mediaType": _LAYER, "size": layer.size, "digest": layer.digest}],
    }


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def architecture() -> str:
    """This machine's architecture in the words of image configs."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _layer(spec: BaseSpec, registry: Registry, state: State, stop: threading.Event) -> tuple[Blob, str]:
    """Make the base's layer; returns the gzip blob and the diffID."""
    registry.root.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".layer.", dir=registry.root)
    try:
        with os.fdopen(descriptor, "wb") as out:
            packed = _Hashing(out)
            # No name and no time in the gzip header; level 4: it only travels over the loopback.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=packed, mtime=0) as packer:
                plain = _Hashing(packer)
                debootstrap(spec.root, plain, state, stop)
            out.flush()
            os.fsync(out.fileno())
        return registry.adopt(Path(name), packed.digest), plain.digest
    finally:
        Path(name).unlink(missing_ok=True)


def _spec_file(spec: BaseSpec, state: State) -> Path:
    return state.registry / "specs" / f"{spec.repository.replace('/', '-')}-{spec.tag}"


def present(spec: BaseSpec, state: State) -> str | None:
    """Manifest digest of the base in the registry's storage, None when it is missing, damaged or of an older recipe."""
    made_from = _spec_file(spec, state)
    if not made_from.is_file() or made_from.read_text() != spec.root.key:
        return None
    return Registry(state.registry).current(spec.repository, spec.tag)


def make(spec: BaseSpec, state: State, stop: threading.Event, report: Reporter) -> str:
    """Have the base in the registry's storage; returns its manifest digest."""
    if digest := present(spec, state):
        return digest
    report(f"{spec.repository}:{spec.tag}: unpacking Debian packages (about a minute, once)")
    registry = Registry(state.registry)
    layer, diff_id = _layer(spec, registry, state, stop)
    config_blob = registry.put(_json(config(spec, diff_id, architecture())))
    manifest_blob = registry.put(_json(manifest(config_blob, layer)))
    registry.tag(spec.repository, spec.tag, manifest_blob, (config_blob, layer))
    write_atomic(_spec_file(spec, state), spec.root.key.encode())
    return manifest_blob.digest


def pinned(state: State) -> dict[str, str]:
    """Reference → reference with digest, of every base that is there."""
    found = {spec.reference: present(spec, state) for spec in BASES}
    return {reference: f"{reference}@{digest}" for reference, digest in found.items() if digest}
