"""The difference of a changed library, on real engines: bytes, fallback, and what comes after it."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from sistership.fleet import faults
from sistership.host.inventory import connected
from sistership.image.contents import file_hashes
from sistership.image.documents import image_of
from sistership.image.identity import Layer
from sistership.image.layout import Store
from sistership.image.pack import layer_of, pack
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.report.events import Event, Step
from sistership.report.listeners import Listener, Silent
from sistership.ship.plan import HostPlan
from sistership.ship.ship import Shipped, plan_all, ship_all
from sistership.verify.hosts import verify_all
from sistership.verify.verdict import Kind

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

ENGINES = ("classic20", "classic26", "containerd26")
NAME = "difference-sample:v1"
LIBRARY = "app/lib/liblarge.so.0"
SIZE = 16 << 20


class Steps(Listener):
    """Keeps what each host was said to do."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def tell(self, event: Event) -> None:
        """Note a step."""
        if isinstance(event, Step):
            self.said.append(f"{event.host}: {event.text}")


def layer(store: Store, instruction: str, files: dict[str, bytes], *, base: bool = False) -> Layer:
    """A layer with these files, in the store."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    data = out.getvalue()
    diff_id = "sha256:" + hashlib.sha256(data).hexdigest()
    return layer_of(pack(store, diff_id, len(data), lambda: iter([data])), base=base, created_by=instruction)


def release(store: Store, key: str, layers: Sequence[Layer]) -> Release:
    """An image of these layers, recorded in the store as a build does."""
    config: dict[str, Any] = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["x"]}}
    config["created"] = "2026-01-01T00:00:00Z"
    config["rootfs"] = {"type": "layers", "diff_ids": [each.diff_id for each in layers]}
    config["history"] = [{"created_by": each.created_by} for each in layers]
    document = json.dumps(config).encode()
    image, *manifests = image_of(document, layers)
    for each in (document, *manifests):
        store.add(each)
    store.record(key * 64, image, "2026-01-01T00:00:00Z")
    return Release("difference", key * 64, NAME, image, files=file_hashes(image, store), fields=config)


def changed(data: bytes, *, places: int = 30) -> bytes:
    """The same library after a patch release: some functions are others, and all behind them has moved."""
    pick, out = random.Random(places), bytearray(data)
    for at in sorted(pick.sample(range(len(out)), places), reverse=True):
        out[at : at + 300] = pick.randbytes(320)
    return bytes(out)


@dataclass(frozen=True)
class Made:
    """Three releases: the library changes from the first to the second, a small program from that to the third."""

    store: Store
    releases: tuple[Release, ...]

    def stored(self, number: int) -> int:
        """Bytes of a release in the store."""
        return sum(each.size for each in self.releases[number].image.layers)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The releases in a store of their own."""
    store = Store(tmp_path_factory.mktemp("difference") / "store")
    noise = random.Random(5)
    base = layer(store, "base layer 1", {"etc/large": noise.randbytes(2 << 20)}, base=True)
    old = noise.randbytes(SIZE)
    libraries = [layer(store, "COPY large", {LIBRARY: data}) for data in (old, changed(old))]
    programs = [layer(store, "COPY bin", {"app/bin/x": data}) for data in (b"one", b"two")]
    picks = ((0, 0), (1, 0), (1, 1))
    releases = tuple(
        release(store, key, [base, libraries[library], programs[program]])
        for key, (library, program) in zip("abc", picks, strict=True)
    )
    return Made(store, releases)


@pytest.fixture
def older(fleet: Fleet, made: Made, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The first release on the hosts of the test, and nothing else of ours on any."""
    forget(fleet)
    with connected(peers_of(fleet, request.param)) as peers:
        shipped = ship_all(peers, [made.releases[0]], made.store, Silent(), lambda *_: None)
        assert [each.code for each in shipped] == [0] * len(peers)
    yield fleet
    forget(fleet)


def forget(fleet: Fleet) -> None:
    """Remove the images of these tests and what was staged."""
    names = "docker images --format '{{.Repository}}:{{.Tag}}' | grep difference-sample"
    for host in ENGINES:
        fleet.ssh(host, f"{names} | xargs -r docker rmi -f >/dev/null; rm -rf ~/.cache/sistership/stage")


def peers_of(fleet: Fleet, names: Sequence[str]) -> list[Host]:
    """Practice hosts, as a matrix names them."""
    return [Host(name, ssh=name, ssh_config=fleet.files.ssh_config) for name in names]


def run(
    fleet: Fleet, made: Made, number: int, *, hosts: Sequence[str] = ENGINES, minimize: bool = False
) -> tuple[dict[str, Shipped], dict[str, HostPlan], list[str]]:
    """Ship a release; by host what came of it and what was planned before, and all that was said."""
    steps, wanted = Steps(), made.releases[number]
    with connected(peers_of(fleet, hosts)) as peers:
        plans = plan_all(peers, [wanted], made.store, minimize=minimize)
        shipped = ship_all(peers, [wanted], made.store, steps, lambda *_: None, minimize=minimize)
        for verdict in verify_all(peers, [wanted], deep=True):
            assert verdict.verdict.kind is Kind.OK, f"{verdict.host}: {verdict.verdict.why}"
    assert all(each.code == 0 for each in shipped), steps.said
    planned = {name: plan for name, plan in zip(hosts, plans, strict=True) if isinstance(plan, HostPlan)}
    assert len(planned) == len(hosts), plans
    return {each.host: each for each in shipped}, planned, steps.said


def states(plan: HostPlan) -> list[str]:
    """The plan's word for each layer."""
    return [each.state for each in plan.layers]


@pytest.mark.parametrize("older", [ENGINES], indirect=True, ids=["all"])
def test_changed_library_costs_its_difference(older: Fleet, made: Made) -> None:
    """Under 1 % of the stored bytes on every engine, known before, deep verification agrees; the next ship is small."""
    shipped, plans, said = run(older, made, 1, minimize=True)
    for host in ENGINES:
        assert plans[host].send == shipped[host].sent, said
        assert 0 < shipped[host].sent < made.stored(1) / 100
        assert states(plans[host])[1] == "difference"
    assert states(plans["containerd26"])[0] == "copy"
    assert states(plans["classic26"])[0] == "have"
    assert not [line for line in said if "whole" in line]
    image = made.releases[1].image
    shown = {host: each.verdict.shown for host, each in shipped.items()}
    assert shown == {"classic20": image.config, "classic26": image.config, "containerd26": image.manifest_plain}
    left = {host: older.ssh(host, "ls ~/.cache/sistership/stage; docker ps -aq") for host in ENGINES}
    assert set(left.values()) == {""}
    # What the containerd store has plain now is not sent again because it is there in no other form.
    shipped, plans, said = run(older, made, 2)
    for host in ENGINES:
        assert states(plans[host])[:2] == ["have", "have"]
        assert shipped[host].sent < 10_000


@pytest.mark.full
@pytest.mark.parametrize("older", [("classic20",)], indirect=True)
def test_wrong_old_bytes_mean_the_whole_layer(older: Fleet, made: Made) -> None:
    """An old library that was changed on the host's disk is found by the new one's sha256; told, and all is well."""
    host = "classic20"
    find = "docker image inspect -f '{{.GraphDriver.Data.LowerDir}}' " + NAME
    spoil = "dd if=/dev/zero bs=1M seek=3 count=1 conv=notrunc 2>/dev/null of="
    older.ssh(host, f'for d in $({find} | tr : " "); do [ ! -f $d/{LIBRARY} ] || {spoil}$d/{LIBRARY}; done')
    shipped, plans, said = run(older, made, 1, hosts=[host], minimize=True)
    assert states(plans[host])[1] == "difference"
    assert [line for line in said if "not as they were built" in line and "sending it whole" in line], said
    assert shipped[host].sent > made.stored(1) / 2


@pytest.mark.full
@pytest.mark.parametrize("older", [("classic26",)], indirect=True)
def test_the_link_decides(older: Fleet, made: Made) -> None:
    """At 100 Mbit/s the difference is taken without being asked for, at the speed of this machine the whole layer."""
    host = "classic26"
    with connected(peers_of(older, [host])) as peers:
        fast, *_ = plan_all(peers, [made.releases[1]], made.store)
    assert isinstance(fast, HostPlan)
    assert states(fast)[1] == "send"
    assert "sooner" in fast.layers[1].why
    with faults.shaped(host, "100mbit"):
        shipped, plans, _ = run(older, made, 1, hosts=[host])
    assert states(plans[host])[1] == "difference"
    assert shipped[host].sent < made.stored(1) / 100
