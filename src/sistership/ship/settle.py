"""What was loaded becomes what people run: verified under its unique name, then tagged, then cleaned up after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sistership.errors import ShipError
from sistership.host.facts import HostFacts, facts_from, probe_script
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.release import Release
from sistership.ship.leftovers import AGED
from sistership.ship.load import metadata_prefix
from sistership.ship.plan import HostPlan
from sistership.ship.stage import clear_script
from sistership.verify.hosts import Seen, verdict_on
from sistership.verify.verdict import Kind, Verdict

#: The verdicts on an image that is whole under its unique name; the people's tag is the next step.
WHOLE = (Kind.OK, Kind.TAG_MOVED)


def tag_script(release: Release, plan: HostPlan, loaded_id: str) -> str:
    """Keep the old image under its rollback tag, then move the people's tag.

    In this order: the containerd store before Engine 28.1 loses an image whose last tag is moved away.
    A rollback tag that the old image has from an earlier time is made anew: the engine's time of it tells which image
    was replaced last, and the containerd store of Engine 26.1 keeps the time of a tag that does not move.
    """
    loaded, reference = quote(loaded_id), quote(release.reference)
    keep = ":"
    if plan.moves:
        name = quote(plan.moves[1])
        anew = f'[ "$(image_id {name})" != "$old" ] || drop_name {name} >/dev/null 2>&1'
        keep = f'{anew}; tag_image "$old" {name} || exit {_UNTAGGED}'
    return f"""
old=$(image_id {reference})
[ -z "$old" ] || [ "$old" = {loaded} ] || {{ {keep}; }}
tag_image {loaded} {quote(release.unique)} && tag_image {loaded} {reference} || exit {_UNTAGGED}
"""


_UNTAGGED = 5


def settle(peer: Peer, release: Release, plan: HostPlan, seen: Seen, moved: str, ours: Sequence[str]) -> Verdict:
    """Move the people's tag to an image that was verified, remove what a ship left, and verify, in one round trip.

    Args:
        seen: the host with the image, which is whole.
        moved: ID there that the tag has to move to; "": it is there already.
        ours: names of ours that go: of the image's lowest layers.

    Raises:
        ShipError: the engine refused a tag.
    """
    script = f"{peer.engine.functions}\n{tag_script(release, plan, moved) if moved else ''}"
    script += f"(\n{cleaning(seen.facts, release, ours)}\n) >/dev/null 2>&1\n{probe_script(peer.engine, release.names)}"
    done = peer.transport.run(script, timeout=180)
    if done.status == _UNTAGGED:
        why = done.err.strip()[-200:] or None
        raise ShipError(f"the tag {release.reference} could not be moved", where=peer.name, why=why)
    return verdict_on(peer, release, facts_from(peer, done), proofs=seen.proofs)


def clear(peer: Peer, facts: HostFacts, release: Release, ours: Sequence[str]) -> None:
    """Remove what was staged for this image, or long ago, and names of ours; a failure here spoils nothing."""
    peer.transport.run(f"{peer.engine.functions}\n{cleaning(facts, release, ours)}\ntrue", timeout=120)


def cleaning(facts: HostFacts, release: Release, ours: Iterable[str]) -> str:
    """Shell that removes what was staged for an image, or long ago, and names of ours that exist.

    Args:
        facts: the host before it; what was staged since is removed as well.
        ours: see settle.
    """
    names = [f"drop_name {quote(name)}" for name in ours]
    return "\n".join([clear_script(staged_for(facts, release)), *names, AGED])


def staged_for(facts: HostFacts, release: Release) -> list[str]:
    """Names in the staging folder that belong to an image."""
    known = metadata_prefix(release)
    digests = {layer.digest.removeprefix("sha256:") for layer in release.image.layers}
    digests |= {layer.diff_id.removeprefix("sha256:") for layer in release.image.layers}
    return [name for name in facts.staged if name.split(".")[0] in digests or name.startswith(known)]
