"""The archive, read back with tarfile."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from sistership.errors import SistershipError
from sistership.image import archive
from sistership.image.archive import Blob, Bytes
from sistership.image.identity import Image, digest_of
from sistership.image.tarwrite import archive_header

from .samples import BASE, LIB, image
from .savefile import Save

if TYPE_CHECKING:
    from pathlib import Path

    from sistership.image.layout import Store

NAME = "sistership.local/llamacpp-rpc:abcdef012345"


def written(made: Image, store: Store, **how: Any) -> bytes:
    """The bytes of the archive."""
    parts = archive.pieces(made, store, name=NAME, **{"plain": False} | how)
    out = io.BytesIO()
    archive.write(parts, store, out)
    assert archive.size(parts) == len(out.getvalue())
    return out.getvalue()


def files(data: bytes) -> dict[str, bytes]:
    """Members in order; every one has to be a plain file."""
    with tarfile.open(fileobj=io.BytesIO(data), errorlevel=2) as tar:
        assert all(info.isreg() and not info.pax_headers for info in tar)
        return {info.name: tar.extractfile(info).read() for info in tar.getmembers()}  # type: ignore[union-attr]


@pytest.mark.parametrize("plain", [False, True])
def test_holds_an_oci_layout_and_a_docker_manifest(plain: bool, store: Store, tmp_path: Path) -> None:
    """Both lead to the same config and layers, every blob has its digest, and metadata comes last."""
    made = image(store, tmp_path)
    found = files(written(made, store, plain=plain))
    blobs = {name: data for name, data in found.items() if name.startswith("blobs/sha256/")}
    assert all(name == f"blobs/sha256/{digest_of(data)[7:]}" for name, data in blobs.items())
    assert list(found)[len(blobs) :] == ["oci-layout", "index.json", "manifest.json"]

    (line,) = json.loads(found["index.json"])["manifests"]
    assert line["digest"] == (made.manifest_plain if plain else made.manifest)
    assert line["annotations"] == {
        "io.containerd.image.name": NAME,
        "org.opencontainers.image.ref.name": "abcdef012345",
    }
    manifest = json.loads(found[f"blobs/sha256/{line['digest'][7:]}"])
    (docker,) = json.loads(found["manifest.json"])
    assert docker["RepoTags"] == [NAME]
    assert docker["Config"] == f"blobs/sha256/{made.config[7:]}"
    assert manifest["config"]["digest"] == made.config
    assert docker["Layers"] == [f"blobs/sha256/{layer['digest'][7:]}" for layer in manifest["layers"]]
    assert [len(found[name]) for name in docker["Layers"]] == [layer["size"] for layer in manifest["layers"]]
    suffix = "" if plain else "+zstd"
    assert {layer["mediaType"] for layer in manifest["layers"]} == {f"application/vnd.oci.image.layer.v1.tar{suffix}"}


def test_layers_unpack_to_their_diff_ids(store: Store, tmp_path: Path) -> None:
    """Plain layers are the diffIDs' bytes; zstd ones unpack to them, carry a checksum and a small window."""
    made = image(store, tmp_path)
    packed, plain = (files(written(made, store, plain=plain)) for plain in (False, True))
    for layer in made.layers:
        data = packed[f"blobs/sha256/{layer.digest[7:]}"]
        assert zstandard.ZstdDecompressor().decompress(data) == plain[f"blobs/sha256/{layer.diff_id[7:]}"]
        frame = zstandard.get_frame_parameters(data)
        assert frame.has_checksum
        assert frame.window_size <= 1 << 27
        assert frame.content_size == layer.plain_size


def test_pieces_alternate(store: Store, tmp_path: Path) -> None:
    """Header and padding are in the Bytes around each Blob; Bytes never follow Bytes."""
    parts = archive.pieces(image(store, tmp_path), store, name=NAME, plain=False)
    assert [type(part) for part in parts] == [Bytes, Blob] * 3 + [Bytes]
    data = written(image(store, tmp_path), store)
    assert data.endswith(bytes(1024))
    assert len(data) % 512 == 0


def test_equal_layers_are_sent_once(store: Store, tmp_path: Path) -> None:
    """A layer that occurs twice is one file, named twice."""
    made = image(store, tmp_path, Save([BASE, BASE, LIB]), ("COPY lib /opt/lib",))
    found = files(written(made, store))
    (docker,) = json.loads(found["manifest.json"])
    assert len(docker["Layers"]) == 3
    assert len(set(docker["Layers"])) == 2
    assert sum(isinstance(part, Blob) for part in archive.pieces(made, store, name=NAME, plain=False)) == 2


def test_layers_can_be_left_out(store: Store, tmp_path: Path) -> None:
    """What the host has is not sent, and is named all the same; the metadata does not change."""
    made = image(store, tmp_path)
    base = made.layers[0]
    full, part = files(written(made, store)), files(written(made, store, leave_out={base.diff_id}))
    assert set(full) - set(part) == {f"blobs/sha256/{base.digest[7:]}"}
    assert part["manifest.json"] == full["manifest.json"]


@pytest.mark.parametrize("plain", [False, True])
def test_a_damaged_blob_ends_the_archive_before_its_metadata(plain: bool, store: Store, tmp_path: Path) -> None:
    """No engine can make an image of what was written until then."""
    made = image(store, tmp_path)
    path = store.path(made.layers[1].digest)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    out = io.BytesIO()
    with pytest.raises(SistershipError):
        archive.write(archive.pieces(made, store, name=NAME, plain=plain), store, out)
    assert b"manifest.json" not in out.getvalue()


def test_a_cut_blob_is_found_when_it_is_unpacked(store: Store, tmp_path: Path) -> None:
    """zstd readers end a cut frame without an error; the digest tells."""
    made = image(store, tmp_path)
    path = store.path(made.layers[1].digest)
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(SistershipError, match="damaged"):
        list(archive.open_blob(store, Blob(made.layers[1], plain=True)))


@pytest.mark.parametrize("name", ["x:1", "sistership.local/x", "host:5000/x"])
def test_refuses_names_an_engine_would_change(name: str, store: Store, tmp_path: Path) -> None:
    """A name needs a registry part and a tag."""
    with pytest.raises(SistershipError, match="fully qualified"):
        archive.pieces(image(store, tmp_path), store, name=name, plain=False)


@pytest.mark.parametrize("size", [0, 511, 8**11 - 1, 8**11, 9 << 30, 1 << 40])
def test_headers_of_any_size_are_plain(size: int) -> None:
    """From 8 GiB on the size is in base 256; there is never a pax header."""
    header = archive_header("blobs/sha256/" + "a" * 64, size)
    info = tarfile.TarInfo.frombuf(header, "ascii", "strict")
    assert len(header) == 512
    assert (info.size, info.type, info.name) == (size, tarfile.REGTYPE, "blobs/sha256/" + "a" * 64)
