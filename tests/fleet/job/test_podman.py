"""Podman, rootful and rootless: every verb that works on a host works there, and identity is the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership import fleet as practice
from sistership.fleet import containers
from sistership.host.facts import probe, same_daemons
from sistership.host.inventory import Peer, connected
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.registry.place import Place
from sistership.report.listeners import Silent
from sistership.ship import batches, early
from sistership.ship.older import Ours
from sistership.ship.plan import HostPlan
from sistership.ship.prune import Older, Pruned, prune_all
from sistership.ship.road import Road
from sistership.ship.ship import Shipped, plan_all, ship_all
from sistership.verify.held import file_of, held, save
from sistership.verify.hosts import verify_all
from sistership.verify.verdict import Kind, Verdict

from .test_difference import LIBRARY, NAME, Made, made, states  # noqa: F401 - `made` is a fixture
from .test_registry import USER, Running, running  # noqa: F401 - `running` is a fixture

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

ROOTFUL, ROOTLESS = "podman", "podman-rootless"
WIPE = "podman rm -af >/dev/null 2>&1; podman rmi -af >/dev/null 2>&1; rm -rf ~/.cache/sistership/stage"
#: Where each keeps its layers.
STORES = {ROOTFUL: "/var/lib/containers/storage", ROOTLESS: "/home/rootless/.local/share/containers/storage"}

SOCKET = "unix:///run/practice.sock"

pytestmark = pytest.mark.timeout(600)
both = pytest.mark.parametrize("host", [ROOTFUL, ROOTLESS])


@pytest.fixture(scope="module")
def podman(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with the host that has Podman alone; if it was not there before, it is gone afterwards."""
    before = set(containers.all_of_fleet(containers.connect()))
    started = practice.up(fleet.project, hosts=[ROOTFUL], report=print)
    yield replace(fleet, states={**fleet.states, **{state.name: state for state in started}})
    if ROOTFUL not in before:
        practice.remove(fleet.project, hosts=[ROOTFUL], report=print)


@pytest.fixture
def empty(podman: Fleet) -> Iterator[Fleet]:
    """That host without any image, of root or of the user."""
    for host in (ROOTFUL, ROOTLESS):
        podman.ssh(host, WIPE)
    yield podman
    for host in (ROOTFUL, ROOTLESS):
        podman.ssh(host, WIPE)


def row(fleet: Fleet, host: str, **changes: object) -> Host:
    """An engine as a matrix names it."""
    found = Host(host, ssh=host, ssh_config=fleet.files.ssh_config, docker="podman", engine="podman")
    return replace(found, **changes)  # type: ignore[arg-type]


def ship(
    fleet: Fleet,
    made: Made,  # noqa: F811
    number: int,
    host: str,
    *,
    minimize: bool = False,
    **changes: object,
) -> tuple[Shipped, HostPlan]:
    """Ship a release, look into all of its files there; what came of it and what was planned before."""
    wanted = made.releases[number]
    with connected([row(fleet, host, **changes)]) as peers:
        (plan,) = plan_all(peers, [wanted], made.store, minimize=minimize)
        assert isinstance(plan, HostPlan), plan
        (shipped,) = ship_all(peers, [wanted], made.store, Silent(), lambda *_: None, minimize=minimize)
        assert shipped.code == 0, shipped
        assert verify_all(peers, [wanted], deep=True)[0].verdict.kind is Kind.OK
    assert shipped.verdict.shown == wanted.image.config
    assert fleet.ssh(host, "ls -A ~/.cache/sistership/stage; podman ps -aq 2>/dev/null") == ""
    return shipped, plan


def verdict(fleet: Fleet, release: Release, host: str, *, deep: bool = False) -> Verdict:
    """What verify says."""
    with connected([row(fleet, host)]) as peers:
        return verify_all(peers, [release], deep=deep)[0].verdict


def prune(fleet: Fleet, made: Made, current: Sequence[int], host: str) -> Pruned:  # noqa: F811
    """Remove what is old, when these releases are what the lock says."""
    releases = [made.releases[number] for number in current]
    ours = Ours({releases[0].reference: "difference"}, frozenset({releases[0].reference}), tuple(releases))
    with connected([row(fleet, host)]) as peers:
        return prune_all(peers, Older(ours, 0), Silent(), act=True)[0]


def names(fleet: Fleet, host: str) -> dict[str, str]:
    """Name → config digest, as Podman writes them."""
    listed = "podman images --no-trunc --format '{{.Repository}}:{{.Tag}} {{.Id}}' 2>/dev/null"
    rows = [line.split() for line in fleet.ssh(host, listed).splitlines()]
    return {name: f"sha256:{digest.removeprefix('sha256:')}" for name, digest in rows}


@pytest.mark.full
def test_ship_and_verify_rootless(empty: Fleet, made: Made) -> None:  # noqa: F811
    """Whole, to a user's own engine: the ID is the config digest, and the people's name is the one Podman gives it."""
    release = made.releases[1]
    shipped, plan = ship(empty, made, 1, ROOTLESS)
    assert (plan.store, states(plan)) == ("podman", ["send", "send", "send"])
    assert shipped.sent == plan.send == made.stored(1)
    assert names(empty, ROOTLESS) == dict.fromkeys((f"localhost/{NAME}", release.unique), release.image.config)


@pytest.mark.full
@both
def test_only_what_is_missing(empty: Fleet, made: Made, host: str) -> None:  # noqa: F811
    """A changed program costs its own layer; the image before it keeps a name for a rollback; then nothing is sent."""
    first, second = made.releases[1], made.releases[2]
    ship(empty, made, 1, host)
    shipped, plan = ship(empty, made, 2, host)
    assert states(plan) == ["have", "have", "send"]
    assert shipped.sent == plan.send < 10_000
    assert names(empty, host) == {
        f"localhost/{NAME}": second.image.config,
        second.unique: second.image.config,
        first.unique: first.image.config,
        f"localhost/{NAME.partition(':')[0]}:rollback-{first.image.config[7:19]}": first.image.config,
    }
    shipped, _ = ship(empty, made, 2, host)
    assert shipped.sent == 0
    pruned = prune(empty, made, [2], host)
    assert [fate.image.id for fate in pruned.going] == [first.image.config]
    assert not pruned.refused
    assert set(names(empty, host).values()) == {second.image.config}
    assert verdict(empty, second, host, deep=True).kind is Kind.OK


@pytest.mark.full
@both
def test_layers_that_came_in_another_form(empty: Fleet, made: Made, host: str) -> None:  # noqa: F811
    """What somebody loaded from an archive of Podman's has none of our blobs; its layers are not sent again either."""
    ship(empty, made, 1, host)
    # What it remembers of blobs, beyond the images that it has, goes as well.
    wipe = f"{WIPE}; rm -rf {STORES[host]}/../cache"
    again = f"podman save --format oci-archive {NAME} > ~/saved.tar && {{ {wipe}; podman load < ~/saved.tar; }}"
    empty.ssh(host, f"{again} 2>/dev/null; rm ~/saved.tar")
    assert set(names(empty, host).values()) == {made.releases[1].image.config}
    shipped, plan = ship(empty, made, 2, host)
    assert states(plan) == ["have", "have", "send"]
    assert shipped.sent < 10_000


@pytest.mark.full
@both
def test_layers_are_loaded_while_others_travel(
    empty: Fleet,
    made: Made,  # noqa: F811
    host: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lowest layers go ahead as an image of their own, which leaves no name; the rest is loaded upon them."""
    monkeypatch.setattr(batches, "LEAST", 1 << 20)
    loaded: list[str] = []
    load = early.load

    def counted(peer: Peer, assembly: early.Assembly, name: str = "", *, followed: bool = False) -> str:
        loaded.append(name)
        return load(peer, assembly, name, followed=followed)

    monkeypatch.setattr(early, "load", counted)
    release = made.releases[1]
    ship(empty, made, 1, host)
    assert loaded == ["", release.unique]
    assert names(empty, host) == dict.fromkeys((f"localhost/{NAME}", release.unique), release.image.config)


@pytest.mark.full
@both
def test_a_changed_library_costs_its_difference(empty: Fleet, made: Made, host: str) -> None:  # noqa: F811
    """The old bytes come out of a container that is made and removed; no layer has to be unpacked for it."""
    ship(empty, made, 0, host)
    shipped, plan = ship(empty, made, 1, host, minimize=True)
    assert states(plan)[:2] == ["have", "difference"]
    assert 0 < shipped.sent == plan.send < made.stored(1) / 100


@pytest.mark.full
@both
def test_a_lost_layer_is_found_and_mended(empty: Fleet, made: Made, host: str) -> None:  # noqa: F811
    """Podman makes a container of an image that lacks a layer; the proof finds it, and a ship mends it."""
    release = made.releases[1]
    ship(empty, made, 1, host)
    library = empty.ssh(ROOTFUL, f"ls {STORES[host]}/overlay/*/diff/{LIBRARY}").strip()
    empty.ssh(ROOTFUL, f"rm -r {library.removesuffix(f'/diff/{LIBRARY}')}")
    empty.ssh(host, f"podman create --pull never {NAME} /x 2>/dev/null && podman rm -a >/dev/null 2>&1")
    assert verdict(empty, release, host).kind is Kind.INCOMPLETE
    ship(empty, made, 1, host)


@pytest.mark.full
@both
def test_a_changed_file_is_found(empty: Fleet, made: Made, host: str) -> None:  # noqa: F811
    """A file changed on the host's disk keeps every ID; the deep look names it."""
    ship(empty, made, 1, host)
    empty.ssh(ROOTFUL, f"printf x >> {STORES[host]}/overlay/*/diff/{LIBRARY}")
    assert verdict(empty, made.releases[1], host).kind is Kind.OK
    assert f"/{LIBRARY}" in verdict(empty, made.releases[1], host, deep=True).why


@pytest.mark.full
@both
def test_prune_keeps_what_a_container_uses(empty: Fleet, made: Made, host: str) -> None:  # noqa: F811
    """A container, running or not, keeps its image whatever names have moved, and it is told by which."""
    ship(empty, made, 1, host)
    empty.ssh(host, f"podman create --pull never --network none --name worker {NAME} /app/bin/x 2>/dev/null")
    with connected([row(empty, host)]) as peers:
        (shipped,) = ship_all(peers, [made.releases[2]], made.store, Silent(), lambda *_: None)
    assert shipped.code == 0
    kept = {fate.image.id: fate.keep for fate in prune(empty, made, [2], host).fates}
    assert kept[made.releases[1].image.config] == "used by container worker"
    empty.ssh(host, "podman rm worker 2>/dev/null")
    assert prune(empty, made, [2], host).freed


@pytest.mark.full
@both
def test_read_back(empty: Fleet, made: Made, host: str) -> None:  # noqa: F811
    """What `diff` takes from a host: the image found by its name, saved whole, and one file of it."""
    ship(empty, made, 1, host)
    image, taken = made.releases[1].image, bytearray()
    with connected([row(empty, host)]) as (peer,):
        found = held(host, probe(peer), [NAME])
        assert (found.id, found.diff_ids) == (image.config, image.diff_ids)
        save(peer, found.id, taken.extend)
        assert image.config[7:].encode() in taken
        assert file_of(peer, found.id, "/app/bin/x") == b"one"
        assert file_of(peer, found.id, "/app/bin/y") is None


@pytest.mark.full
def test_ways_to_one_engine(empty: Fleet, made: Made) -> None:  # noqa: F811
    """By name, by socket and by sudo root's engine is one; the user's is another, and the same name means his image."""
    empty.ssh(ROOTFUL, "echo 'rootless ALL=(root) NOPASSWD: /usr/bin/podman' > /etc/sudoers.d/rootless")
    empty.ssh(
        ROOTFUL, f"podman system service --time 0 {SOCKET} </dev/null >/dev/null 2>&1 & echo $! > /run/practice.pid"
    )
    try:
        rows = [
            row(empty, ROOTFUL),
            row(empty, ROOTLESS),
            replace(row(empty, ROOTLESS, sudo=True), name="sudo"),
            replace(row(empty, ROOTFUL, docker_host=SOCKET), name="socket"),
        ]
        ship(empty, made, 1, ROOTLESS, sudo=True)
        with connected(rows) as peers:
            facts = {peer.name: probe(peer) for peer in peers}
            kinds = [each.verdict.kind for each in verify_all(peers, [made.releases[1]], deep=True)]
        assert kinds == [Kind.OK, Kind.MISSING, Kind.OK, Kind.OK]
        assert same_daemons(facts) == ((ROOTFUL, "sudo", "socket"),)
        shipped, plan = ship(empty, made, 2, ROOTFUL, docker_host=SOCKET)
        assert states(plan) == ["have", "have", "send"]
        assert shipped.sent < 10_000
    finally:
        empty.ssh(ROOTFUL, "rm -f /etc/sudoers.d/rootless; kill $(cat /run/practice.pid)")


@pytest.mark.full
@both
def test_by_registry(
    empty: Fleet,
    made: Made,  # noqa: F811
    running: Running,  # noqa: F811
    host: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pulled by digest with that user's own login: the same ID, only the usual names, and what is there is not fetched.

    Without a login it is told what to do there.
    """
    monkeypatch.setenv("DOCKER_CONFIG", running.docker_config(tmp_path / "docker"))
    monkeypatch.setenv("SSL_CERT_FILE", str(running.authority))
    road, trust = Road(Place(running.host, "team/podman")), f"/etc/containers/certs.d/{running.host}"
    empty.ssh(ROOTFUL, f"mkdir -p {trust} && cat > {trust}/ca.crt", stdin=running.authority.read_bytes())
    try:
        with connected([row(empty, host)]) as peers:
            (refused,) = ship_all(peers, [made.releases[1]], made.store, Silent(), lambda *_: None, road=road)
            assert refused.code == 21
            assert f"podman login {running.host}" in str(refused.error)
            login = f"podman login --username {USER} --password-stdin {running.host} 2>/dev/null"
            empty.ssh(host, login, stdin=running.password.encode())
            sent = []
            for wanted in made.releases[1:]:
                (shipped,) = ship_all(peers, [wanted], made.store, Silent(), lambda *_: None, road=road)
                assert (shipped.code, shipped.verdict.shown) == (0, wanted.image.config), shipped
                assert verify_all(peers, [wanted], deep=True)[0].verdict.kind is Kind.OK
                sent.append(shipped.sent)
        assert sent[0] == made.stored(1)
        assert 0 < sent[1] < 10_000
        assert {name.partition("/")[0] for name in names(empty, host)} == {"localhost", "sistership.local"}
    finally:
        empty.ssh(ROOTFUL, f"rm -rf {trust}")
        empty.ssh(host, f"podman logout {running.host} >/dev/null 2>&1 || true")
