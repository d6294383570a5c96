"""Two whole images, in the store and as they were saved."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest

from sistership import compare
from sistership.compare import Kind, report
from sistership.errors import LockError, SistershipError
from sistership.image.canonical import canonicalise
from sistership.image.identity import Image
from sistership.image.layout import Store

from .made import Item, elf, scratch, tar

INSTRUCTIONS = ("COPY --from=build /out/lib/ /", "COPY --from=build /out/bin/ /")
BASE = tar([Item("etc/os-release", b"ID=x\n")])
CREATED = "2026-05-01T10:00:00Z"


def save(path: Path, *layers: bytes, labels: dict[str, str] | None = None) -> Path:
    """What `docker save` of an old engine writes."""
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin", f"COUNT={len(layers)}"], "Labels": labels or {}},
            "history": [{"created_by": f"COPY {number} /"} for number, _ in enumerate(layers)],
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest() for data in layers]},
        }
    ).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    places = [f"{number}/layer.tar" for number, _ in enumerate(layers)]
    listed = json.dumps([{"Config": name, "RepoTags": ["x:1"], "Layers": places}]).encode()
    files = [Item(place, data) for place, data in zip(places, layers, strict=True)]
    path.write_bytes(tar([Item(name, config), *files, Item("manifest.json", listed)]))
    return path


def image(store: Store, folder: Path, lib: bytes, program: bytes = b"#!", base: bytes = BASE, **more: str) -> Image:
    """A canonical image with one library and one program, in the store."""
    layers = base, tar([Item("app/lib/libone.so.0", lib)]), tar([Item("app/bin/app", program, mode=0o755)])
    saved = save(folder / "save.tar", *layers)
    labels = {"org.opencontainers.image.revision": "1" * 40} | more
    return canonicalise(saved, instructions=INSTRUCTIONS, created=CREATED, labels=labels, store=store)


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    return Store(tmp_path / "store")


def library(text: str) -> bytes:
    """A library that holds a text."""
    return elf({".rodata": text.encode() + b"\0", ".data": bytes(500)})


def test_equal_images_are_same(store, tmp_path):
    """The same content from two builds, in two stores, is the same; nothing is unpacked for it."""
    other = Store(tmp_path / "other")
    one, two = image(store, tmp_path, library("x")), image(other, tmp_path, library("x"))
    found = compare.images(one, store, two, other)
    assert found.same
    assert (found.differences, found.unread) == ((), ())


def test_down_to_section_cause_and_cure(store, tmp_path):
    """Layer, instruction, path, section, cause: the whole chain; the equal layer and the base are not named."""
    a = image(store, tmp_path, library("/home/ann/ggml/ggml.c"))
    b = image(store, tmp_path, library("/src/ggml/ggml.c"))
    found = compare.images(a, store, b, store, names=("recorded", "again"))
    assert not found.same
    (one,) = found.differences
    assert (one.layer, one.instruction, one.path) == (2, INSTRUCTIONS[0], "/app/lib/libone.so.0")
    assert one.parts[0].place == (".rodata",)
    assert [cause.id for cause in found.causes] == ["source-path"]
    assert (found.a.name, found.b.name, found.unread) == ("recorded", "again", ())


def test_config_fields_by_name(store, tmp_path):
    """Labels that differ are told by name with both values, and with the recipe as their cause."""
    a = image(store, tmp_path, library("x"))
    b = image(store, tmp_path, library("x"), **{"org.opencontainers.image.revision": "2" * 40})
    (one,) = compare.images(a, store, b, store).differences
    assert (one.kind, one.path) == (Kind.CONFIG, "config.Labels.org.opencontainers.image.revision")
    assert one.detail == f"{'1' * 40} in A, {'2' * 40} in B"
    assert [cause.id for cause in one.causes] == ["other-recipe"]


def test_another_base(store, tmp_path):
    """A base whose tag moved is one line with its cure, not a list of its files."""
    a = image(store, tmp_path, library("x"))
    b = image(store, tmp_path, library("x"), base=tar([Item("etc/os-release", b"ID=y\n"), Item("etc/new")]))
    (one,) = compare.images(a, store, b, store).differences
    assert one.kind is Kind.LAYER
    assert [cause.id for cause in one.causes] == ["base-image"]


def test_missing_bytes_are_said(store, tmp_path):
    """Without a layer's blob the layer is still different, and what was not looked into is named."""
    a, b = image(store, tmp_path, library("x")), image(store, tmp_path, library("y"))
    store.path(a.layers[1].digest).unlink()
    store.path(a.config).unlink()
    found = compare.images(a, store, b, store)
    assert not found.same
    assert found.unread == (f"layer 2 ({INSTRUCTIONS[0]})", "the config")
    assert "not looked into: layer 2" in report.text(found)


def test_a_damaged_blob_is_an_error(store, tmp_path):
    """A layer whose bytes are not what the image says is never compared as if they were."""
    a, b = image(store, tmp_path, library("x")), image(store, tmp_path, library("y"))
    store.path(a.layers[1].digest).write_bytes(store.path(b.layers[1].digest).read_bytes())
    with pytest.raises(SistershipError):
        compare.images(a, store, b, store)


def test_large_files_in_little_memory(store, tmp_path):
    """Two versions of a library of 24 MiB are compared in half of that memory."""
    block = bytes(range(256)) * 4096
    a = image(store, tmp_path, elf({".nv_fatbin": block * 24}))
    b = image(store, tmp_path, elf({".nv_fatbin": block * 23 + block[:-4] + b"diff"}))
    tracemalloc.start()
    found = compare.images(a, store, b, store)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.differences[0].parts[0].detail == "4 of 25165824 bytes differ, first at 0x17ffffc"
    assert peak < 12 << 20


def test_saved_files_as_they_are(tmp_path):
    """Raw exports are compared with times and order, and named by their files."""
    a = save(tmp_path / "a.tar", BASE, tar([Item("x", b"1", mtime=1), Item("y")]))
    b = save(tmp_path / "b.tar", BASE, tar([Item("y"), Item("x", b"1", mtime=99)]))
    found = compare.saved(a, b, scratch)
    assert [(one.layer, one.instruction, one.kind.value) for one in found.differences] == [
        (2, "COPY 1 /", "order"),
        (2, "COPY 1 /", "times"),
    ]
    assert (found.a.name, found.b.name) == ("a.tar", "b.tar")
    assert compare.saved(a, a, scratch).same


def test_order_of_layers(tmp_path):
    """The same layers in another order are another image, and said so."""
    one, two = tar([Item("x")]), tar([Item("y")])
    found = compare.saved(save(tmp_path / "a.tar", one, two), save(tmp_path / "b.tar", two, one), scratch)
    assert not found.same
    assert [row.detail for row in found.differences] == ["the same layers in another order"]


def record(made: Image, **more: object) -> dict[str, object]:
    """An entry of the lock."""
    return {**made.to_json(), "variant": "v", "files": {"/app/x": "1" * 64}, **more}


def test_lock_entries(store, tmp_path):
    """Two entries are compared by inputs, then files by hash; what the bytes would say is said to be unread."""
    a, b = image(store, tmp_path, library("x")), image(store, tmp_path, library("y"))
    found = compare.records(
        record(a, toolchain={"gcc": "12.2.0", "ld": "2.40"}),
        record(b, toolchain={"gcc": "12.3.0", "ld": "2.40"}, files={"/app/x": "2" * 64, "/app/y": "3" * 64}),
    )
    assert [(one.kind.value, one.path) for one in found.differences] == [
        ("input", "toolchain.gcc"),
        ("content", "/app/x"),
        ("added", "/app/y"),
    ]
    assert found.causes[0].id == "toolchain"
    assert found.unread
    assert compare.records(record(a), record(a)).same


def test_lock_entries_without_files(store, tmp_path):
    """Without hashes of files the layers are what differs."""
    a, b = image(store, tmp_path, library("x")), image(store, tmp_path, library("y"))
    found = compare.records(record(a, files={}), record(b, files={}))
    assert [(one.kind.value, one.layer) for one in found.differences] == [("layer", 2)]


def test_damaged_entries_are_refused(store, tmp_path):
    """An entry of the lock that was edited badly is the lock's error."""
    made = image(store, tmp_path, library("x"))
    with pytest.raises(LockError):
        compare.records(record(made, config="sha256:12"), record(made))
