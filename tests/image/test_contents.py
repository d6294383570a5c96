"""Hashes of the files in an image's own layers."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from sistership.errors import BuildError
from sistership.image.contents import file_hashes
from sistership.image.identity import Image, Layer
from sistership.image.layout import Store
from sistership.image.pack import pack


def layer(store: Store, files: dict[str, bytes], *, base: bool = False) -> Layer:
    """A layer of these files and one symlink."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("app/link")
        link.type, link.linkname = tarfile.SYMTYPE, "x"
        tar.addfile(link)
    data = out.getvalue()
    diff_id = "sha256:" + hashlib.sha256(data).hexdigest()
    packed = pack(store, diff_id, len(data), lambda: iter([data]))
    return Layer(diff_id, packed.digest, packed.size, packed.plain_size, base, "COPY")


def test_regular_files_of_own_layers(tmp_path: Path) -> None:
    """Own layers count file by file; base layers, symlinks, deletions and names with control characters do not."""
    store = Store(tmp_path)
    layers = (
        layer(store, {"etc/base": b"x"}, base=True),
        layer(store, {"app/b": b"2" * 3_000_000, "app/a": b"1", "app/bad\nname": b"3", "etc/.wh.gone": b""}),
    )
    digest = "sha256:" + "0" * 64
    image = Image(digest, "linux/amd64", digest, digest, layers)
    found = file_hashes(image, store)
    assert found == {
        "/app/a": hashlib.sha256(b"1").hexdigest(),
        "/app/b": hashlib.sha256(b"2" * 3_000_000).hexdigest(),
    }
    assert list(found) == sorted(found)
    path = store.path(layers[1].digest)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BuildError, match="cannot be read"):
        file_hashes(replace(image, layers=layers[1:]), store)
