"""Layers are loaded while later ones travel: on real engines, and no trace of it stays."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership.host.inventory import Peer, connected
from sistership.image.contents import file_hashes
from sistership.image.documents import canonical_json, image_of
from sistership.image.identity import Layer
from sistership.image.layout import Store
from sistership.image.pack import layer_of, measure, pack
from sistership.image.release import Release
from sistership.image.spans import Span
from sistership.matrix.model import Host
from sistership.report.listeners import Silent
from sistership.ship import batches, early
from sistership.ship.host import Shipped
from sistership.ship.ship import ship_all
from sistership.verify.hosts import verify_all
from sistership.verify.verdict import Kind

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

NAME = "practice-early"
ENGINES = ("classic20", "classic26", "containerd26")
LARGE = 3 << 20


def _layer(store: Store, path: str, seed: int, size: int) -> Layer:
    """A layer with one file that zstd cannot make smaller."""
    with store.scratch() as scratch:
        with tarfile.open(fileobj=scratch, mode="w") as tar:
            for folder in ("app", "app/lib"):
                made = tarfile.TarInfo(folder)
                made.type, made.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(made)
            member = tarfile.TarInfo(path)
            member.size = size
            tar.addfile(member, io.BytesIO(random.Random(seed).randbytes(size)))
        scratch.flush()
        whole = Span.whole(scratch)
        diff_id, length = measure(whole.chunks())
        return layer_of(pack(store, diff_id, length, whole.chunks), base=False, created_by=f"COPY {path}")


def _release(store: Store, key: str, last: int) -> Release:
    """Two large layers, a small one, and a large one that is another in each release."""
    seeds = [("app/lib/a.so", 1, LARGE), ("app/lib/b.so", 2, LARGE), ("app/c", 3, 500), ("app/lib/d.so", last, LARGE)]
    layers = [_layer(store, *each) for each in seeds]
    created = "2026-01-01T00:00:00Z"
    fields = {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {"Cmd": ["/app/c"]},
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
        "history": [{"created": created, "created_by": each.created_by} for each in layers],
    }
    document = canonical_json(fields)
    image, *manifests = image_of(document, layers)
    for each in (document, *manifests):
        store.add(each)
    store.record(key * 64, image, created)
    files = file_hashes(image, store)
    return Release(NAME, key * 64, f"{NAME}:v1", image, files=files, fields=json.loads(document))


@dataclass
class Ships:
    """Ships of two releases to real engines."""

    store: Store
    first: Release
    second: Release
    peers: tuple[Peer, ...]
    ssh: Fleet

    def ship(self, release: Release) -> list[Shipped]:
        """To every engine."""
        return ship_all(self.peers, (release,), self.store, Silent(), lambda *_: None)

    def names(self, host: str) -> set[str]:
        """Tags there that are of these releases."""
        said = self.ssh.ssh(host, "docker image ls --format '{{.Repository}}:{{.Tag}}'")
        return {line for line in said.split() if NAME in line}

    def nameless(self, host: str) -> set[str]:
        """IDs of images there without a name."""
        return set(self.ssh.ssh(host, "docker image ls -q --filter dangling=true").split())


@pytest.fixture(scope="module")
def ships(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ships]:
    """The releases, and the hosts without a trace of them; they are removed at the end."""
    store = Store(tmp_path_factory.mktemp("early") / "store")
    releases = _release(store, "a", 4), _release(store, "b", 5)
    hosts = [Host(name, ssh=name, ssh_config=fleet.files.ssh_config) for name in ENGINES]
    with connected(hosts) as peers:
        found = Ships(store, *releases, peers, fleet)
        _wiped(found)
        yield found
        _wiped(found)


def _wiped(ships: Ships) -> None:
    for host in ENGINES:
        for name in ships.names(host):
            ships.ssh.ssh(host, f"docker image rm -f {name}")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Host → name of every image that a load brought; layers of 3 MiB count as large."""
    monkeypatch.setattr(batches, "LEAST", 1 << 20)
    monkeypatch.setattr(batches, "AHEAD", 1 << 20)
    found: dict[str, list[str]] = {}
    real = early.load

    def load(peer: Peer, assembly: early.Assembly, name: str = "", *, followed: bool = False) -> str:
        words = real(peer, assembly, name, followed=followed)
        found.setdefault(peer.name, []).append(words)
        return words

    monkeypatch.setattr(early, "load", load)
    return found


def test_layers_are_loaded_one_after_the_other(ships: Ships, loads: dict[str, list[str]]) -> None:
    """Three loads on every engine, the last one with the name; identity and files are right, no prefix stays."""
    nameless = {host: ships.nameless(host) for host in ENGINES}
    for done in ships.ship(ships.first):
        assert (done.error, done.verdict.kind) == (None, Kind.OK)
    assert {host: len(words) for host, words in loads.items()} == dict.fromkeys(ENGINES, 3)
    for words in loads.values():
        assert ships.first.unique in words[-1]
        assert all(ships.first.unique not in each for each in words[:-1])
    for host in ENGINES:
        assert ships.names(host) == {f"{NAME}:v1", ships.first.unique}
        assert ships.ssh.ssh(host, "ls ~/.cache/sistership/stage").split() == []
        assert ships.nameless(host) == nameless[host]
    for verdict in verify_all(ships.peers, [ships.first], deep=True):
        assert verdict.verdict.kind is Kind.OK


def test_what_follows_is_a_partial_load(ships: Ships, loads: dict[str, list[str]]) -> None:
    """Of the next release one layer is sent, and its large neighbours are those that came by prefixes."""
    for done in ships.ship(ships.second):
        assert (done.error, done.verdict.kind) == (None, Kind.OK)
        assert LARGE < done.sent < 2 * LARGE
    assert {host: len(words) for host, words in loads.items()} == dict.fromkeys(ENGINES, 1)
    for host in ENGINES:
        kept = {name for name in ships.names(host) if ":rollback-" in name}
        assert ships.names(host) - kept == {f"{NAME}:v1", ships.first.unique, ships.second.unique}


@contextmanager
def _broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The early loads fail when the first one is done."""
    real, calls = early.load, dict[str, int]()

    def load(peer: Peer, assembly: early.Assembly, name: str = "", *, followed: bool = False) -> str:
        calls[peer.name] = calls.get(peer.name, 0) + 1
        if calls[peer.name] > 1:
            assembly = replace(assembly, script="exit 6")
        return real(peer, assembly, name, followed=followed)

    with monkeypatch.context() as patched:
        patched.setattr(early, "load", load)
        yield


@pytest.mark.full
def test_load_that_breaks_off_is_done_again(
    ships: Ships, loads: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From what is staged, without sending a byte more; the prefix that was loaded does not stay."""
    _wiped(ships)
    with _broken(monkeypatch):
        results = ships.ship(ships.first)
    for done in results:
        assert (done.error, done.verdict.kind) == (None, Kind.OK)
        assert done.sent == sum(layer.size for layer in ships.first.image.layers)
    assert {host: len(words) for host, words in loads.items()} == dict.fromkeys(ENGINES, 1)
    for host in ENGINES:
        assert ships.names(host) == {f"{NAME}:v1", ships.first.unique}
