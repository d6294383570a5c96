"""The road by a registry: which one, what a host would pull, and what its engine's refusals mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sistership.errors import HostUnfitError, ShipError, UsageError
from sistership.host.docker import Docker
from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.host.podman import Podman
from sistership.image.identity import Image, Layer
from sistership.image.release import Release
from sistership.matrix.model import Base, Host, Registry, Variant
from sistership.registry.place import Place
from sistership.report.listeners import Silent
from sistership.ship.plan import SLACK, Action
from sistership.ship.road import Road, plan_by, pull, refused, road_of
from sistership.verify.verdict import Kind, Verdict


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


LAYERS = (
    Layer(digest("1"), digest("a"), 100, 300, True, "base layer 1"),
    Layer(digest("2"), digest("b"), 50, 200, False, "COPY lib"),
)
IMAGE = Image(digest("e"), "linux/amd64", digest("f"), digest("0"), LAYERS)
RELEASE = Release("sample", "9" * 64, "sample:v1", IMAGE)
ROAD = Road(Place("registry.lan:5000", "team/sample"))
SOURCE = f"registry.lan:5000/team/sample@{digest('f')}"
MISSING = Verdict(Kind.MISSING)


def facts(**changes: object) -> HostFacts:
    """A host with a current engine, no room in its staging folder and nothing on it."""
    host = HostFacts("26.1.5", "classic", "ID", "linux/amd64", 1 << 40, 1, False, {}, frozenset({"zstd"}), ())
    return replace(host, **changes)


def variant(name: str, registry: Registry | None) -> Variant:
    """A variant of which only the registry counts."""
    return Variant(name, "fork", "main", name, "v1", "cpu", None, Base("a", "b"), registry=registry)


VARIANTS = {
    "one": variant("one", Registry("registry.lan/team/one", pull="mirror.lan/one")),
    "two": variant("two", Registry("registry.lan/team/two")),
    "far": variant("far", Registry("other.lan/team/far", insecure=True)),
    "bare": variant("bare", None),
}


def test_matrix_says_which_road() -> None:
    """A variant that names a registry goes there; blobs may come from its neighbours on the same registry."""
    road = road_of(VARIANTS, "one", None)
    assert road == Road(Place("registry.lan", "team/one", pull="mirror.lan/one"), ("team/two",))
    assert road.place.source(IMAGE) == f"mirror.lan/one@{digest('f')}"
    assert road_of(VARIANTS, "far", "registry") == Road(Place("other.lan", "team/far", insecure=True))
    assert road_of(VARIANTS, "bare", None) is None


def test_via_has_the_last_word() -> None:
    """`--via direct` passes the registry by; `--via registry` without one, or a wrong word, is refused."""
    assert road_of(VARIANTS, "one", "direct") is None
    with pytest.raises(UsageError, match="bare names no registry"):
        road_of(VARIANTS, "bare", "registry")
    with pytest.raises(UsageError, match="no such road"):
        road_of(VARIANTS, "one", "carrier-pigeon")


def test_pull_needs_no_staging() -> None:
    """By digest of the zstd manifest; nothing lies in the staging folder, which is full here."""
    plan = plan_by(ROAD, "h", RELEASE, facts(), MISSING, {})
    assert (plan.action, plan.source, plan.stage, plan.send) == (Action.LOAD, SOURCE, 0, 150)
    assert [each.state for each in plan.layers] == ["pull", "pull"]
    assert plan.steps == (f"pull at most 150 B from {SOURCE}", "move the tag")


def test_containerd_pulls_what_it_lacks() -> None:
    """A blob known to be in its content store is not fetched; the classic store knows no blobs it did not pull."""
    older = HeldImage(digest("7"), (), (digest("1"),), "linux/amd64", {}, "")
    known = {digest("7"): frozenset({digest("a")})}
    had = plan_by(ROAD, "h", RELEASE, facts(store="containerd", images=(older,)), MISSING, known)
    assert ([each.state for each in had.layers], had.send) == (["have", "pull"], 50)
    none = plan_by(ROAD, "h", RELEASE, facts(images=(older,)), MISSING, known)
    assert ([each.state for each in none.layers], none.send) == (["pull", "pull"], 150)


def test_old_engine_gets_it_directly() -> None:
    """Engines before 23.0 read no zstd layers; the plan says so and sends them from here."""
    old = facts(version="20.10.24", stage_free=1 << 40)
    plan = plan_by(ROAD, "h", RELEASE, old, MISSING, {})
    assert (plan.source, plan.plain) == ("", True)
    assert "directly: Engine 20.10.24 reads no zstd layers" in plan.steps[0]
    assert plan_by(ROAD, "h", RELEASE, old, Verdict(Kind.OK), {}).remark == ""


def test_full_disk_is_told_before_the_pull() -> None:
    """The engine's disk counts on this road too; only what is missing needs room."""
    older = HeldImage(digest("7"), (), (digest("1"),), "linux/amd64", {}, "")
    known = {digest("7"): frozenset({digest("a")})}
    tight = facts(store="containerd", images=(older,), free=SLACK + 260)
    assert plan_by(ROAD, "h", RELEASE, tight, MISSING, known).disk == 250
    with pytest.raises(HostUnfitError, match="are free"):
        plan_by(ROAD, "h", RELEASE, tight, MISSING, {})


def test_host_that_has_it_pulls_nothing() -> None:
    """What verifies is left alone on this road too."""
    assert plan_by(ROAD, "h", RELEASE, facts(), Verdict(Kind.OK), {}).action is Action.NOTHING


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ('Error response from daemon: Get "https://r/v2/": no basic auth credentials', HostUnfitError, "docker login"),
        ("denied: requested access to the resource is denied", HostUnfitError, "docker login"),
        ('Get "https://r/v2/": tls: failed to verify certificate: x509: unknown authority', HostUnfitError, "certs.d"),
        ("http: server gave HTTP response to HTTPS client", HostUnfitError, "insecure-registries"),
        ("dial tcp: lookup r on 127.0.0.11:53: no such host", HostUnfitError, "cannot reach"),
        ("net/http: request canceled (Client.Timeout exceeded while awaiting headers)", HostUnfitError, "cannot reach"),
        ("write /var/lib/docker/tmp/x: no space left on device", HostUnfitError, "no disk left"),
        ("manifest for r/x@sha256:1 not found: manifest unknown", ShipError, "could not pull"),
        ("permission denied while trying to connect to the Docker daemon socket", ShipError, "could not pull"),
        ("", ShipError, "could not pull"),
    ],
)  # fmt: skip
def test_refusals_are_told_with_a_way_out(words: str, error: type[Exception], says: str) -> None:
    """Each of an engine's refusals becomes its own sentence and exit code, and names the direct way."""
    found = refused("h", SOURCE, words)
    assert type(found) is error
    assert says in str(found)
    assert "--via direct" in str(found)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """This machine, with a stand-in for the engine's CLI that notes its words and says what `answer` holds."""
    docker = tmp_path / "docker"
    docker.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/words\ncat {tmp_path}/answer\nexec cat {tmp_path}/status >&2'
    )
    docker.chmod(0o755)
    (tmp_path / "status").write_text("")
    transport = Local("h")
    yield Peer(Host("h", local=True), transport, Docker(str(docker)))
    transport.close()


class Told(Silent, list[tuple[str, str, int, int]]):
    """Remembers progress."""

    def progress(self, host: str, text: str, done: int, total: int, unit: str = "bytes") -> None:
        """Remember it."""
        self.append((host, text, done, total))


def test_pull_counts_what_was_fetched(peer: Peer, tmp_path: Path) -> None:
    """Layers that the engine had already are no bytes, and make the caller look inside once."""
    plan = plan_by(ROAD, "h", RELEASE, facts(), MISSING, {})
    (tmp_path / "answer").write_text("aaaaaaaaaaaa: Already exists\nbbbbbbbbbbbb: Pull complete\nStatus: Downloaded\n")
    told = Told()
    assert pull(peer, RELEASE, plan, told) == (50, True)
    assert told[-1] == ("h", "pulled", 50, 150)
    (tmp_path / "answer").write_text("aaaaaaaaaaaa: Pull complete\nbbbbbbbbbbbb: Pull complete\n")
    assert pull(peer, RELEASE, plan, told) == (150, False)
    assert told[-1] == ("h", "pulled", 150, 150)
    said = (tmp_path / "words").read_text().splitlines()
    assert said[:2] == [f"pull {SOURCE}", f"tag {SOURCE} {RELEASE.unique}"]


def test_podman_is_counted_by_what_was_planned(peer: Peer, tmp_path: Path) -> None:
    """It copies what it has as well and says nothing of it; its temporary files have to fit."""
    podman = facts(engine="podman", store="podman", version="5.4.2")
    plan = plan_by(ROAD, "h", RELEASE, podman, MISSING, {})
    assert (plan.spool, plan.send, plan.stage) == (150, 150, 0)
    there = HeldImage("sha256:" + "7" * 64, (), ("x",), "linux/amd64", {}, "", digests=(f"x@{IMAGE.manifest}",))
    known = {IMAGE.manifest: frozenset({LAYERS[0].digest})}
    plan = plan_by(ROAD, "h", RELEASE, replace(podman, images=(there,)), MISSING, known)
    (tmp_path / "answer").write_text("Copying blob sha256:aaaa\nCopying blob sha256:bbbb\n")
    own = Peer(peer.host, peer.transport, Podman(peer.engine.cli))
    assert pull(own, RELEASE, plan, Silent()) == (50, True)
    with pytest.raises(HostUnfitError, match="temporary files"):
        plan_by(ROAD, "h", RELEASE, replace(podman, spool_free=1000), MISSING, {})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("Error: unauthorized: authentication required", "there: podman login"),
        ("tls: failed to verify certificate: x509: unknown authority", "/etc/containers/certs.d/"),
        ("http: server gave HTTP response to HTTPS client", "registries.conf"),
    ],
)
def test_podmans_refusals_have_podmans_cures(words: str, says: str) -> None:
    """The same words mean the same, and what helps is another file."""
    found = str(refused("h", SOURCE, words, "podman"))
    assert says in found
    assert "docker" not in found.replace("docker.io", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("ctr: failed to resolve reference: 401 Unauthorized", "hosts.toml, as `authorization` of the host's `header`"),
        ("ctr: tls: failed to verify certificate: x509: unknown authority", 'hosts.toml: ca = "…"'),
        ("ctr: http: server gave HTTP response to HTTPS client", 'write server = "http://'),
        ("ctr: dial tcp 192.0.2.1:5000: connect: connection refused", "try there: ctr images pull"),
    ],
)
def test_containerds_refusals_have_its_own_cures(words: str, says: str) -> None:
    """By the file that its ctr and the kubelet's runtime read; it has no logins of its own."""
    found = str(refused("h", SOURCE, words, "containerd"))
    assert says in found
    assert "docker" not in found.replace("docker.io", "")
