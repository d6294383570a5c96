"""An image that stays broken although all of it was loaded: Podman takes no layer anew that it believes to have."""

from __future__ import annotations

from collections.abc import Callable

from sistership.host.inventory import Peer
from sistership.image.release import Release
from sistership.ship.load import give_name, remove_name
from sistership.verify.hosts import Seen, verdict_on
from sistership.verify.verdict import Kind, candidate


def load_anew(
    peer: Peer, release: Release, seen: Seen, load: Callable[[], object], step: Callable[[str], object]
) -> bool:
    """Remove a broken image by all of its names, load it again, and give the names back. Returns whether it was done.

    Measured with Podman 5.4: after the folder of a layer was lost the same archive loads without a word and mends
    nothing. Docker's stores and containerd's mend it.

    Args:
        seen: the host after everything was loaded.
        load: loads it again.
        step: is told.

    Raises:
        ShipError, HostUnreachableError: see `load`; the image could not be used before either.
    """
    held = candidate(release, seen.facts)
    if seen.facts.store != "podman" or held is None:
        return False
    verdict = verdict_on(peer, release, seen.facts, proofs=seen.proofs)
    if verdict.kind is not Kind.INCOMPLETE:
        return False
    step(f"its engine kept what was damaged ({verdict.why}); removing the image and loading it again")
    for name in held.tags:
        remove_name(peer, name)
    load()
    for name in held.tags:
        give_name(peer, held.id, name)
    return True
