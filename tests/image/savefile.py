"""Makes what builders and engines write, with Python's tarfile as a writer that shares nothing with ours."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import zstandard

from sistership.image.spans import Span

TYPE_BITS = {tarfile.REGTYPE: 0o100000, tarfile.DIRTYPE: 0o040000, tarfile.SYMTYPE: 0o120000}


@dataclass(frozen=True)
class Item:
    """One entry to be written; names are bytes, directories have no slash at the end."""

    name: bytes
    type: bytes = tarfile.REGTYPE
    data: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    link: bytes = b""
    xattrs: tuple[tuple[str, str], ...] = ()
    mtime: int = 1
    names: tuple[str, str] = ("", "")
    device: tuple[int, int] = (0, 0)


def directory(name: bytes, mode: int = 0o755, **more: Any) -> Item:
    """A directory."""
    return Item(name, tarfile.DIRTYPE, mode=mode, **more)


def symlink(name: bytes, link: bytes, **more: Any) -> Item:
    """A symlink; the target is kept as written."""
    return Item(name, tarfile.SYMTYPE, link=link, mode=0o777, **more)


def hardlink(name: bytes, link: bytes, **more: Any) -> Item:
    """A hard link to an earlier name."""
    return Item(name, tarfile.LNKTYPE, link=link, **more)


def whiteout(name: bytes) -> Item:
    """The mark that deletes a name."""
    parent, _, last = name.rpartition(b"/")
    return Item((parent + b"/" if parent else b"") + b".wh." + last, mode=0)


def tar_of(items: list[Item], *, form: int = tarfile.PAX_FORMAT, type_bits: bool = False) -> bytes:
    """A tar with these entries, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, errors="surrogateescape", encoding="utf-8") as tar:
        for item in items:
            info = tarfile.TarInfo(_text(item.name))
            info.type, info.mode, info.uid, info.gid = item.type, item.mode, item.uid, item.gid
            info.mtime, info.linkname = item.mtime, _text(item.link)
            info.uname, info.gname = item.names
            info.devmajor, info.devminor = item.device
            info.pax_headers = {f"SCHILY.xattr.{key}": value for key, value in item.xattrs}
            info.size = len(item.data)
            tar.addfile(info, io.BytesIO(item.data))
    data = out.getvalue()
    return _with_type_bits(data) if type_bits else data


def span_of(data: bytes) -> Span:
    """A span over a file in memory, closed when the last span over it is gone."""
    file = _Memory(os.memfd_create("layer"), "w+b")
    file.write(data)
    return Span.whole(cast(BinaryIO, file))


class _Memory(io.FileIO):
    def __del__(self) -> None:
        self.close()


def sha(data: bytes) -> str:
    """The digest of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass
class Save:
    """One image as a builder leaves it: uncompressed layers, and the runtime part of its config."""

    layers: list[bytes]
    runtime: dict[str, Any] = field(default_factory=dict)
    architecture: str = "amd64"
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> bytes:
        """The config as the builder writes it, noise included."""
        document = {
            "architecture": self.architecture,
            "os": "linux",
            "created": "2031-02-03T04:05:06.789Z",
            "config": self.runtime,
            "container": "f00d",
            "docker_version": "20.10.24",
            "history": [{"created": "2031-02-03T04:05:06.789Z", "created_by": "/bin/sh -c #(nop)"}],
            "rootfs": {"type": "layers", "diff_ids": [sha(layer) for layer in self.layers]},
        }
        return json.dumps(document | self.more, indent=1).encode()

    def legacy(self, path: Path) -> Path:
        """As engines before 25: a folder per layer, equal layers as links, metadata among them."""
        name = hashlib.sha256(self.config).hexdigest() + ".json"
        files: dict[str, bytes] = {name: self.config}
        links: dict[str, str] = {}
        seen: dict[bytes, str] = {}
        places = []
        for number, layer in enumerate(self.layers):
            place = f"{number:064x}/layer.tar"
            places.append(place)
            if layer in seen:
                links[place] = f"../{seen[layer]}"
            else:
                files[place], seen[layer] = layer, place
        files["manifest.json"] = json.dumps([{"Config": name, "RepoTags": ["x:1"], "Layers": places}]).encode()
        files["repositories"] = b'{"x":{"1":"0"}}'
        return write_files(path, files, links)

    def oci(self, path: Path, pack: str = "plain", *, attested: bool = False, docker: bool = True) -> Path:
        """As engines from 25 on; ``pack`` compresses layers as the containerd store keeps them."""
        blobs = [PACKERS[pack](layer) for layer in self.layers]
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
        manifest = _manifest(self.config, blobs, files)
        listed = [_docker_line(self.config, blobs)]
        manifests = [{**manifest, "platform": {"os": "linux", "architecture": self.architecture}}]
        if attested:
            config = json.dumps(
                {"os": "unknown", "architecture": "unknown", "config": {}, "rootfs": {"diff_ids": [sha(b"{}")]}}
            ).encode()
            statement = _manifest(config, [b"{}"], files)
            listed.append(_docker_line(config, [b"{}"]))
            manifests.append({**statement, "platform": {"os": "unknown", "architecture": "unknown"}})
            inner = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()
            files[_blob(inner)] = inner
            manifests = [{"mediaType": INDEX, "digest": sha(inner), "size": len(inner)}]
        files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
        if docker:
            files["manifest.json"] = json.dumps(listed).encode()
        return write_files(path, files)


INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def gzip_members(data: bytes) -> bytes:
    """Two members, as pigz and estargz write them."""
    half = len(data) // 2
    return gzip.compress(data[:half], 1) + gzip.compress(data[half:], 1)


def zstd_frames(data: bytes) -> bytes:
    """Two frames with a skippable one between them."""
    half = len(data) // 2
    pack = zstandard.ZstdCompressor(level=1).compress
    return pack(data[:half]) + b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"skip" + pack(data[half:])


PACKERS = {"plain": lambda data: data, "gzip": gzip_members, "zstd": zstd_frames}


def write_files(path: Path, files: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    """An outer tar with these files."""
    items = [Item(name.encode(), data=data) for name, data in files.items()]
    items += [symlink(name.encode(), target.encode()) for name, target in (links or {}).items()]
    path.write_bytes(tar_of(items))
    return path


def _manifest(config: bytes, blobs: list[bytes], files: dict[str, bytes]) -> dict[str, Any]:
    document = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"digest": sha(config), "size": len(config)},
            "layers": [{"digest": sha(blob), "size": len(blob)} for blob in blobs],
        }
    ).encode()
    files |= {_blob(data): data for data in (config, document, *blobs)}
    return {"mediaType": MANIFEST, "digest": sha(document), "size": len(document)}


def _docker_line(config: bytes, blobs: list[bytes]) -> dict[str, Any]:
    return {"Config": _blob(config), "RepoTags": ["x:1"], "Layers": [_blob(blob) for blob in blobs]}


def _blob(data: bytes) -> str:
    return "blobs/sha256/" + hashlib.sha256(data).hexdigest()


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _with_type_bits(data: bytes) -> bytes:
    """The same tar with file-type bits in each mode, as Engine 20.10 writes them."""
    raw = bytearray(data)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for info in tar:
            at = info.offset_data - 512
            mode = info.mode | TYPE_BITS.get(info.type, 0o100000)
            raw[at + 100 : at + 108] = b"%07o\0" % mode
            raw[at + 148 : at + 156] = b" " * 8
            raw[at + 148 : at + 156] = b"%06o\0 " % sum(raw[at : at + 512])
    return bytes(raw)
