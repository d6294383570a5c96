"""A plan gets the differences that win, and else the reason why not; the link is measured where that matters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sistership.host.inventory import Peer
from sistership.ship import difference
from sistership.ship.difference import improved
from sistership.ship.difference_plan import NO_OLDER
from sistership.ship.plan import plan_host
from sistership.verify.verdict import Kind, Verdict

from .pair import MISSING, Pair, found, states


def test_plan_gets_a_difference_when_bytes_count(pair: Pair, peer: Peer) -> None:
    """Asked for few bytes, the library's layer is a difference, with what it replaces; it is in the store then."""
    facts = pair.facts()
    plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store, minimize=True)
    assert states(plan) == ["have", "difference", "send"]
    assert "whole it is 3.0 MiB" in plan.layers[1].why
    assert plan.layers[1].difference == found(pair)[pair.library.diff_id]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": ()}, NO_OLDER),
        ({"zstd": "1.4.4"}, "1.4.4"),
        ({"memory": 1 << 20}, "are free there"),
    ],
)
def test_plan_says_why_there_is_none(pair: Pair, peer: Peer, changes: dict[str, Any], words: str) -> None:
    """What stands against a difference is told with the layer that is sent whole."""
    facts = replace(pair.facts(), **changes)
    plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store, minimize=True)
    assert states(plan)[1] == "send"
    assert words in plan.layers[1].why


def test_store_that_lost_the_older_layer(pair: Pair, peer: Peer) -> None:
    """Without the old bytes here there is no difference, and no error either."""
    pair.store.path(pair.old_library.digest).unlink()
    pair.store.path(found(pair)[pair.library.diff_id].digest).unlink()
    facts = pair.facts()
    plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store, minimize=True)
    assert "has lost the older layer" in plan.layers[1].why


def test_incomplete_image_gets_everything_anew(pair: Pair, peer: Peer) -> None:
    """Where an image turned out incomplete, nothing that lies there is built upon."""
    facts = pair.facts()
    plan = plan_host("here", pair.release, facts, Verdict(Kind.INCOMPLETE))
    same = improved(peer, pair.release, facts, Verdict(Kind.INCOMPLETE), plan, pair.store, minimize=True)
    assert same == plan


def test_link_is_measured_once_and_only_where_it_matters(
    pair: Pair, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the speed that was found the layer is whole or a difference; the reason names it."""
    facts = pair.facts()
    for speed, state in ((2e5, "difference"), (117e6, "send")):
        asked: list[Peer] = []

        def measured(peer: Peer, size: int, speed: float = speed, asked: list[Peer] = asked) -> float:
            assert size < pair.library.size / 10
            asked.append(peer)
            return speed

        monkeypatch.setattr(difference, "link_speed", measured)
        plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store)
        assert states(plan)[1] == state
        assert asked == [peer]
    assert "at 111.6 MiB/s the whole layer is there sooner" in plan.layers[1].why


def test_speed_is_bounded(peer: Peer, stage: Path) -> None:
    """No link counts as faster than 1 Gbit/s, since so few bytes cannot tell."""
    for size in (1 << 16, 1 << 30):
        assert 0 < difference.link_speed(peer, size) <= 117e6 + 1
