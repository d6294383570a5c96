"""Images to hosts: lock, probe, plan, stage, load, verify, tag, clean up. One host's failure is its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sistership.errors import ShipError, SistershipError, worst
from sistership.host.facts import HostFacts, familiar, probe
from sistership.host.inventory import Peer
from sistership.image.archive import pieces
from sistership.image.layout import Store
from sistership.image.release import Release, for_platform, short
from sistership.report.events import Reporter, mebibytes
from sistership.ship.difference import apply, copy, improved, whole
from sistership.ship.have import known_manifests
from sistership.ship.leftovers import AGED
from sistership.ship.load import assemble, load, metadata_prefix, remove_name, tag
from sistership.ship.plan import Action, HostPlan, LayerPlan, plan_host
from sistership.ship.prune import Older, tidy
from sistership.ship.road import Road, plan_by, pull, push_all
from sistership.ship.stage import HostLock, clear_script, recheck_script, send_layer
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
        ShipError: a blob of an image is missing or damaged in the store; nothing was sent. Or the registry
            refused the image; no host was touched.
        HostUnreachableError: the registry does not answer; no host was touched.
    """

    def one(peer: Peer) -> Shipped:
        began = time.monotonic()
        shipped = ship_host(peer, group, store, reporter, older, road, minimize=minimize)
        ended(shipped, time.monotonic() - began)
        return shipped

    for release in group:
        # What goes to a registry is hashed while it is sent.
        check_store(release, store, deep=road is None)
    if road is not None:
        push_all(group, road, store, reporter)
    twins = same_engines(peers, reporter, jobs=jobs)
    results = on_all([peer for peer in peers if peer.name not in twins], one, jobs=jobs)
    by_name = {result.host: result for result in results}
    for name, first in twins.items():
        by_name[name] = replace(by_name[first], host=name, sent=0)
        ended(by_name[name], 0.0)
    return [by_name[peer.name] for peer in peers]


def check_store(release: Release, store: Store, *, deep: bool = True) -> None:
    """Refuse to send what is not whole here: a damaged blob is found by its checksum, never on a host."""
    broken = store.image_complete(release.image, deep=deep)
    if broken:
        raise ShipError(
            f"{len(broken)} of the image's blobs are missing or damaged in the store: {broken[0][7:19]} …",
            where=str(store.root),
            hint=f"sistership build --variant {release.variant} brings them back",
        )


def ship_host(
    peer: Peer,
    group: Sequence[Release],
    store: Store,
    reporter: Reporter,
    older: Older | None = None,
    road: Road | None = None,
    *,
    minimize: bool = False,
) -> Shipped:
    """Ship to one host; never raises for what is wrong there."""
    sent, release = 0, group[0]

    def count(size: int) -> None:
        nonlocal sent
        sent += size

    try:
        with HostLock(peer):
            facts = probe(peer, [name for each in group for name in each.names])
            release = for_platform(group, facts.platform)
            shipped = _locked(peer, release, facts, store, reporter, count, road, minimize=minimize)
            if older is not None and shipped.code == 0:
                tidy(peer, older, reporter)
            return shipped
    except SistershipError as error:
        reporter.step(peer.name, f"failed: {error.what}")
        return Shipped(peer.name, release, sent, from_error(error), error)
    except OSError as error:
        failed = ShipError("this machine failed while it sent", where=peer.name, why=str(error))
        reporter.step(peer.name, f"failed: {failed.what}: {failed.why}")
        return Shipped(peer.name, release, sent, from_error(failed), failed)


def _locked(
    peer: Peer,
    release: Release,
    facts: HostFacts,
    store: Store,
    reporter: Reporter,
    count: _Count,
    road: Road | None,
    *,
    minimize: bool,
) -> Shipped:
    found = facts
    before = verdict_on(peer, release, facts)
    plan = plan_by(road, peer.name, release, facts, before, known_manifests(store))
    tell = partial(reporter.step, peer.name)
    plan = improved(peer, release, facts, before, plan, store, minimize=minimize, tell=tell)
    reporter.tell(planned(plan, release))
    for step in plan.steps:
        reporter.step(peer.name, step)
    if plan.action is Action.NOTHING:
        _clear(peer, facts, release)
        return Shipped(peer.name, release, 0, before)
    sent = 0
    if plan.action is Action.LOAD and plan.source:
        sent = _pull(peer, release, plan, found, reporter, count)
    elif plan.action is Action.LOAD:
        if road is not None:
            check_store(release, store)
        sent = _load(peer, release, plan, facts, store, reporter, count)
    facts = _tag_verified(peer, release, plan, reporter)
    if plan.action is Action.LOAD and plan.source and pulled_name_goes(plan.source, release, found, facts):
        remove_name(peer, plan.source)
        facts = probe(peer, release.names)
    after = verdict_on(peer, release, facts)
    _clear(peer, facts, release)
    reporter.step(peer.name, f"verified: {after.kind}" if after.kind is Kind.OK else f"{after.kind}: {after.why}")
    return Shipped(peer.name, release, sent, after)


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


def _pull(peer: Peer, release: Release, plan: HostPlan, before: HostFacts, reporter: Reporter, count: _Count) -> int:
    """Have the host pull the image. Returns image bytes that it fetched.

    Args:
        before: the host before the pull.

    Raises:
        ShipError: layers that its engine had already turn out to be damaged; the tag was not moved.
    """
    fetched, shared = pull(peer, release, plan, reporter)
    count(fetched)
    reporter.step(peer.name, f"pulled, {mebibytes(fetched)} fetched")
    trouble = _trouble_after_partial(peer, release) if shared else None
    if trouble is not None:
        remove_name(peer, release.unique)
        if pulled_name_goes(plan.source, release, before, probe(peer, release.names)):
            remove_name(peer, plan.source)
        raise ShipError(
            "it is not whole although the pull went well; the tag was not moved",
            where=peer.name,
            why=trouble,
            hint=f"sistership ship --via direct --variant {release.variant} --hosts {peer.name}",
        )
    return fetched


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
    everything = plan_host(peer.name, release, facts, Verdict(Kind.INCOMPLETE))
    sent += _stage_and_load(peer, release, everything, facts, store, reporter, count)
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
    plan, sent = _stage(peer, plan, facts, store, reporter, count)
    reporter.step(peer.name, "loading")
    archive = pieces(release.image, store, name=release.unique, plain=plan.plain, leave_out=plan.leave_out)
    try:
        words = load(peer, assemble(archive, release, plan.encoding, plan.files), release.unique)
    except ShipError as error:
        _recheck(peer, plan, reporter)
        if not plan.leave_out:
            raise
        words = f"{error.what}: {error.why}"  # a layer that was thought to be there; verified and mended by the caller
    reporter.detail(f"{peer.name}: {words}")
    return sent


def _recheck(peer: Peer, plan: HostPlan, reporter: Reporter) -> None:
    """After a load that failed: remove what an earlier run staged and is damaged since, so that it is sent anew."""
    earlier = [each for each in plan.layers if each.state == "staged"]
    if not earlier:
        return
    with contextlib.suppress(SistershipError):
        for name in peer.transport.run(recheck_script(earlier), timeout=3600).text.split():
            reporter.step(peer.name, f"{name} was damaged in its staging folder and is removed; a ship sends it anew")


def _trouble_after_partial(peer: Peer, release: Release) -> str | None:
    """Why an image that was loaded in part is not whole; its files are hashed on the host, once."""
    verdict = verdict_on(peer, release, probe(peer, release.names), deep=bool(release.files))
    return None if verdict.kind in (Kind.OK, Kind.TAG_MOVED) else f"{verdict.kind}: {verdict.why}"


def _stage(
    peer: Peer, plan: HostPlan, facts: HostFacts, store: Store, reporter: Reporter, count: _Count
) -> tuple[HostPlan, int]:
    """Stage every layer that the archive needs; what the host cannot make of what it has is sent whole.

    Returns:
        The plan as it was carried out, and the image bytes sent.
    """
    total, done, sent = plan.send, 0, 0
    layers: list[LayerPlan] = []

    def progress(size: int) -> None:
        nonlocal done
        done += size
        count(size)
        reporter.progress(peer.name, "sent", min(done, total), total)

    def sent_whole(layer: LayerPlan, why: str) -> LayerPlan:
        reporter.step(peer.name, f"layer {short(layer.layer.diff_id)} cannot be made there ({why}); sending it whole")
        return send(whole(layer, plan.encoding, why))

    def send(layer: LayerPlan) -> LayerPlan:
        nonlocal sent
        offset = facts.staged.get(f"{layer.file}.part", 0)
        sent += send_layer(peer, store, layer, plan.encoding, offset=offset, progress=progress)
        return layer

    uncopied = copy(peer, plan)
    for layer in plan.layers:
        ready = layer
        if layer.state == "copy" and uncopied:
            ready = sent_whole(layer, uncopied)
        elif layer.state in {"send", "difference"}:
            # A difference that has its name was checked when it came; one that came to its last byte was not yet.
            ready = layer if facts.staged.get(layer.file) == layer.size and layer.difference else send(layer)
        if ready.difference and (why := apply(peer, plan, ready)):
            ready = sent_whole(ready, why)
        layers.append(ready)
    reporter.step(peer.name, f"staged and checked, {mebibytes(sent)} sent")
    return replace(plan, layers=tuple(layers)), sent


def _tag_verified(peer: Peer, release: Release, plan: HostPlan, reporter: Reporter) -> HostFacts:
    """Verify what was loaded under its unique name; only then move the people's tag.

    Raises:
        ShipError: it is not whole; the tag still points where it did.
    """
    facts = probe(peer, release.names)
    held = candidate(release, facts)
    verdict = verdict_on(peer, release, facts)
    if held is None or verdict.kind not in (Kind.OK, Kind.TAG_MOVED):
        _recheck(peer, plan, reporter)  # an engine that takes damaged bytes does not always say so
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
    """Remove what was staged for this image, or long ago; a failure here spoils nothing that was verified."""
    ours = metadata_prefix(release)
    digests = {layer.digest.removeprefix("sha256:") for layer in release.image.layers}
    digests |= {layer.diff_id.removeprefix("sha256:") for layer in release.image.layers}
    files = [name for name in facts.staged if name.split(".")[0] in digests or name.startswith(ours)]
    with contextlib.suppress(SistershipError):
        peer.transport.run(f"{clear_script(files)}\n{AGED}", timeout=60)


def exit_code(results: Sequence[Shipped]) -> int:
    """The exit code of a ship."""
    return worst([result.code for result in results])
