"""A ship to one host: plan, load or pull, verify, tag, clean up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sistership.errors import ShipError, SistershipError
from sistership.host.engines import BY_HAND
from sistership.host.facts import HostFacts, probe
from sistership.host.held import familiar
from sistership.host.inventory import Peer
from sistership.image.layout import Store
from sistership.image.release import Release, for_platform
from sistership.report.listeners import Reporter
from sistership.report.words import mebibytes
from sistership.ship.anew import load_anew
from sistership.ship.batches import cuts, name_of
from sistership.ship.difference import improved
from sistership.ship.have import known_manifests
from sistership.ship.hostlock import HostLock
from sistership.ship.inside import look_inside
from sistership.ship.load import remove_name
from sistership.ship.loading import Loading
from sistership.ship.plan import Action, HostPlan, plan_host
from sistership.ship.prune import Older, tidy
from sistership.ship.pulled import drop_pulled_name
from sistership.ship.road import Road, plan_by, pull
from sistership.ship.settle import WHOLE, clear, settle
from sistership.ship.sound import Sound
from sistership.ship.staging import Staging
from sistership.ship.told import planned
from sistership.verify.hosts import Seen, from_error, look, verdict_on
from sistership.verify.verdict import Kind, Verdict, candidate


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


def ship_host(
    peer: Peer,
    group: Sequence[Release],
    store: Store,
    reporter: Reporter,
    older: Older | None = None,
    road: Road | None = None,
    *,
    minimize: bool = False,
    sound: Sound | None = None,
) -> Shipped:
    """Ship to one host; never raises for what is wrong there.

    Args:
        sound: shared with other hosts, so that each blob is hashed once.
    """
    sent, release = 0, group[0]

    def count(size: int) -> None:
        nonlocal sent
        sent += size

    try:
        with contextlib.ExitStack() as opened:
            sound = sound or opened.enter_context(Sound(store))
            opened.enter_context(HostLock(peer))
            seen = look(peer, [name for each in group for name in each.names], release.unique)
            release = for_platform(group, seen.facts.platform)
            loading = Loading(Staging(peer, release, store, reporter, count, sound))
            here = _Host(peer, release, store, reporter, count, loading)
            shipped = here.ship(seen, road, minimize=minimize)
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


@dataclass(frozen=True)
class _Host:
    """One host that gets one image, while its lock is held."""

    peer: Peer
    release: Release
    store: Store
    reporter: Reporter
    count: Callable[[int], None]
    loading: Loading

    def step(self, text: str) -> None:
        self.reporter.step(self.peer.name, text)

    def look(self) -> Seen:
        return look(self.peer, self.release.names, self.release.unique)

    def ship(self, seen: Seen, road: Road | None, *, minimize: bool) -> Shipped:
        peer, release, facts = self.peer, self.release, seen.facts
        before = verdict_on(peer, release, facts, proofs=seen.proofs)
        plan = plan_by(road, peer.name, release, facts, before, known_manifests(self.store))
        plan = improved(peer, release, facts, before, plan, self.store, minimize=minimize, tell=self.step)
        self.reporter.tell(planned(plan, release))
        for step in plan.steps:
            self.step(step)
        if plan.action is Action.NOTHING:
            with contextlib.suppress(SistershipError):
                clear(peer, facts, release, self._ours(facts))
            return Shipped(peer.name, release, 0, before)
        sent, after = 0, seen
        if plan.action is Action.LOAD and plan.source:
            sent, after = self._pull(plan, facts)
        elif plan.action is Action.LOAD:
            sent, after = self._load(plan, facts)
        verdict = self._settle(plan, after)
        pulled = plan.action is Action.LOAD and bool(plan.source)
        if pulled and drop_pulled_name(peer, release, plan.source, facts):
            verdict = verdict_on(peer, release, probe(peer, release.names))
        self.step(f"verified: {verdict.kind}" if verdict.kind is Kind.OK else f"{verdict.kind}: {verdict.why}")
        return Shipped(peer.name, release, sent, verdict)

    def _ours(self, facts: HostFacts) -> list[str]:
        """Names of the image's lowest layers that a load gave on its way, this one or one that was killed."""
        here = {familiar(tag) for image in facts.images for tag in image.tags}
        try:
            names = [name_of(self.release, cut) for cut in cuts(self.release, self.store).values()]
        except SistershipError:  # a store without the image's config loads nothing on the way
            return []
        return [name for name in names if familiar(name) in here]

    def _forget(self, facts: HostFacts) -> None:
        """Remove an image that is not whole from the host, by every name that loading it gave."""
        for name in (self.release.unique, *self._ours(facts)):
            remove_name(self.peer, name)

    def _pull(self, plan: HostPlan, before: HostFacts) -> tuple[int, Seen]:
        """Have the host pull the image. Returns image bytes that it fetched, and the host afterwards.

        Raises:
            ShipError: layers that its engine had already turn out to be damaged; the tag was not moved.
        """
        peer, release = self.peer, self.release
        fetched, shared = pull(peer, release, plan, self.reporter)
        self.count(fetched)
        self.step(f"pulled, {mebibytes(fetched)} fetched")
        seen, trouble = look_inside(peer, release) if shared else (self.look(), "")
        if trouble:
            self._forget(seen.facts)
            drop_pulled_name(peer, release, plan.source, before)
            raise ShipError(
                "it is not whole although the pull went well; the tag was not moved",
                where=peer.name,
                why=trouble,
                hint=f"sistership ship --via direct --variant {release.variant} --hosts {peer.name}",
            )
        return fetched, seen

    def _load(self, plan: HostPlan, facts: HostFacts) -> tuple[int, Seen]:
        """Stage and load what the plan says; everything, once, when layers that were left out turn out to be missing.

        Returns:
            Image bytes sent, and the host afterwards.
        """
        peer, release = self.peer, self.release
        arrived, sent = self.loading.stage_and_load(plan, facts)
        if not plan.leave_out:
            seen = self.look()
            again = load_anew(peer, release, seen, lambda: self.loading.load_staged(arrived), self.step)
            return sent, self.look() if again else seen
        seen, trouble = look_inside(peer, release)
        if not trouble:
            return sent, seen
        self.step(f"incomplete after a partial load ({trouble}); sending everything")
        self._forget(seen.facts)
        facts = probe(peer, release.names)
        everything = plan_host(peer.name, release, facts, Verdict(Kind.INCOMPLETE))
        sent += self.loading.stage_and_load(everything, facts)[1]
        # The classic store keeps a layer that it has, damaged or not, as long as another image there uses it.
        seen, trouble = look_inside(peer, release)
        if trouble:
            self._forget(seen.facts)
            raise ShipError(
                "it is not whole although everything was sent; the tag was not moved",
                where=peer.name,
                why=trouble,
                hint="a layer in its engine's store is damaged: remove the images there that share it, and ship again",
            )
        return sent, seen

    def _settle(self, plan: HostPlan, seen: Seen) -> Verdict:
        """Verify what was loaded under its unique name; only then move the people's tag, and clean up.

        Raises:
            ShipError: it is not whole; the tag still points where it did.
        """
        peer, release = self.peer, self.release
        held = candidate(release, seen.facts)
        verdict = verdict_on(peer, release, seen.facts, proofs=seen.proofs)
        if verdict.kind is Kind.DIFFERENT and not seen.facts.tagged(release.unique):
            # What has the people's name is the older image: nothing was loaded.
            verdict = Verdict(Kind.MISSING, why="its engine told of no error, and has no such image")
        if held is None or verdict.kind not in WHOLE:
            self.loading.recheck(plan)  # an engine that takes damaged bytes does not always say so
            raise ShipError(
                f"after the load it is {verdict.kind}; the tag was not moved",
                where=peer.name,
                why=verdict.why or None,
                hint=f"ship again; if it stays so: {BY_HAND[peer.engine.kind]['remove']} {release.unique} there first",
            )
        moved = held.id if verdict.kind is Kind.TAG_MOVED else ""
        return settle(peer, release, plan, seen, moved, self._ours(seen.facts))
