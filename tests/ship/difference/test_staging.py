"""Differences on their way: cut, complete but not checked, or of no use, so that the whole layer is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sistership.host.facts import HostFacts
from sistership.host.inventory import Peer
from sistership.report.events import Event, Step
from sistership.report.listeners import Listener
from sistership.ship.plan import HostPlan
from sistership.ship.sound import Sound
from sistership.ship.stage import send_layer
from sistership.ship.staging import Staging

from .pair import NOISE, Pair, engine, never, planned, states


def staged(
    pair: Pair, peer: Peer, plan: HostPlan, facts: HostFacts, steps: Steps, otherwise: Callable[[], None] = never
) -> tuple[HostPlan, int]:
    """What a ship stages."""
    with Sound(pair.store) as sound:
        return Staging(peer, pair.release, pair.store, steps, lambda _: None, sound).stage(plan, facts, otherwise)


class Steps(Listener):
    """Keeps what is said of a host."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def tell(self, event: Event) -> None:
        """Note a step."""
        if isinstance(event, Step):
            self.said.append(event.text)


def test_layer_is_sent_whole_once_when_it_cannot_be_made(pair: Pair, peer: Peer, stage: Path, tmp_path: Path) -> None:
    """The fallback is told, its bytes count, and the engine is then fed from the whole layer's file."""
    engine(tmp_path, NOISE[:-5] + b"wrong")
    plan, steps = planned(pair, pair.facts()), Steps()
    otherwise: list[str] = []
    done, sent = staged(pair, peer, plan, pair.facts(), steps, lambda: otherwise.append("told"))
    assert otherwise == ["told"]
    assert sent == plan.send + pair.library.size
    assert states(done) == ["have", "send", "send"]
    assert done.files[pair.library.diff_id] == f"{pair.library.digest[7:]}.zst"
    assert (stage / done.files[pair.library.diff_id]).stat().st_size == pair.library.size
    assert [text for text in steps.said if "not as they were built" in text and "sending it whole" in text]


def test_cut_difference_goes_on_where_it_stopped(pair: Pair, peer: Peer, stage: Path) -> None:
    """The first half lies there: the plan counts the rest, only that is sent, and the sum is that of the whole."""
    each = planned(pair, pair.facts()).layers[1]
    assert each.difference is not None
    blob = pair.store.path(each.difference.digest).read_bytes()
    (stage / f"{each.file}.part").write_bytes(blob[:100])
    plan = planned(pair, pair.facts(staged={f"{each.file}.part": 100}))
    assert plan.layers[1].send == each.size - 100
    each, encoding = plan.layers[1], plan.encoding
    sent = send_layer(peer, pair.store, each, encoding, offset=100, progress=lambda _: None, spoilt=never)
    assert sent == len(blob) - 100
    assert (stage / each.file).read_bytes() == blob
    done = planned(pair, pair.facts(staged={each.file: len(blob)})).layers[1]
    assert (done.state, done.send) == ("difference", 0)
    made = planned(pair, pair.facts(staged={each.loads: pair.library.plain_size})).layers[1]
    assert (made.state, made.file, made.send) == ("staged", each.loads, 0)


@pytest.mark.parametrize("name", ["part", "short"])
def test_complete_part_of_a_difference_is_used(pair: Pair, peer: Peer, stage: Path, tmp_path: Path, name: str) -> None:
    """After a link that was cut before the check, or a power cut that left the checked file short; no whole layer."""
    engine(tmp_path, NOISE)
    each = planned(pair, pair.facts()).layers[1]
    assert each.difference is not None
    blob = pair.store.path(each.difference.digest).read_bytes()
    file, data = (f"{each.file}.part", blob) if name == "part" else (each.file, blob[:-10])
    (stage / file).write_bytes(data)
    facts = pair.facts(staged={file: len(data)})
    plan = planned(pair, facts)
    assert plan.layers[1].send == (0 if name == "part" else len(blob))
    done, sent = staged(pair, peer, plan, facts, Steps())
    assert (states(done), sent) == (states(plan), plan.send)
    assert (stage / each.loads).stat().st_size == pair.library.plain_size
    assert not list(stage.glob("*.part"))
