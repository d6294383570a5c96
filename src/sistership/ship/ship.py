"""Images to hosts: lock, probe, plan, stage, load, verify, tag, clean up. One host's failure is its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sistership.errors import ShipError, SistershipError, worst
from sistership.host.facts import HostFacts, probe
from sistership.host.inventory import Peer
from sistership.image.archive import pieces
from sistership.image.layout import Store
from sistership.image.release import Release, for_platform
from sistership.report.events import Reporter, mebibytes
from sistership.ship.have import known_manifests
from sistership.ship.load import assemble, load, metadata_prefix, remove_name, tag
from sistership.ship.plan import Action, HostPlan, plan_host
from sistership.ship.stage import HostLock, clear_script, send_layer
from sistership.ship.told import planned
from sistership.ship.twins import same_engines
from sistership.verify.hosts import from_error, on_all, verdict_on
from sistership.verify.verdict import Kind, Verdict, candidate

_Count = Callable[[int], None]


@dataclass(frozen=True)
class Shipped:
    """What a ship did on one host.

    Attributes:
        sent: image bytes sent.
        verdict: of the host afterwards.
        error: why it failed; None when it did not.
    """

    host: str
    release: Release
    sent: int
    verdict: Verdict
    error: SistershipError | None = None

    @property
    def code(self) -> int:
        """The host's exit code."""
        return self.error.code if self.error else self.verdict.exit_code


def plan_all(
    peers: Sequence[Peer], group: Sequence[Release], store: Store, *, jobs: int = 16
) -> list[HostPlan | SistershipError]:
    """The plan of every host, or why it has none. Changes nothing anywhere.

    Args:
        group: one variant's releases; each host gets that of its platform.
    """
    known = known_manifests(store)

    def one(peer: Peer) -> HostPlan | SistershipError:
        try:
            facts = probe(peer, [name for release in group for name in release.names])
            release = for_platform(group, facts.platform)
            return plan_host(peer.name, release, facts, verdict_on(peer, release, facts), known)
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
) -> list[Shipped]:
    """Ship one variant to every host at once, to each the release of its platform.

    Args:
        ended: is told each host's end when it comes, with the seconds it took.

    Raises:
        ShipError: a blob of an image is missing or damaged in the store; nothing was sent.
    """

    def one(peer: Peer) -> Shipped:
        began = time.monotonic()
        shipped = ship_host(peer, group, store, reporter)
        ended(shipped, time.monotonic() - began)
        return shipped

    for release in group:
        check_store(release, store)
    twins = same_engines(peers, reporter, jobs=jobs)
    results = on_all([peer for peer in peers if peer.name not in twins], one, jobs=jobs)
    by_name = {result.host: result for result in results}
    for name, first in twins.items():
        by_name[name] = replace(by_name[first], host=name, sent=0)
        ended(by_name[name], 0.0)
    return [by_name[peer.name] for peer in peers]


def check_store(release: Release, store: Store) -> None:
    """Refuse to send what is not whole here: a damaged blob is found by its checksum, never on a host."""
    broken = store.image_complete(release.image, deep=True)
    if broken:
        raise ShipError(
            f"{len(broken)} of the image's blobs are missing or damaged in the store: {broken[0][7:19]} …",
            where=str(store.root),
            hint=f"sistership build --variant {release.variant} brings them back",
        )


def ship_host(peer: Peer, group: Sequence[Release], store: Store, reporter: Reporter) -> Shipped:
    """Ship to one host; never raises for what is wrong there."""
    sent, release = 0, group[0]

    def count(size: int) -> None:
        nonlocal sent
        sent += size

    try:
        with HostLock(peer):
            facts = probe(peer, [name for each in group for name in each.names])
            release = for_platform(group, facts.platform)
            return _locked(peer, release, facts, store, reporter, count)
    except SistershipError as error:
        reporter.step(peer.name, f"failed: {error.what}")
        return Shipped(peer.name, release, sent, from_error(error), error)
    except OSError as error:
        failed = ShipError("this machine failed while it sent", where=peer.name, why=str(error))
        reporter.step(peer.name, f"failed: {failed.what}: {failed.why}")
        return Shipped(peer.name, release, sent, from_error(failed), failed)


def _locked(peer: Peer, release: Release, facts: HostFacts, store: Store, reporter: Reporter, count: _Count) -> Shipped:
    before = verdict_on(peer, release, facts)
    plan = plan_host(peer.name, release, facts, before, known_manifests(store))
    reporter.tell(planned(plan, release))
    for step in plan.steps:
        reporter.step(peer.name, step)
    if plan.action is Action.NOTHING:
        _clear(peer, facts, release)
        return Shipped(peer.name, release, 0, before)
    sent = 0
    if plan.action is Action.LOAD:
        sent = _load(peer, release, plan, facts, store, reporter, count)
    facts = _tag_verified(peer, release, plan)
    after = verdict_on(peer, release, facts)
    _clear(peer, facts, release)
    reporter.step(peer.name, f"verified: {after.kind}" if after.kind is Kind.OK else f"{after.kind}: {after.why}")
    return Shipped(peer.name, release, sent, after)


def _load(
    peer: Peer,
    release: Release,
    plan: HostPlan,
    facts: HostFacts,
    store: Store,
    reporter: Reporter,
    count: _Count,
) -> int:
    """Stage and load what the plan says; everything, once, when layers that were left out turn out to be missing.

    Returns:
        Image bytes sent.
    """
    sent = _stage_and_load(peer, release, plan, facts, store, reporter, count)
    if not plan.leave_out:
        return sent
    trouble = _trouble_after_partial(peer, release)
    if trouble is None:
        return sent
    reporter.step(peer.name, f"incomplete after a partial load ({trouble}); sending everything")
    remove_name(peer, release.unique)
    facts = probe(peer, release.names)
    whole = plan_host(peer.name, release, facts, Verdict(Kind.INCOMPLETE))
    sent += _stage_and_load(peer, release, whole, facts, store, reporter, count)
    # The classic store keeps a layer that it has, damaged or not, as long as another image there uses it.
    trouble = _trouble_after_partial(peer, release)
    if trouble is not None:
        remove_name(peer, release.unique)
        raise ShipError(
            "it is not whole although everything was sent; the tag was not moved",
            where=peer.name,
            why=trouble,
            hint="a layer in its engine's store is damaged: remove the images there that share it, and ship again",
        )
    return sent


def _stage_and_load(
    peer: Peer,
    release: Release,
    plan: HostPlan,
    facts: HostFacts,
    store: Store,
    reporter: Reporter,
    count: _Count,
) -> int:
    sent = _stage(peer, plan, facts, store, reporter, count)
    reporter.step(peer.name, "loading")
    archive = pieces(release.image, store, name=release.unique, plain=plan.plain, leave_out=plan.leave_out)
    try:
        words = load(peer, assemble(archive, release, plan.encoding))
    except ShipError as error:
        if not plan.leave_out:
            raise
        words = f"{error.what}: {error.why}"  # a layer that was thought to be there; verified and mended by the caller
    reporter.detail(f"{peer.name}: {words}")
    return sent


def _trouble_after_partial(peer: Peer, release: Release) -> str | None:
    """Why an image that was loaded in part is not whole; its files are hashed on the host, once."""
    verdict = verdict_on(peer, release, probe(peer, release.names), deep=bool(release.files))
    return None if verdict.kind in (Kind.OK, Kind.TAG_MOVED) else f"{verdict.kind}: {verdict.why}"


def _stage(peer: Peer, plan: HostPlan, facts: HostFacts, store: Store, reporter: Reporter, count: _Count) -> int:
    total, done, sent = plan.send, 0, 0

    def progress(size: int) -> None:
        nonlocal done
        done += size
        count(size)
        reporter.progress(peer.name, "sent", min(done, total), total)

    for layer in plan.layers:
        if layer.state == "send":
            offset = facts.staged.get(f"{layer.file}.part", 0)
            sent += send_layer(peer, store, layer, plan.encoding, offset=offset, progress=progress)
    reporter.step(peer.name, f"staged and checked, {mebibytes(sent)} sent")
    return sent


def _tag_verified(peer: Peer, release: Release, plan: HostPlan) -> HostFacts:
    """Verify what was loaded under its unique name; only then move the people's tag.

    Raises:
        ShipError: it is not whole; the tag still points where it did.
    """
    facts = probe(peer, release.names)
    held = candidate(release, facts)
    verdict = verdict_on(peer, release, facts)
    if held is None or verdict.kind not in (Kind.OK, Kind.TAG_MOVED):
        raise ShipError(
            f"after the load it is {verdict.kind}; the tag was not moved",
            where=peer.name,
            why=verdict.why or None,
            hint="ship again; if it stays so: docker image rm " + release.unique + " there first",
        )
    if verdict.kind is Kind.TAG_MOVED:
        tag(peer, release, plan, held.id)
        facts = probe(peer, release.names)
    return facts


def _clear(peer: Peer, facts: HostFacts, release: Release) -> None:
    """Remove what was staged for this image; a failure here spoils nothing that was verified."""
    ours = metadata_prefix(release)
    digests = {layer.digest.removeprefix("sha256:") for layer in release.image.layers}
    digests |= {layer.diff_id.removeprefix("sha256:") for layer in release.image.layers}
    files = [name for name in facts.staged if name.split(".")[0] in digests or name.startswith(ours)]
    with contextlib.suppress(SistershipError):
        peer.transport.run(clear_script(files), timeout=60)


def exit_code(results: Sequence[Shipped]) -> int:
    """The exit code of a ship."""
    return worst([result.code for result in results])
