"""Engine 28, which no release of Debian has yet: it builds the image that 26 builds, and holds it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sistership import fleet as practice
from sistership.fleet import containers
from sistership.image.layout import Store
from sistership.image.readback import read_back

from .test_canonical_fleet import BASE, BASE_TREE, BUILDERS, ODD, ODD_TREE, RAW, build, canonical, packed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fleet.conftest import Fleet
    from tests.fleet.job.conftest import Project

#: Started on request alone: host → store.
LATER = {"docker28": "classic", "containerd28": "containerd"}

# Its packages are unpacked first where they never were.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


def ids() -> dict[str, str | None]:
    """Host → ID of its container, of every practice host there is."""
    return {name: made.id for name, made in containers.all_of_fleet(containers.connect()).items()}


@pytest.fixture(scope="module")
def later(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with both hosts of Engine 28; those that were not there before are gone afterwards."""
    before = ids()
    states = practice.up(fleet.project, hosts=LATER, report=print)
    yield replace(fleet, states={**fleet.states, **{state.name: state for state in states}})
    if new := set(LATER) - set(before):
        practice.remove(fleet.project, hosts=new, report=print)
        assert ids() == before


@pytest.fixture(scope="module")
def own(later: Fleet, project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A copy of the project whose sample is built and whose bases are in the store; its peers are the later hosts."""
    folder = tmp_path_factory.mktemp("later") / "job"
    shutil.copytree(project.folder, folder)
    path = folder / "buildmatrix.yaml"
    hosts = "hosts: {builder: {}, classic20: {}, containerd26: {}}"
    text = path.read_text()
    assert hosts in text
    rows = f"hosts: {{builder: {{}}, {', '.join(f'{name}: {{}}' for name in LATER)}}}"
    path.write_text(text.replace(hosts, rows).replace("[classic20, containerd26]", f"[{', '.join(LATER)}]"))
    environ = {**project.environ, "SISTERSHIP_STORE": str(folder / "store"), "SISTERSHIP_LOGS": str(folder / "logs")}
    made = replace(project, folder=folder, fleet=later, environ=environ)
    made.run("lock", "--variant", "sample", "--archive-bases")
    yield made
    for host in LATER:
        made.forget(host)


def test_engine_and_store(later: Fleet) -> None:
    """Asked for by name, both hosts run Engine 28 or later, one with each store, and `status` shows them."""
    shown = {state.name: state for state in practice.status()}
    for host, store in LATER.items():
        engine = later.states[host].engine
        assert engine is not None
        assert int(engine.version.split(".")[0]) >= 28
        assert engine.store == store
        assert shown[host] == later.states[host]


def test_odd_tree(later: Fleet, tmp_path: Path) -> None:
    """The odd tree built by 26 and by both stores of 28: one config digest, accepted when read back."""
    hosts = (BUILDERS[0], *LATER)
    digests = {}
    try:
        for host in hosts:
            later.ssh(host, f"docker import - {BASE} >/dev/null", stdin=packed(BASE_TREE))
            build(later, host, ODD, packed(ODD_TREE))
            store = Store(tmp_path / host)
            image = canonical(later, host, ODD, store, tmp_path)
            read_back(image, store)
            digests[host] = image.config
    finally:
        for host in hosts:
            later.ssh(host, f"docker rmi -f {BASE} {RAW} >/dev/null 2>&1; true")
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("host", LATER)
def test_reproduce(own: Project, host: str) -> None:
    """Without a registry the sample is built again by 28, the same as 26 built it; nothing stays on its engine."""
    held = "docker image ls --no-trunc --format '{{.Repository}}:{{.Tag}} {{.ID}}' | sort"
    before = own.fleet.ssh(host, held)
    done = own.run("reproduce", "--variant", "sample", "--builder", host, "--offline", "--json")
    told = done.json()
    assert (told["same"], told["differences"]) == (True, [])
    assert told["b"]["name"] == f"built on {host}"
    assert own.fleet.ssh(host, held) == before


def test_ship_and_verify(own: Project) -> None:
    """Shipped to both stores of 28, the sample has the identity that was predicted for each."""
    own.run("ship", "--variant", "sample", "--hosts", "peers")
    assert own.verify("--variant", "sample", "--hosts", "peers").verdicts() == dict.fromkeys(LATER, "ok")
