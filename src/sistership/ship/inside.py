"""Whether an image of which parts were on the host before is whole there: what lies inside says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from sistership.host.facts import probe
from sistership.host.inventory import Peer
from sistership.image.release import Release
from sistership.ship.settle import WHOLE
from sistership.verify.hosts import Seen, looked_inside, verdict_on
from sistership.verify.verdict import Proof


def look_inside(peer: Peer, release: Release) -> tuple[Seen, str]:
    """The host, and why an image of which parts were there before is not whole; "" when it is.

    Its files are hashed there while the host says what it holds. They come out of a container that the engine made
    of it, so that nothing else needs to prove that it can.
    """
    with ThreadPoolExecutor(1, thread_name_prefix=f"inside-{peer.name}") as pool:
        inside = pool.submit(looked_inside, peer, release, release.unique) if release.files else None
        facts = probe(peer, release.names)
        damage = inside.result() if inside else None
    held = facts.tagged(release.unique)
    seen = Seen(facts, {held.id: Proof(created=True)} if held and inside and not damage else {})
    verdict = verdict_on(peer, release, facts, proofs=seen.proofs)
    if damage and verdict.kind in WHOLE:
        verdict = damage
    return seen, "" if verdict.kind in WHOLE else f"{verdict.kind}: {verdict.why}"
