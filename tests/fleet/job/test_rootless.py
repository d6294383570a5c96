"""Two Docker engines on one host, root's and a rootless one of a user: each is shipped to by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sistership import fleet as practice
from sistership.fleet import containers
from sistership.host.facts import probe, same_daemons
from sistership.host.inventory import connected
from sistership.matrix.model import Host
from sistership.report.listeners import Silent
from sistership.ship.ship import ship_all
from sistership.verify.hosts import verify_all

from . import test_difference
from .test_difference import Made

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

made = test_difference.made
NAME = "docker26"
SOCKET = "unix:///run/user/1000/docker.sock"

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def two(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with that host, empty; if it was not there before, it is gone afterwards."""
    before = set(containers.all_of_fleet(containers.connect()))
    states = practice.up(fleet.project, hosts=[NAME], report=print)
    found = replace(fleet, states={**fleet.states, **{state.name: state for state in states}})
    forget(found)
    yield found
    forget(found)
    if NAME not in before:
        practice.remove(fleet.project, hosts=[NAME], report=print)


def forget(fleet: Fleet) -> None:
    """Remove the image of these tests from both engines."""
    for alias, words in ((NAME, "docker"), (f"{NAME}-rootless", f"docker --host {SOCKET}")):
        fleet.ssh(alias, f"{words} images -q | sort -u | xargs -r {words} rmi -f >/dev/null")


def row(fleet: Fleet, name: str, **changes: object) -> Host:
    """A host as a matrix names it."""
    return replace(Host(name, ssh=name, ssh_config=fleet.files.ssh_config), **changes)  # type: ignore[arg-type]


def test_each_engine_gets_its_own(two: Fleet, made: Made) -> None:
    """Shipped to the rootless engine alone, then to both; every file as it was built; they are told apart."""
    rootless = row(two, f"{NAME}-rootless", docker_host=SOCKET)
    rows = [row(two, NAME, docker_host="unix:///var/run/docker.sock"), rootless]
    for number, chosen in ((0, rows[1:]), (1, rows)):
        with connected(chosen) as peers:
            for each in ship_all(peers, [made.releases[number]], made.store, Silent(), lambda *_: None, minimize=True):
                assert each.code == 0, str(each.error)
    with connected(rows) as peers:
        found = verify_all(peers, [made.releases[1]], deep=True)
        assert [each.verdict.kind.value for each in found] == ["ok", "ok"]
        assert {each.verdict.shown for each in found} == {made.releases[1].image.config}
        facts = {peer.name: probe(peer) for peer in peers}
        assert same_daemons(facts) == ()
        assert facts[rootless.name].version.startswith("26.1.")
        # The first release was shipped to one of them alone.
        held = {name: {image.id for image in each.images} for name, each in facts.items()}
        assert held[rootless.name] - held[NAME] == {made.releases[0].image.config}


def test_the_user_is_led_to_his_engine(two: Fleet, made: Made) -> None:
    """None chosen, his command goes to root's, which is closed to him: exit 21 with the line that chooses his own."""
    with connected([row(two, f"{NAME}-rootless")]) as peers:
        (found,) = verify_all(peers, [made.releases[1]])
    assert found.verdict.code == 21
    assert f"docker_host: {SOCKET}" in found.verdict.hint
