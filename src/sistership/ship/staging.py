"""Every layer that a load needs comes to lie on the host: sent, or made there of what the host has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sistership.host.facts import HostFacts
from sistership.host.inventory import Peer
from sistership.image.layout import Store
from sistership.image.release import Release, short
from sistership.report.listeners import Reporter
from sistership.report.words import mebibytes
from sistership.ship.difference_plan import whole
from sistership.ship.plan import Encoding, HostPlan, LayerPlan
from sistership.ship.remake import apply, copy
from sistership.ship.sound import Sound
from sistership.ship.stage import blob_of, send_layer


@dataclass(frozen=True)
class Staging:
    """How layers come to one host.

    Attributes:
        count: takes the bytes that are sent.
        sound: says what may be sent.
    """

    peer: Peer
    release: Release
    store: Store
    reporter: Reporter
    count: Callable[[int], None]
    sound: Sound

    def stage(self, plan: HostPlan, facts: HostFacts, otherwise: Callable[[], None]) -> tuple[HostPlan, int]:
        """Stage every layer that the archive needs; what the host cannot make of what it has is sent whole.

        Args:
            otherwise: is called before a layer comes otherwise than the plan says.

        Returns:
            The plan as it was carried out, and the image bytes sent.

        Raises:
            ShipError: a blob is damaged here, or a layer could not be written there.
            HostUnreachableError: the connection was cut; what has arrived stays.
        """
        sent = 0
        layers: list[LayerPlan] = []
        send = self._sender(plan, facts, otherwise)

        def send_whole(layer: LayerPlan, why: str) -> tuple[LayerPlan, int]:
            otherwise()
            text = f"layer {short(layer.layer.diff_id)} cannot be made there ({why}); sending it whole"
            self.reporter.step(self.peer.name, text)
            instead = whole(layer, plan.encoding, why)
            return instead, send(instead)

        self.sound.ahead(blob_of(layer) for layer in plan.layers if layer.state in {"send", "difference"})
        uncopied = copy(self.peer, plan)
        for layer in plan.layers:
            ready, new = layer, 0
            if layer.state == "copy" and uncopied:
                ready, new = send_whole(layer, uncopied)
            elif layer.state in {"send", "difference"} and not _checked(layer, facts):
                new = send(layer)
            sent += new
            if ready.difference and (why := apply(self.peer, plan, ready)):
                ready, new = send_whole(ready, why)
                sent += new
            layers.append(ready)
        self.reporter.step(self.peer.name, f"staged and checked, {mebibytes(sent)} sent")
        return replace(plan, layers=tuple(layers)), sent

    def _sender(self, plan: HostPlan, facts: HostFacts, otherwise: Callable[[], None]) -> Callable[[LayerPlan], int]:
        """Sends one layer, and returns the bytes sent."""
        done = 0

        def progress(size: int) -> None:
            nonlocal done
            done += size
            self.count(size)
            self.reporter.progress(self.peer.name, "sent", min(done, plan.send), plan.send)

        def send(layer: LayerPlan) -> int:
            if layer.difference or plan.encoding is Encoding.ZSTD:
                self.sound.passed(blob_of(layer), self.release)
            return send_layer(
                self.peer,
                self.store,
                layer,
                plan.encoding,
                offset=facts.staged.get(f"{layer.file}.part", 0),
                progress=progress,
                spoilt=otherwise,
            )

        return send


def _checked(layer: LayerPlan, facts: HostFacts) -> bool:
    """A difference that has its name was checked when it came; one that came to its last byte was not yet."""
    return layer.difference is not None and facts.staged.get(layer.file) == layer.size
