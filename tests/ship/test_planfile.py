"""A plan in a file holds, or says what moved."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from sistership.errors import LockError, UsageError
from sistership.ship import planfile

HOST = {
    "host": "a",
    "action": "load",
    "engine": {"version": "26.1.5", "store": "classic", "id": "ID"},
    "encoding": "zstd",
    "moves": None,
    "layers": [{"diff_id": "sha256:1", "state": "have"}, {"diff_id": "sha256:2", "state": "send", "send": 7}],
}
PLAN = {
    "version": 1,
    "kind": "plan",
    "type": "plan",
    "images": [{"variant": "v", "recipe": "r", "config": "c", "hosts": [HOST, {**HOST, "host": "b"}]}],
}


def changed(**values: object) -> dict:
    """The plan with another host a."""
    plan = copy.deepcopy(PLAN)
    plan["images"][0]["hosts"][0].update(values)
    return plan


def test_same_world_is_accepted() -> None:
    """An unchanged world, and one where more was staged meanwhile, keeps the plan."""
    planfile.require(PLAN, copy.deepcopy(PLAN), "plan.json")
    staged = [HOST["layers"][0], {"diff_id": "sha256:2", "state": "staged", "send": 0}]
    planfile.require(PLAN, changed(layers=staged), "plan.json")
    # What the engine has compressed it has, although a difference asks for it unpacked.
    copied = [{"diff_id": "sha256:1", "state": "copy"}, {"diff_id": "sha256:2", "state": "difference", "send": 1}]
    planfile.require(PLAN, changed(layers=copied), "plan.json")


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (changed(action="nothing"), "a: action was load, is nothing"),
        (changed(moves={"from": "x", "kept_as": "y"}), "a: moves was null"),
        (changed(engine={"version": "28.0.0", "store": "classic", "id": "ID"}), "28.0.0"),
        (changed(layers=[{**layer, "state": "send"} for layer in HOST["layers"]]), "a: it had 1 of the layers, has 0"),
        ({**PLAN, "images": [{**PLAN["images"][0], "config": "other"}]}, "v: another image"),
    ],
)
def test_moved_world_is_refused(now: dict, words: str) -> None:
    """Every change that a ship would notice refuses the plan and is named; exit 11."""
    with pytest.raises(LockError) as caught:
        planfile.require(PLAN, now, "plan.json")
    assert words in str(caught.value)
    assert caught.value.code == 11


def test_selection_and_pending() -> None:
    """A plan names its variants and hosts, and knows whether there is work."""
    assert planfile.selected(PLAN) == (["v"], ["a", "b"])
    assert planfile.pending(PLAN)
    done = copy.deepcopy(PLAN)
    for host in done["images"][0]["hosts"]:
        host["action"] = "nothing"
    assert not planfile.pending(done)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "plan", "version": 99}'])
def test_other_files_are_no_plans(tmp_path: Path, text: str) -> None:
    """A file that is no plan of this version is a usage error that says how to make one."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a plan"):
        planfile.load(path)
    with pytest.raises(UsageError, match="No such file"):
        planfile.load(tmp_path / "none.json")
    path.write_text(json.dumps(PLAN))
    assert planfile.load(path) == PLAN
