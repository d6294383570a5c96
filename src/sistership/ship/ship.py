"""Images to hosts, all at once. One host's failure is its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from sistership.errors import SistershipError, worst
from sistership.host.facts import probe
from sistership.host.inventory import Peer
from sistership.image.layout import Store
from sistership.image.release import Release, for_platform
from sistership.report.listeners import Reporter
from sistership.ship.difference import improved
from sistership.ship.have import known_manifests
from sistership.ship.host import Shipped, ship_host
from sistership.ship.plan import HostPlan
from sistership.ship.prune import Older
from sistership.ship.road import Road, plan_by, push_all
from sistership.ship.sound import Sound, check_store
from sistership.ship.twins import same_engines
from sistership.verify.hosts import on_all, verdict_on


def plan_all(
    peers: Sequence[Peer],
    group: Sequence[Release],
    store: Store,
    *,
    jobs: int = 16,
    road: Road | None = None,
    minimize: bool = False,
) -> list[HostPlan | SistershipError]:
    """The plan of every host, or why it has none. Changes nothing anywhere.

    Args:
        group: one variant's releases; each host gets that of its platform.
        road: by which they come; None: straight from here.
        minimize: as few bytes as possible, even where that takes longer.
    """
    known = known_manifests(store)

    def one(peer: Peer) -> HostPlan | SistershipError:
        try:
            facts = probe(peer, [name for release in group for name in release.names])
            release = for_platform(group, facts.platform)
            verdict = verdict_on(peer, release, facts)
            plan = plan_by(road, peer.name, release, facts, verdict, known)
            return improved(peer, release, facts, verdict, plan, store, minimize=minimize)
        except SistershipError as error:
            return error

    return on_all(peers, one, jobs=jobs)


def ship_all(
    peers: Sequence[Peer],
    group: Sequence[Release],
    store: Store,
    reporter: Reporter,
    ended: Callable[[Shipped, float], object],
    *,
    jobs: int = 16,
    older: Older | None = None,
    road: Road | None = None,
    minimize: bool = False,
) -> list[Shipped]:
    """Ship one variant to every host at once, to each the release of its platform.

    Args:
        ended: is told each host's end when it comes, with the seconds it took.
        older: what is removed of older images on each host that verifies; None: nothing.
        road: by which they come; None: straight from here.
        minimize: as few bytes as possible, even where that takes longer.

    Raises:
        ShipError: a blob of an image is missing in the store; nothing was sent. Or the registry refused the image; no
            host was touched.
        HostUnreachableError: the registry does not answer; no host was touched.
    """
    for release in group:
        check_store(release, store, deep=False)
    if road is not None:
        push_all(group, road, store, reporter)
    with Sound(store) as sound:

        def one(peer: Peer) -> Shipped:
            began = time.monotonic()
            shipped = ship_host(peer, group, store, reporter, older, road, minimize=minimize, sound=sound)
            ended(shipped, time.monotonic() - began)
            return shipped

        twins = same_engines(peers, reporter, jobs=jobs)
        results = on_all([peer for peer in peers if peer.name not in twins], one, jobs=jobs)
    by_name = {result.host: result for result in results}
    for name, first in twins.items():
        by_name[name] = replace(by_name[first], host=name, sent=0)
        ended(by_name[name], 0.0)
    return [by_name[peer.name] for peer in peers]


def exit_code(results: Sequence[Shipped]) -> int:
    """The exit code of a ship."""
    return worst([result.code for result in results])
