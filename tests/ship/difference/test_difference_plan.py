"""Whether a host gets a difference, why not, and what its plan is with one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sistership.host.held import HeldImage
from sistership.ship.difference_plan import Older, older_image, plan_seconds, reason_against, unable
from sistership.ship.plan import Encoding, plan_host

from .pair import MISSING, ROOMY, Pair, image, planned, states


def test_older_image_is_the_tagged_one_else_the_newest(pair: Pair) -> None:
    """Only an image whose ID and layers are ours counts, and only with a layer that the same instruction made."""
    large = [pair.library]
    newer = image(pair.store, "c", [pair.old_library])
    other = HeldImage(newer.config, (), newer.diff_ids, "linux/amd64", {}, "")
    facts = pair.facts()
    images = [pair.old, newer, pair.release.image]
    assert older_image(pair.release, facts, images, large) == Older(pair.old.config, pair.old)
    both = replace(facts, images=(replace(facts.images[0], tags=()), other))
    assert older_image(pair.release, both, images, large) == Older(newer.config, newer)
    tagged = replace(facts, images=(*facts.images, other))
    assert older_image(pair.release, tagged, images, large) == Older(pair.old.config, pair.old)
    broken = replace(facts, images=(replace(facts.images[0], diff_ids=()),))
    assert older_image(pair.release, broken, images, large) is None
    assert older_image(pair.release, facts, images, [replace(pair.library, created_by="COPY elsewhere")]) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"zstd": "1.4.5"}, ""),
        ({"zstd": ""}, "no zstd"),
        ({"zstd": "1.4.4"}, "zstd there is 1.4.4, differences need 1.4.5"),
        ({"memory": None}, "not known"),
    ],
)
def test_host_has_to_be_able(changes: dict[str, Any], words: str) -> None:
    """No zstd, one before 1.4.5, or memory that nobody knows: the whole layer is sent, and the plan says why."""
    assert words in unable(replace(ROOMY, **changes))
    assert bool(words) == bool(unable(replace(ROOMY, **changes)))


def test_classic_store_keeps_what_it_has(pair: Pair) -> None:
    """Only the library's layer changes; what lies above it is sent as ever."""
    plan = planned(pair, pair.facts())
    assert states(plan) == ["have", "difference", "send"]
    assert (plan.plain, plan.encoding, plan.older) == (True, Encoding.ZSTD, pair.old.config)
    assert plan.send < 20_000
    assert plan.files[pair.library.diff_id] == f"{pair.library.diff_id[7:]}.tar"


def test_containerd_store_unpacks_its_own_blobs(pair: Pair) -> None:
    """One plain layer makes the whole manifest plain: what is there compressed is unpacked there, not sent."""
    plan = planned(pair, pair.facts("containerd"))
    assert states(plan) == ["copy", "difference", "copy"]
    assert plan.send == plan.layers[1].send
    assert plan.leave_out == frozenset()
    plan = planned(pair, pair.facts("containerd", plain=True))
    assert states(plan) == ["have", "difference", "have"]


def test_plain_blobs_there_make_the_next_plan_plain(pair: Pair) -> None:
    """After a difference the containerd store has plain blobs; without any, zstd ones are sent as before."""
    plan = pair.plan(pair.facts("containerd", plain=True))
    assert (states(plan), plan.plain) == (["have", "send", "have"], True)
    plan = pair.plan(pair.facts("containerd"))
    assert (states(plan), plan.plain) == (["have", "send", "have"], False)


def test_time_or_bytes_decide(pair: Pair) -> None:
    """A slow link takes the difference, a fast one the whole layer; when bytes count, the speed does not."""
    facts = pair.facts()
    plan, other = pair.plan(facts), planned(pair, facts)
    assert reason_against(plan, other, facts, 1e5) == ""
    assert "sooner" in reason_against(plan, other, facts, 117e6)
    assert reason_against(plan, other, facts, None) == ""
    assert "disk" in reason_against(plan, other, replace(facts, free=1000), None) or "needs" in reason_against(
        plan, other, replace(facts, stage_free=70 << 20), None
    )
    assert "unpacked" in reason_against(plan, plan, facts, None)
    assert plan_seconds(other, 1e6) > other.send / 1e6


def test_layer_made_by_a_ship_that_was_cut_is_used(pair: Pair) -> None:
    """A plain layer that lies there, checked, is not sent again in any form, on either store."""
    for store in ("classic", "containerd"):
        facts = pair.facts(store, staged={f"{pair.library.diff_id[7:]}.tar": pair.library.plain_size})
        plan = plan_host("here", pair.release, replace(facts, images=()), MISSING, {})
        assert (states(plan), plan.plain) == (["send", "staged", "send"], True)
