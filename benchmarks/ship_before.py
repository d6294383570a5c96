"""Where a scenario begins: what hosts, and the registry, have of the benchmark's images."""

from __future__ import annotations

from collections.abc import Sequence

from ship_hosts import forget, keep_only
from ship_ours import ours
from ship_setup import Setup, registry_of
from ship_theirs import pulled, pushed

from sistership.fleet import faults


def back(setup: Setup, hosts: Sequence[str]) -> None:
    """Have the first release on the hosts, under all its names, and no other."""
    lacking = [host for host in hosts if not keep_only(host, setup.releases["first"])]
    if lacking:
        forget(lacking)
        ours(setup, "first", lacking)


def back_by_registry(setup: Setup, hosts: Sequence[str]) -> None:
    """As `back`, with the release in the registry as well, and pulled from there: engines share layers among those."""
    registry, first = registry_of(setup), setup.releases["first"]
    forget(hosts)
    registry.empty()
    pushed(setup, registry, first)
    pulled(setup, registry, first, hosts)
    for host in hosts:
        faults.run(host, ["docker", "tag", first.unique, first.reference])


def forget_by_registry(setup: Setup, hosts: Sequence[str]) -> None:
    """Nothing of the benchmark on the hosts and in the registry."""
    forget(hosts)
    registry_of(setup).empty()
