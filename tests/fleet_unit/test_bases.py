"""The practice registry's storage."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading

import pytest

from sistership.errors import HostUnfitError
from sistership.fleet import bases
from sistership.fleet.paths import State
from sistership.fleet.spec import BASES

SPEC = BASES[0]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A fleet state whose bases unpack to a few bytes instead of Debian packages."""
    monkeypatch.setattr(
        bases, "debootstrap", lambda root, sink, state, stop: sink.write(b"tar of " + root.suite.encode())
    )
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
