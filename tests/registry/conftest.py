"""A registry and a store with one image."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sistership.image.documents import canonical_json, image_of
from sistership.image.identity import Image, Layer, digest_of
from sistership.image.layout import Store

from .fake import Registry, registry


@pytest.fixture
def server() -> Iterator[Registry]:
    """A registry of this test's own."""
    with registry() as running:
        yield running


@pytest.fixture(autouse=True)
def docker_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for Docker's config: nobody's login counts here."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


@pytest.fixture
def image(store: Store) -> Image:
    """An image of two layers, one of which a part is smaller than; a registry does not look inside."""
    noise = random.Random(5)
    blobs = [noise.randbytes(size) for size in (300_000, 5_000)]
    layers = [
        Layer(digest_of(b"plain" + blob), store.add(blob), len(blob), len(blob) * 2, number == 0, f"layer {number}")
        for number, blob in enumerate(blobs)
    ]
    config = {
        "os": "linux",
        "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
    }
    made, packed, plain = image_of(canonical_json(config), layers)
    for document in (canonical_json(config), packed, plain):
        store.add(document)
    return made
