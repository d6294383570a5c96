"""Which layers are loaded together while others travel."""

from __future__ import annotations

import json

from sistership.image.documents import canonical_json, image_of
from sistership.image.identity import Layer
from sistership.image.prefix import prefix
from sistership.image.release import Release
from sistership.ship.batches import batches, name_of, worth_loading_early
from sistership.ship.plan import Action, Encoding, HostPlan, LayerPlan

MIB = 1 << 20


def plan_of(*layers: tuple[str, str, int, int]) -> tuple[HostPlan, Release]:
    """A plan of layers, each (digit, state, MiB to send, MiB unpacked), in the order of the image."""
    made = {
        digit: Layer(f"sha256:{digit * 64}", "", size * MIB, plain * MIB, False, "") for digit, _, size, plain in layers
    }
    image, *_ = image_of(canonical_json({"os": "linux", "architecture": "amd64"}), [made[each[0]] for each in layers])
    plans = {
        digit: LayerPlan(made[digit], state, "", size * MIB, size * MIB if state == "send" else 0)
        for digit, state, size, _ in layers
    }
    plan = HostPlan("h", Action.LOAD, Encoding.ZSTD, False, tuple(plans.values()), 0, 0, None, "classic", "26.1")
    return plan, Release("x", "0" * 64, "lan:5000/x:1", image)


def shape(*layers: tuple[str, str, int, int]) -> list[tuple[int, str]]:
    """Depth and layers of each load."""
    return [
        (batch.depth, "".join(sorted(diff_id[7] for diff_id in batch.layers))) for batch in batches(*plan_of(*layers))
    ]


def test_large_layer_is_loaded_while_a_large_one_travels() -> None:
    """And small ones go along with the next load."""
    assert shape(("a", "send", 33, 134), ("b", "send", 500, 900), ("c", "send", 1, 1)) == [(1, "a"), (3, "bc")]
    assert shape(("a", "send", 1, 1), ("b", "send", 50, 90), ("c", "send", 40, 90)) == [(2, "ab"), (3, "c")]


def test_nothing_is_gained_before_little() -> None:
    """Where little travels after a layer, or little was there before it, all are loaded at once."""
    assert shape(("a", "send", 500, 900), ("b", "send", 1, 1)) == [(2, "ab")]
    assert shape(("a", "send", 1, 2), ("b", "send", 500, 900)) == [(2, "ab")]


def test_layers_that_are_there_are_in_no_load() -> None:
    """What the engine has is left out; what is staged is loaded while others travel."""
    assert shape(("a", "have", 0, 900), ("b", "staged", 40, 90), ("c", "send", 50, 90)) == [(2, "b"), (3, "c")]


def test_layer_that_occurs_twice_is_loaded_once() -> None:
    """The same layer further up comes with the first."""
    assert shape(("a", "send", 40, 90), ("b", "send", 40, 90), ("a", "send", 40, 90)) == [(1, "a"), (3, "b")]


def test_a_small_ship_is_loaded_when_all_is_there() -> None:
    """Where little is sent it is there before a load could begin."""
    assert not worth_loading_early(plan_of(("a", "have", 0, 900), ("b", "send", 1, 1))[0])
    assert worth_loading_early(plan_of(("a", "send", 40, 90))[0])


def test_prefix_is_an_image_of_its_own() -> None:
    """The lowest layers with as much history; labels stay, since they say whose it is."""
    _, release = plan_of(("a", "send", 1, 1), ("b", "send", 1, 1), ("c", "send", 1, 1))
    history = [{"created_by": "base"}, {"created_by": "ENV", "empty_layer": True}, {"created_by": "one"}]
    history += [{"created_by": "CMD", "empty_layer": True}, {"created_by": "two"}]
    fields = {"os": "linux", "architecture": "amd64", "config": {"Labels": {"who": "x"}}, "history": history}
    fields["rootfs"] = {"type": "layers", "diff_ids": list(release.image.diff_ids)}
    cut = prefix(release.image, canonical_json(fields), 2)
    assert cut.image.layers == release.image.layers[:2]
    config = json.loads(cut.documents[cut.image.config])
    assert config["rootfs"]["diff_ids"] == list(release.image.diff_ids[:2])
    assert [line["created_by"] for line in config["history"]] == ["base", "ENV", "one", "CMD"]
    assert config["config"] == {"Labels": {"who": "x"}}
    manifest = json.loads(cut.documents[cut.image.manifest])
    assert [each["digest"] for each in manifest["layers"]] == [each.digest for each in cut.image.layers]
    assert name_of(release, cut) == f"sistership.local/lan-5000/x:{cut.image.config[7:19]}"
    assert prefix(release.image, canonical_json(fields), 1).image.config != cut.image.config
