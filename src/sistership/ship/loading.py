"""An image comes to one host straight from here: staged, then loaded, or loaded while it still comes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from sistership.errors import ShipError, SistershipError
from sistership.host.facts import HostFacts
from sistership.image.archive import pieces
from sistership.ship.batches import cuts, worth_loading_early
from sistership.ship.early import EarlyLoad
from sistership.ship.load import assemble, load, put
from sistership.ship.plan import HostPlan
from sistership.ship.stage import recheck_script
from sistership.ship.staging import Staging


def _nothing() -> None:
    """Nothing to wait for."""


@dataclass(frozen=True)
class Loading:
    """How an image comes into one host's engine; how its layers come there decides `staging`."""

    staging: Staging

    def step(self, text: str) -> None:
        """Tell a step of this host."""
        self.staging.reporter.step(self.staging.peer.name, text)

    def detail(self, text: str) -> None:
        """Tell the log alone."""
        self.staging.reporter.detail(f"{self.staging.peer.name}: {text}")

    def stage_and_load(self, plan: HostPlan, facts: HostFacts) -> tuple[HostPlan, int]:
        """Returns the plan as it was carried out, and image bytes sent."""
        staging = self.staging
        if not worth_loading_early(plan):
            arrived, sent = staging.stage(plan, facts, _nothing)
            self.load_staged(arrived)
            return arrived, sent
        early = EarlyLoad(staging.peer, staging.release, plan, staging.store, cuts(staging.release, staging.store))
        with early:
            arrived, sent = staging.stage(plan, facts, early.give_up)
            self.step("loading")
            trouble = early.wait()
        if trouble:
            self.detail(f"the load that began early did not end well ({trouble})")
            self.load_staged(arrived)
        else:
            self.detail(early.words)
        return arrived, sent

    def load_staged(self, plan: HostPlan) -> None:
        """Load from what is staged."""
        peer, release = self.staging.peer, self.staging.release
        self.step("loading")
        archive = pieces(
            release.image, self.staging.store, name=release.unique, plain=plan.plain, leave_out=plan.leave_out
        )
        try:
            assembly = assemble(archive, release, plan.encoding, plan.files)
            put(peer, assembly, release)
            words = load(peer, assembly, release.unique)
        except ShipError as error:
            self.recheck(plan)
            if not plan.leave_out:
                raise
            words = f"{error.what}: {error.why}"  # a layer thought to be there; verified and mended by the caller
        self.detail(words)

    def recheck(self, plan: HostPlan) -> None:
        """After a load that failed: remove what is staged and damaged since it was checked, so that it is sent anew.

        Sums are made of the bytes on their way to the disk: what the disk spoils is found here.
        """
        staged = [each for each in plan.layers if each.state != "have"]
        with contextlib.suppress(SistershipError):
            for name in self.staging.peer.transport.run(recheck_script(staged), timeout=3600).text.split():
                self.step(f"{name} was damaged in its staging folder and is removed; a ship sends it anew")
