"""`--minimize bytes`, and how a plan with differences is shown."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from sistership.errors import UsageError
from sistership.image.difference import Difference
from sistership.image.identity import Image, Layer
from sistership.image.release import Release
from sistership.ship.difference_plan import NO_OLDER
from sistership.ship.plan import Action, Encoding, HostPlan, LayerPlan
from sistership.tasks import show
from sistership.tasks.planning import minimized, next_command

SCHEMA = Path(__file__).parents[2] / "schemas" / "plan.schema.json"


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


LAYERS = tuple(
    Layer(digest(letter), digest(letter), 70 << 20, 105 << 20, letter == "1", f"COPY {letter}") for letter in "1234"
)
RELEASE = Release("sample", "9" * 64, "sample:v1", Image(digest("e"), "linux/amd64", digest("f"), digest("0"), LAYERS))
SMALL = Difference(digest("8"), digest("2"), ("/app/lib.so",), "7" * 64, 104 << 20, 105 << 20, digest("6"), 300 << 10)
PLAN = HostPlan(
    host="gpu-a",
    action=Action.LOAD,
    encoding=Encoding.ZSTD,
    plain=True,
    layers=(
        LayerPlan(LAYERS[0], "copy", "", 0, 0, "its engine has it compressed", blob=digest("1")),
        LayerPlan(LAYERS[1], "difference", "x.patch", 300 << 10, 300 << 10, "whole it is 70.0 MiB", SMALL),
        LayerPlan(LAYERS[2], "send", "y.zst", 70 << 20, 70 << 20, "the host has no zstd"),
        LayerPlan(LAYERS[3], "send", "z.zst", 70 << 20, 70 << 20, NO_OLDER),
    ),
    disk=1,
    stage=2,
    moves=None,
    store="containerd",
    version="26.1.5",
)


def test_only_bytes_can_be_minimized() -> None:
    """Another word is a usage error, exit 2; the command that a plan ends with repeats the flag."""
    assert [minimized(None), minimized("bytes")] == [False, True]
    with pytest.raises(UsageError, match="only bytes") as caught:
        minimized("time")
    assert caught.value.code == 2
    assert next_command("x", None, None, minimize="bytes") == "sistership ship --variant x --minimize bytes"


def test_plan_shows_each_layer_with_its_reason() -> None:
    """What is sent of a layer, and below it why; where there was no older image nothing had to be chosen."""
    assert show.plan_text("gpu-a", PLAN).splitlines()[1:9] == [
        "  copy               0 B  111111111111  COPY 1",
        "                          its engine has it compressed",
        "  difference   300.0 KiB  222222222222  COPY 2",
        "                          whole it is 70.0 MiB",
        "  send          70.0 MiB  333333333333  COPY 3",
        "                          the host has no zstd",
        "  send          70.0 MiB  444444444444  COPY 4",
        "  disk: 2 B while staging, 1 B while loading",
    ]
    assert "send 140.3 MiB as zstd of 4 layers, 1 are there, 1 as a difference" in PLAN.steps


def test_plan_s_json_is_as_its_schema() -> None:
    """States and reasons are in the document, and in the schema."""
    image = {**show.release_json(RELEASE), "push": None, "hosts": [show.plan_json("gpu-a", PLAN)]}
    document = {"version": 1, "type": "plan", "kind": "plan", "exit": 0, "via": None, "minimize": "bytes"}
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate({**document, "images": [image]})
    layers = image["hosts"][0]["layers"]
    assert [layer["state"] for layer in layers] == ["copy", "difference", "send", "send"]
    assert layers[1]["why"] == "whole it is 70.0 MiB"
    (event,) = show.planned_events({"images": [image]})
    assert (event.have, event.send) == (1, 3)  # type: ignore[union-attr]
