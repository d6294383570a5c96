"""Two names of one engine in an inventory: noticed before they get in each other's way."""

from __future__ import annotations

from collections.abc import Sequence

from sistership.errors import SistershipError
from sistership.host.facts import HostFacts, probe, same_daemons
from sistership.host.inventory import Peer
from sistership.report.listeners import Reporter
from sistership.verify.hosts import on_all


def same_engines(peers: Sequence[Peer], reporter: Reporter, *, jobs: int = 16) -> dict[str, str]:
    """Hosts that are another name of an engine asked before → that other host; each pair is told.

    Two names of one engine would meet in its lock, and one of them would fail for nothing.
    """
    if len(peers) < 2:  # noqa: PLR2004 - one host has no twin
        return {}

    def ask(peer: Peer) -> HostFacts | None:
        try:
            return probe(peer)
        except SistershipError:
            return None  # told when it is this host's turn

    found = zip((peer.name for peer in peers), on_all(peers, ask, jobs=jobs), strict=True)
    known = {name: facts for name, facts in found if facts is not None}
    twins: dict[str, str] = {}
    for first, *others in same_daemons(known):
        for other in others:
            twins[other] = first
            reporter.step(other, f"warning: the same engine as {first} ({known[first].daemon}); done there, once")
    return twins
