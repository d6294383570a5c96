"""The practice registry's storage."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading

import pytest

from sistership.errors import HostUnfitError
from sistership.fleet import bases, wheels
from sistership.fleet.paths import State
from sistership.fleet.spec import BASES, CUDA_BASES

SPEC = BASES[0]


@pytest.fixture
def unpacked(monkeypatch):
    """Root filesystems that were unpacked: bases get a few bytes instead of Debian packages and of CUDA's."""
    names: list[str] = []

    def debian(root, sink, _state, _stop):
        names.append(root.name)
        sink.write(b"tar of " + root.suite.encode())

    monkeypatch.setattr(bases, "debootstrap", debian)
    monkeypatch.setattr(bases, "architecture", lambda: "amd64")
    monkeypatch.setattr(wheels, "layer", lambda part, sink, *_more: sink.write(b"tar of " + part.encode()))
    return names


@pytest.fixture
def home(tmp_path, unpacked):
    """A fleet state whose bases are small."""
    return State(tmp_path)


def _make(home):
    said: list[str] = []
    return bases.make(SPEC, home, threading.Event(), said.append), said


def test_storage_is_a_registry(home):
    """Every link leads to a blob whose bytes have that digest, up to the layer's diffID."""
    digest, _ = _make(home)
    storage = home.registry / "docker" / "registry" / "v2"
    link = storage / "repositories" / SPEC.repository / "_manifests" / "tags" / SPEC.tag / "current" / "link"
    assert link.read_text() == digest
    for path in storage.glob("blobs/sha256/*/*/data"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name
        assert path.parent.parent.name == path.parent.name[:2]
    manifest = json.loads(bases.Registry(home.registry).blob_path(digest).read_bytes())
    layer = gzip.decompress(bases.Registry(home.registry).blob_path(manifest["layers"][0]["digest"]).read_bytes())
    config = json.loads(bases.Registry(home.registry).blob_path(manifest["config"]["digest"]).read_bytes())
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    linked = {path.parent.name for path in storage.glob("repositories/*/*/_layers/sha256/*/link")}
    assert linked == {manifest[key]["digest"][7:] for key in ("config",)} | {manifest["layers"][0]["digest"][7:]}


def test_same_packages_same_digest(home, tmp_path):
    """Made again from nothing, a base has the same digest: nothing in it knows time or place."""
    assert _make(home)[0] == _make(State(tmp_path / "other"))[0]


def test_made_once(home):
    """A base that is there is not made again."""
    first, _ = _make(home)
    assert _make(home) == (first, [])


@pytest.mark.parametrize("damage", ["lost", "cut"])
def test_damaged_base_is_made_again(home, damage):
    """A layer that vanished or was cut short is noticed, and the base repaired."""
    digest, _ = _make(home)
    registry = bases.Registry(home.registry)
    layer = registry.blob_path(json.loads(registry.blob_path(digest).read_bytes())["layers"][0]["digest"])
    if damage == "lost":
        layer.unlink()
    else:
        layer.write_bytes(layer.read_bytes()[:-1])
    assert bases.present(SPEC, home) is None
    again, said = _make(home)
    assert (again, len(said)) == (digest, 1)
    assert bases.present(SPEC, home) == digest


def test_another_recipe_is_another_base(home):
    """A base made from another list of packages does not pass for this one."""
    _make(home)
    (home.registry / "specs" / "practice-build-bookworm").write_text("0123456789ab")
    assert bases.present(SPEC, home) is None


def test_a_failure_leaves_nothing_half_done(home, monkeypatch):
    """When unpacking fails, no tag, no blob and no temporary file stay."""

    def fail(_root, sink, _state, _stop):
        sink.write(b"half")
        raise HostUnfitError("no mirror")

    monkeypatch.setattr(bases, "debootstrap", fail)
    with pytest.raises(HostUnfitError):
        _make(home)
    assert [path for path in home.registry.rglob("*") if path.is_file()] == []


def test_pinned(home):
    """`pinned` gives what a Dockerfile needs: reference with digest, only of bases that are there."""
    digest, _ = _make(home)
    assert bases.pinned(home) == {SPEC.reference: f"127.0.0.1:5000/practice/build:bookworm@{digest}"}


def _parts(home, digest):
    """Config and layer digests of a base."""
    registry = bases.Registry(home.registry)
    manifest = json.loads(registry.blob_path(digest).read_bytes())
    config = json.loads(registry.blob_path(manifest["config"]["digest"]).read_bytes())
    return config, [layer["digest"] for layer in manifest["layers"]]


def test_cuda_stands_on_debian(home, unpacked):
    """A base with CUDA has the Debian base's own layer below its own; Debian is not unpacked again for it."""
    bases.make_cuda(home, threading.Event(), lambda _line: None)
    for plain, cuda in zip(BASES, CUDA_BASES, strict=True):
        (below, lower), (config, layers) = (_parts(home, bases.present(spec, home)) for spec in (plain, cuda))
        assert layers[:1] == lower
        assert config["rootfs"]["diff_ids"][:1] == below["rootfs"]["diff_ids"]
        assert len(layers) == len(config["rootfs"]["diff_ids"]) == len(config["history"]) == 2
        assert any(line.startswith("PATH=/usr/local/cuda/bin:") for line in config["config"]["Env"])
        assert "LD_LIBRARY_PATH=/usr/local/cuda/lib64" in config["config"]["Env"]
    assert unpacked == [base.root.name for base in BASES]


def test_other_pins_other_base(home, monkeypatch):
    """When a pin moves, only the bases with CUDA are made anew."""
    bases.make_cuda(home, threading.Event(), lambda _line: None)
    moved = (*wheels.pins()[:-1], wheels.Pin("nvidia-nvvm", "13.9.9", "0" * 64))
    monkeypatch.setattr(wheels, "pins", lambda: moved)
    assert [bases.present(spec, home) for spec in CUDA_BASES] == [None, None]
    assert all(bases.present(spec, home) for spec in BASES)


def test_without_cuda_the_fleet_is_of_use(home, monkeypatch):
    """A package that cannot be had is told with what it costs; the other bases are there, and nothing is raised."""

    def offline(*_args):
        raise HostUnfitError("nvidia-nvvm 13.2.86 could not be downloaded", hint="check the connection")

    monkeypatch.setattr(wheels, "layer", offline)
    said: list[str] = []
    for spec in BASES:
        bases.make(spec, home, threading.Event(), said.append)
    bases.make_cuda(home, threading.Event(), said.append)
    assert said[-1].startswith("sample-cuda cannot be built: nvidia-nvvm 13.2.86 could not be downloaded")
    assert "next: check the connection" in said[-1]
    assert set(bases.pinned(home)) == {spec.reference for spec in BASES}


def test_cuda_is_for_amd64(home, monkeypatch):
    """On another machine the bases with CUDA are left out, and that is said."""
    monkeypatch.setattr(bases, "architecture", lambda: "arm64")
    said: list[str] = []
    bases.make_cuda(home, threading.Event(), said.append)
    assert [line for line in said if "sample-cuda cannot be built" in line and "arm64" in line] == said
    assert bases.pinned(home) == {}
