from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from sistership.image.exported import Exported
from sistership.image.identity import Image, Layer, digest_of
from sistership.matrix.load import parse
from sistership.matrix.model import Matrix
from sistership.recipe.lock import Lock, LockedVariant
from sistership.recipe.recipe import inputs_of, recipe_of, wants_of

PIN = "sha256:" + "b" * 64
TEXT = f"""\
version: 1
builder: {{linux/arm64: spark}}
forks:
  upstream: {{git: https://git.example/llama.cpp}}
defaults:
  base: {{build: "debian:bookworm@{PIN}", runtime: "debian:bookworm-slim@{PIN}"}}
variants:
  alpha:
    fork: upstream
    commit: 84e908c625fb60992b4cdef8180fb12fa9b4c4bf
    image: llamacpp-alpha
    tag: v1
    backend: cpu
    platforms: [linux/amd64, linux/arm64]
  beta:
    fork: upstream
    commit: main
    image: llamacpp-beta
    tag: v2
    cuda: {{toolkit: 12.8.1, archs: [89, 120]}}
hosts:
  spark: {{ssh: spark, platform: linux/arm64}}
  ada: {{ssh: ada, platform: linux/amd64, gpu: ["8.9"]}}
  pascal: {{ssh: pascal, gpu: ["6.1"]}}
"""


def matrix(text: str = TEXT) -> Matrix:
    """The matrix in `text`."""
    return parse(text.encode(), Path("buildmatrix.yaml"))


def locked(
    read: Matrix, name: str = "alpha", commit: str = "84e908c625fb60992b4cdef8180fb12fa9b4c4bf"
) -> LockedVariant:
    """A resolution that answers what the matrix asks, without any source."""
    variant = read.variants[name]
    bases = {"build": variant.base.build, "runtime": variant.base.runtime}
    wants = wants_of(read, variant)
    return LockedVariant(inputs_of(read, variant), commit, "a" * 40, 1, "2026-05-01T10:00:00Z", bases, (), wants)


def image(platform: str = "linux/amd64", content: str = "x") -> Image:
    """An image that was never built."""
    digests = [digest_of(f"{content}{number}".encode()) for number in range(5)]
    layer = Layer(digests[0], digests[1], 10, 20, base=True, created_by="base layer 1")
    return Image(digests[2], platform, digests[3], digests[4], (layer,))


def exported(read: Matrix, answer: LockedVariant, made: Image, name: str = "alpha") -> Exported:
    """What an export of it says."""
    variant = read.variants[name]
    key = recipe_of(read, variant, made.platform, answer).key
    names = {"variant": name, "image": variant.image, "tag": variant.tag, "created": answer.date, "archs": []}
    return Exported(key, {**made.to_json(), **names}, answer.to_json())


def lock_with(*found: Exported) -> Lock:
    """A lock that knows these, as another project wrote it."""
    lock = Lock()
    for each in found:
        assert each.resolved is not None
        lock = lock.with_image(each.key, each.record)
        lock = lock.with_variant(each.release.variant, LockedVariant.from_json(each.resolved))
    return lock


def write(lock: Lock, path: Path) -> Path:
    """The lock as a file."""
    path.write_bytes(lock.dumps())
    json.loads(path.read_text())
    return path


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Makers of values, as one fixture: test files cannot import each other."""
    return SimpleNamespace(
        text=TEXT, matrix=matrix, locked=locked, image=image, exported=exported, lock_with=lock_with, write=write
    )
