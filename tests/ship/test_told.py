"""A plan as an event."""

from __future__ import annotations

from sistership.host.facts import HostFacts
from sistership.image.identity import Image, Layer
from sistership.image.release import Release
from sistership.report.events import Plan
from sistership.ship.plan import plan_host
from sistership.ship.told import planned
from sistership.verify.verdict import Kind, Verdict


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


LAYERS = (
    Layer(digest("1"), digest("a"), 100, 300, base=True, created_by="base layer 1"),
    Layer(digest("2"), digest("b"), 50, 200, base=False, created_by="COPY lib"),
)
RELEASE = Release("sample", "9" * 64, "sample:v1", Image(digest("e"), "linux/amd64", digest("f"), digest("0"), LAYERS))
STAGED = {f"{'a' * 64}.zst": 100}
HOST = HostFacts(
    "26.1.5", "classic", "ID", "linux/amd64", 1 << 40, 1 << 40, False, STAGED, frozenset({"zstd", "gzip"}), ()
)


def test_figures_of_a_load() -> None:
    """Bytes, layers that lie there already, layers to send, disk."""
    plan = plan_host("gpu-a", RELEASE, HOST, Verdict(Kind.MISSING))
    told = planned(plan, RELEASE)
    assert told == Plan("gpu-a", "sample:v1", "load", 50, have=1, send=1, stage=plan.stage, engine=plan.disk)


def test_a_host_that_has_it_reuses_every_layer() -> None:
    """Nothing to do: all layers are there."""
    told = planned(plan_host("gpu-a", RELEASE, HOST, Verdict(Kind.OK)), RELEASE)
    assert (told.action, told.have, told.send, told.bytes) == ("nothing", 2, 0, 0)
