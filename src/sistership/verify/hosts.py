"""Asks hosts what they hold, all at once, and gives each its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from sistership.errors import HostUnfitError, HostUnreachableError, SistershipError, worst
from sistership.host.answers import sections
from sistership.host.facts import HostFacts, facts_from, probe, probe_script
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.release import Release, by_variant, for_platform, same_platform
from sistership.matrix.cuda import runs_on
from sistership.verify.deep import differing_file
from sistership.verify.verdict import Kind, Proof, Verdict, candidate, is_ours, judge

T = TypeVar("T")

#: Seconds that a host may take to say what it holds and to make a container.
_PATIENCE = 180


@dataclass(frozen=True)
class HostVerdict:
    """One host's verdict on one release, with what it was drawn from."""

    host: str
    release: Release
    verdict: Verdict
    facts: HostFacts | None = None


def on_all(peers: Sequence[Peer], work: Callable[[Peer], T], *, jobs: int = 16) -> list[T]:
    """`work` on every peer, at most `jobs` at a time, results in the order of `peers`."""
    if not peers:
        return []
    with ThreadPoolExecutor(max_workers=min(jobs, len(peers)), thread_name_prefix="host") as pool:
        futures = [pool.submit(work, peer) for peer in peers]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # An interrupt: end the programs that the other threads wait for, or this pool never closes.
            for peer in peers:
                peer.transport.close()
            raise


def verify_all(
    peers: Sequence[Peer], releases: Sequence[Release], *, deep: bool = False, jobs: int = 16
) -> list[HostVerdict]:
    """Every variant on every peer, each host's platform deciding which of a variant's releases counts.

    One host's trouble is that host's verdict and stops no other.

    Args:
        deep: hash the files inside the image on the host too.
    """
    per_host = on_all(peers, lambda peer: verify_host(peer, releases, deep=deep), jobs=jobs)
    return [verdict for verdicts in per_host for verdict in verdicts]


def verify_host(peer: Peer, releases: Sequence[Release], *, deep: bool = False) -> list[HostVerdict]:
    """Every variant on one host; never raises for what is wrong there."""
    try:
        facts = probe(peer, [name for release in releases for name in release.names])
        return [
            HostVerdict(peer.name, release, verdict_on(peer, release, facts, deep=deep), facts)
            for release in (for_platform(group, facts.platform) for group in by_variant(releases))
        ]
    except SistershipError as error:
        verdict = from_error(error)
        return [HostVerdict(peer.name, group[0], verdict) for group in by_variant(releases)]


def from_error(error: SistershipError) -> Verdict:
    """The verdict on a host where something failed before there was one."""
    kinds = {HostUnreachableError: Kind.UNREACHABLE, HostUnfitError: Kind.UNFIT}
    kind = kinds.get(type(error), Kind.UNKNOWN)
    why = f"{error.what}: {error.why}" if error.why else error.what
    return Verdict(kind, why=why, hint=error.hint or "", code=error.code)


@dataclass(frozen=True)
class Seen:
    """A host as it was at one moment, and what was proven then.

    Attributes:
        proofs: image ID → whether a container can be made of it.
    """

    facts: HostFacts
    proofs: Mapping[str, Proof] = field(default_factory=dict)


def look(peer: Peer, references: Sequence[str], name: str) -> Seen:
    """A probe, and the proof for the image of one name, in one round trip.

    Args:
        references: see probe_script.
        name: whose image is to be proven; it need not be there.

    Raises:
        SistershipError: see probe.
    """
    script = f'{probe_script(peer.engine, references)}\nsec proof; prove_image {quote(name)} 2>&1; echo "status $?"'
    done = peer.transport.run(f"{script}\ntrue", timeout=_PATIENCE)
    facts = facts_from(peer, done)
    held = facts.tagged(name)
    said, _, status = sections(done.text).get("proof", "").rpartition("status ")
    return Seen(facts, {held.id: Proof(status.strip() == "0", said.strip())} if held else {})


def verdict_on(
    peer: Peer, release: Release, facts: HostFacts, *, deep: bool = False, proofs: Mapping[str, Proof] | None = None
) -> Verdict:
    """The verdict on one release, with a container made and removed as proof.

    Args:
        deep: where that says it is there, hash its files too.
        proofs: what was proven already, by image ID.
    """
    held = candidate(release, facts) if same_platform(facts.platform, release.image.platform) else None
    # Of an image that is another one nothing needs to be proven.
    ours = held is not None and is_ours(release, held, facts.store)
    proof = ((proofs or {}).get(held.id) or prove(peer, held.id)) if held and ours else None
    verdict = judge(release, facts, proof, gpus_without_code(peer, release))
    if deep and held and verdict.kind in (Kind.OK, Kind.TAG_MOVED):
        return looked_inside(peer, release, held.id) or verdict
    return verdict


def looked_inside(peer: Peer, release: Release, image_id: str) -> Verdict | None:
    """The verdict when a file inside the image is not as it was built; None when all are."""
    if not release.files:
        return Verdict(
            Kind.UNKNOWN,
            image_id,
            "the lock holds no hashes of the image's files",
            f"sistership build --variant {release.variant}",
        )
    path = differing_file(peer, image_id, release.files)
    if path is None:
        return None
    remove = f"{peer.engine.cli} {'images rm' if peer.engine.kind == 'containerd' else 'image rm -f'}"
    return Verdict(
        Kind.INCOMPLETE,
        image_id,
        f"the ID is right, but {path} is not as it was built",
        # An engine takes no layer that it has: only what nobody uses any more is written anew.
        f"there: {remove} {release.unique} {release.reference}, and all images that share its layers; "
        f"then sistership ship --variant {release.variant} --hosts {{host}}",
    )


def gpus_without_code(peer: Peer, release: Release) -> tuple[str, ...]:
    """Compute capabilities of the host, by the inventory, for which the image has no code."""
    if not release.archs:
        return ()
    return tuple(gpu for gpu in peer.host.gpu if not runs_on(release.archs, gpu))


def prove(peer: Peer, image_id: str) -> Proof:
    """Make a container from an image and remove it; it is never started."""
    done = peer.transport.run(f"{peer.engine.functions}\nprove_image {quote(image_id)}", timeout=120)
    return Proof(done.status == 0, done.text.strip())


def exit_code(verdicts: Sequence[HostVerdict]) -> int:
    """The exit code of a run over these verdicts."""
    return worst([verdict.verdict.exit_code for verdict in verdicts])
