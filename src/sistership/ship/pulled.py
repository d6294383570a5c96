"""What a pull leaves on a host besides the image's own names: a reference by digest, which goes where it may."""

from __future__ import annotations

from sistership.host.facts import HostFacts, probe
from sistership.host.held import familiar
from sistership.host.inventory import Peer
from sistership.image.release import Release
from sistership.ship.load import remove_name
from sistership.verify.verdict import candidate


def drop_pulled_name(peer: Peer, release: Release, source: str, before: HostFacts) -> bool:
    """Remove the reference by digest that a pull left, where it may go. Returns whether it is gone by this.

    Args:
        source: the reference.
        before: the host before the pull.

    Raises:
        HostUnreachableError, HostUnfitError, IdentityError: the host does not say what it holds.
    """
    goes = pulled_name_goes(source, release, before, probe(peer, release.names))
    if goes:
        remove_name(peer, source)
    return goes


def pulled_name_goes(source: str, release: Release, before: HostFacts, now: HostFacts) -> bool:
    """Whether the reference by digest that a pull leaves may be removed.

    Not where somebody had it before. Nor where the image has a tag in the same repository: the containerd store then
    removes every tag of that repository that names the image, the one that was just moved too (moby's image_delete).

    Args:
        before: the host before the pull.
        now: the host with the image.
    """
    wanted = familiar(source)
    if any(wanted in map(familiar, image.digests) for image in before.images):
        return False
    held = candidate(release, now)
    repositories = {familiar(name).rpartition(":")[0] for name in held.tags} if held else set()
    return wanted.partition("@")[0] not in repositories
