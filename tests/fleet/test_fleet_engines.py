"""Practice hosts with other engines than root's Docker, started on request: each is what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sistership import fleet as practice
from sistership.fleet import containers

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

HOSTS = ("podman", "docker26", "containerd")
#: A layer with the host's own shell and its libraries.
PACK = "tar c -h -C / bin/sh $(ldd /bin/sh | grep -o '/[^ ]*' | sed 's,^/,,') 2>/dev/null"
ROOTLESS = 'export DOCKER_HOST="unix:///run/user/$(id -u)/docker.sock";'
#: Alias → what runs a container of that layer there and removes all of it again.
RUNS = {
    "podman": ("podman", ""),
    "podman-rootless": ("podman", ""),
    "docker26": ("docker", ""),
    "docker26-rootless": ("docker", ROOTLESS),
}

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def others(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with these hosts; those that were not there before are gone afterwards."""
    before = set(containers.all_of_fleet(containers.connect()))
    states = practice.up(fleet.project, hosts=HOSTS, report=print)
    yield replace(fleet, states={**fleet.states, **{state.name: state for state in states}})
    if new := set(HOSTS) - before:
        practice.remove(fleet.project, hosts=new, report=print)
    assert set(containers.all_of_fleet(containers.connect())) == before


@pytest.mark.parametrize("alias", RUNS)
def test_runs_a_container(others: Fleet, alias: str) -> None:
    """With and without a network of its own, root's engine and a user's alike."""
    cli, before = RUNS[alias]
    run = f"{cli} run --rm {{}} localhost/fleet-test:1 /bin/sh -c 'echo hello'"
    script = f"{before} {PACK} | {cli} import - localhost/fleet-test:1 >/dev/null"
    try:
        for network in ("", "--network none"):
            assert others.ssh(alias, f"{script} && {run.format(network)}") == "hello\n"
    finally:
        others.ssh(alias, f"{before} {cli} rmi -f localhost/fleet-test:1 >/dev/null 2>&1; true")


def test_engines_are_those_of_the_specification(others: Fleet) -> None:
    """Versions and drivers are real ones, and `status` shows what `up` did."""
    shown = {state.name: str(state.engine) for state in practice.status() if state.name in HOSTS}
    assert shown == {name: str(others.states[name].engine) for name in HOSTS}
    assert shown["podman"].startswith("podman 5.4.")
    assert shown["podman"].endswith(" (overlay)")
    assert shown["docker26"].startswith("Docker 26.1.")
    assert shown["containerd"].startswith("containerd 1.7.")
    assert shown["containerd"].endswith(" (overlayfs)")


def test_a_users_engine_is_his_own(others: Fleet) -> None:
    """Rootless engines keep their images in the user's home and hold none of root's; root's docker is closed to him."""
    root, user = (
        others.ssh(alias, "podman info -f '{{.Host.Security.Rootless}} {{.Store.GraphRoot}}' 2>/dev/null")
        for alias in ("podman", "podman-rootless")
    )
    assert root == "false /var/lib/containers/storage\n"
    assert user == "true /home/rootless/.local/share/containers/storage\n"
    roots, users = (
        others.ssh(alias, f"{before} docker info -f '{{{{.ID}}}} {{{{.DockerRootDir}}}} {{{{.SecurityOptions}}}}'")
        for alias, before in (("docker26", ""), ("docker26-rootless", ROOTLESS))
    )
    assert roots.split()[0] != users.split()[0]
    assert "/home/rootless/" in users
    assert "name=rootless" in users
    assert "ermission denied" in others.ssh("docker26-rootless", "docker version 2>&1; true")


def test_nothing_else_is_there(others: Fleet) -> None:
    """Made from one root filesystem, each host has its own engine's programs alone."""
    programs = "for p in docker dockerd podman ctr; do command -v $p; done; true"
    found = {host: [line.split("/")[-1] for line in others.ssh(host, programs).split()] for host in HOSTS}
    assert found == {
        "podman": ["podman"],
        "docker26": ["docker", "dockerd", "ctr"],
        "containerd": ["ctr"],
    }


def test_they_boot_again(others: Fleet) -> None:
    """After the power was off every engine is back, those of users too."""
    for name in HOSTS:
        container = containers.find(containers.connect(), f"{containers.NETWORK}-{name}")
        assert container is not None
        container.kill()
    states = practice.up(others.project, hosts=HOSTS)
    assert {state.name for state in states if state.engine} == set(HOSTS)
