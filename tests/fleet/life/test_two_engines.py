"""A host with two engines: the image must never land in the one that was not meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sistership.fleet import faults
from sistership.host.facts import probe, same_daemons
from sistership.host.inventory import connected
from sistership.matrix.model import Host

if TYPE_CHECKING:
    from tests.fleet.life.conftest import Life, Project

HOST = "classic26"
START = """
set -eu
uid=$(id -u plain); mkdir -p /run/user/$uid; chmod 755 /run/user/$uid
dockerd --data-root /var/lib/containerd/life --exec-root /run/life-exec --pidfile /opt/life/dockerd.pid \
  --config-file /dev/null -H unix:///run/user/$uid/docker.sock --iptables=false --bridge=none \
  >/opt/life/dockerd.log 2>&1 &
for i in $(seq 100); do
  docker -H unix:///run/user/$uid/docker.sock info >/dev/null 2>&1 && break; sleep 0.2
done
chown plain /run/user/$uid/docker.sock
docker -H unix:///run/user/$uid/docker.sock info --format "$uid {{.ID}}"
docker info --format '{{.ID}}'
"""
STOP = """
kill "$(cat /opt/life/dockerd.pid)" 2>/dev/null
for i in $(seq 50); do [ -e /opt/life/dockerd.pid ] || break; sleep 0.1; done
rm -rf "/run/user/$(id -u plain)" /run/life-exec /var/lib/containerd/life; true
"""


@pytest.fixture(scope="module")
def second(life: Life) -> Iterator[tuple[str, str, str]]:
    """A second engine that is `plain`'s own: its endpoint, its ID, and the ID of root's engine."""
    del life
    try:
        uid, own, roots = faults.run(HOST, ["sh", "-c", START]).split()
        yield f"unix:///run/user/{uid}/docker.sock", own, roots
    finally:
        faults.run(HOST, ["sh", "-c", STOP])


def test_none_chosen(shipped: Project, life: Life, second: tuple[str, str, str]) -> None:
    """Both running and none chosen: exit 21, both named with their daemon IDs (case C37)."""
    endpoint, own, roots = second
    shipped.hosts({"plain": f"{{ssh_config: {life.config()}}}"})
    found = shipped.verify("plain", code=21)["plain"]
    assert "several engines run there" in found["why"]
    assert own in found["why"]
    assert roots in found["why"]
    assert f"docker_host: {endpoint}" in found["next"]


@pytest.mark.parametrize("choice", ["docker_host", "context", "roots"])
def test_chosen(shipped: Project, life: Life, second: tuple[str, str, str], choice: str) -> None:
    """`docker_host:` and `context:` decide for inspect, load and proof alike; each engine holds what it was given."""
    endpoint, own, roots = second
    config = life.config()
    more = {
        "docker_host": f"docker_host: {endpoint}",
        "context": "context: own",
        "roots": "docker_host: unix:///var/run/docker.sock",
    }[choice]
    make = f"docker context rm -f own; docker context create own --docker host={endpoint}"
    faults.run(HOST, ["su", "plain", "-c", make])
    shipped.hosts({"plain": f"{{ssh_config: {config}, {more}}}"})
    if choice == "docker_host":
        assert shipped.verify("plain", code=22)["plain"]["verdict"] == "missing"
        shipped.run("ship", "--variant", "sample", "--hosts", "plain")
    found = shipped.verify("plain")["plain"]
    assert (found["verdict"], found["engine"]["id"]) == ("ok", roots if choice == "roots" else own)


def test_roots_engine_stopped(shipped: Project, life: Life, second: tuple[str, str, str]) -> None:
    """With root's engine stopped the refusal offers the other one instead of using it unasked."""
    endpoint, own, _ = second
    shipped.hosts({"plain": f"{{ssh_config: {life.config()}}}"})
    with faults.without_engine(HOST):
        found = shipped.verify("plain", code=21)["plain"]
    assert "another one does" in found["why"]
    assert own in found["why"]
    assert f"docker_host: {endpoint}" in found["next"]


def test_unknown_context(shipped: Project, life: Life) -> None:
    """A context that the host does not have is named, with the cure."""
    shipped.hosts({"fish": f"{{ssh_config: {life.config()}, context: nowhere}}"})
    found = shipped.verify("fish", code=21)["fish"]
    assert "no docker context of that name" in found["why"]


def test_platform_is_checked(shipped: Project, life: Life) -> None:
    """`platform:` of the matrix that the engine does not keep is refused."""
    shipped.hosts({"fish": f"{{ssh_config: {life.config()}, platform: linux/arm64}}"})
    found = shipped.verify("fish", code=21)["fish"]
    assert "the matrix says linux/arm64, its engine is linux/amd64" in found["why"]


def test_two_names_of_one_machine_are_noticed(life: Life) -> None:
    """Two inventory names of one engine are found by its daemon ID, other hosts are not taken for it (case C54)."""
    config, fleet = life.config(), life.fleet.files.ssh_config
    hosts = [Host("fish", ssh="fish", ssh_config=config), Host("tcsh", ssh="tcsh", ssh_config=config)]
    hosts += [Host(name, ssh=name, ssh_config=fleet) for name in ("classic20", "containerd26")]
    with connected(hosts) as peers:
        facts = {peer.name: probe(peer) for peer in peers}
    assert same_daemons(facts) == (("fish", "tcsh"),)
