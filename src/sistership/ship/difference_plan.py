"""Whether a host gets differences in place of whole layers, and its plan with them. Pure.

An older image of ours on the host has the old version of a large library; what a host makes of it is a plain layer, so
the whole archive takes the plain form, whose manifest is known. On the containerd store the other layers are then
needed plain too: the host unpacks its engine's own blobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from packaging.version import Version

from sistership.errors import HostUnfitError
from sistership.host.answers import parse_version
from sistership.host.facts import HostFacts
from sistership.image.difference import Difference
from sistership.image.identity import Image, Layer
from sistership.image.release import Release, same_platform, short
from sistership.report.words import mebibytes
from sistership.ship.plan import (
    Encoding,
    HostPlan,
    LayerPlan,
    arranged,
    check_disk,
    encoding_for,
    layer_plans,
    staged_name,
)
from sistership.verify.verdict import expected_ids

#: The first zstd program that knows --patch-from.
PATCH_SINCE: Final = Version("1.4.5")
#: Bytes a second at which this machine makes a difference, and at which a host reads the old files, makes the layer
#: and hashes it, or unpacks a blob of its own engine and gives it back to it (measured with CUDA libraries of 105 and
#: 749 MB on 2 busy cores).
MAKE: Final = 50e6
_APPLY: Final = 100e6
_COPY: Final = 60e6
_APPLY_FIXED: Final = 0.5  # seconds for the container

NO_OLDER: Final = "no older image of ours with such a layer is there"


@dataclass(frozen=True)
class Older:
    """An image of ours that a host holds.

    Attributes:
        held: its ID there.
        image: what it is.
    """

    held: str
    image: Image

    def counterpart(self, layer: Layer) -> Layer | None:
        """Its version of a layer: the very layer, or the one that the same instruction made."""
        same = [each for each in self.image.layers if each.diff_id == layer.diff_id]
        made = [each for each in self.image.layers if (each.created_by, each.base) == (layer.created_by, layer.base)]
        return next(iter(same + made), None)

    def blobs(self, store: str) -> dict[str, str]:
        """diffID → digest of the zstd blobs that the engine keeps of it: the containerd store does."""
        if store != "containerd" or self.held != self.image.manifest:
            return {}
        return {layer.diff_id: layer.digest for layer in self.image.layers}


def older_image(release: Release, facts: HostFacts, images: Sequence[Image], large: Sequence[Layer]) -> Older | None:
    """The image of ours on a host that is most like the new one: that under people's name, else the newest. Pure.

    Args:
        images: what we know, oldest first.
        large: the layers that it should have an older version of.
    """
    tagged = facts.tagged(release.reference)
    found: list[tuple[bool, int, Older]] = []
    for age, image in enumerate(images):
        held = next((each for each in facts.images if each.id in expected_ids(image, facts.store)), None)
        if held is None or held.diff_ids != image.diff_ids or image.config == release.image.config:
            continue
        older = Older(held.id, image)
        if same_platform(image.platform, release.image.platform) and any(map(older.counterpart, large)):
            found.append((tagged is not None and tagged.id == held.id, age, older))
    return max(found, key=lambda each: each[:2])[2] if found else None


def unable(facts: HostFacts) -> str:
    """Why a host cannot use any difference; "" when it can."""
    if not facts.zstd:
        return "the host has no zstd"
    if parse_version(facts.zstd) < PATCH_SINCE:
        return f"zstd there is {facts.zstd}, differences need {PATCH_SINCE}"
    return "its free memory is not known" if facts.memory is None else ""


def too_little_memory(facts: HostFacts, size: int) -> str:
    """Why a host cannot unpack something that takes so many bytes of memory; "" when it can."""
    if (facts.memory or 0) >= size:
        return ""
    return f"unpacking takes {mebibytes(size)} of memory, {mebibytes(facts.memory or 0)} are free there"


def apply_seconds(new: Layer, difference: Difference | None) -> float:
    """Seconds that a host needs to make the layer of a difference, about."""
    base = difference.base_size if difference else new.plain_size
    return _APPLY_FIXED + max(new.plain_size, base) / _APPLY


def plan_seconds(plan: HostPlan, speed: float) -> float:
    """Seconds until everything is staged, about, over a link of `speed` bytes a second."""
    total = plan.send / speed
    for each in plan.layers:
        if each.difference:
            total += apply_seconds(each.layer, each.difference)
        elif each.state == "copy":
            total += each.layer.plain_size / _COPY
    return total


def with_differences(
    plan: HostPlan,
    release: Release,
    facts: HostFacts,
    older: Older,
    found: Mapping[str, Difference],
    had: frozenset[str],
) -> HostPlan:
    """The plan in its plain form, with these differences, and with copies of what the engine has compressed. Pure.

    Args:
        had: diffIDs of the layers that the engine holds plain.
    """
    encoding, _ = encoding_for(facts, plain=True)
    blobs = older.blobs(facts.store)
    reasons = {each.layer.diff_id: each.why for each in plan.layers}
    layers: list[LayerPlan] = []
    for each in layer_plans(release, encoding, facts.staged, had, plain=True):
        key = each.layer.diff_id
        if each.state == "send" and key in found:
            layers.append(_as_difference(each, found[key], older, facts.staged))
        elif each.state == "send" and key in blobs:
            why = "its engine has it compressed, and unpacked it is needed"
            layers.append(replace(each, state="copy", file="", size=0, send=0, blob=blobs[key], why=why))
        else:
            layers.append(replace(each, why=reasons.get(key, "")))
    return arranged(plan, encoding, tuple(layers), older=older.held)


def _as_difference(each: LayerPlan, found: Difference, older: Older, staged: Mapping[str, int]) -> LayerPlan:
    """The same layer by its difference; its name begins with the layer's diffID, as all that is staged for it."""
    file = f"{each.layer.diff_id.removeprefix('sha256:')}.{short(found.digest)}.patch"
    done = found.size if staged.get(file) == found.size else min(staged.get(f"{file}.part", 0), found.size)
    why = f"whole it is {mebibytes(each.size)}; made there of the files of {short(older.held)}"
    return replace(
        each, state="difference", file=file, size=found.size, send=found.size - done, difference=found, why=why
    )


def reason_against(plan: HostPlan, other: HostPlan, facts: HostFacts, speed: float | None) -> str:
    """Why a plan with differences is not taken; "" when it is.

    Args:
        speed: bytes a second; None: what counts is bytes.
    """
    try:
        check_disk(other, facts)
    except HostUnfitError as error:
        return f"with a difference {error.what}"
    if other.send >= plan.send:
        return "with a difference the other layers would have to be sent unpacked"
    if speed is not None and plan_seconds(other, speed) >= plan_seconds(plan, speed):
        return f"at {mebibytes(int(speed))}/s the whole layer is there sooner"
    return ""


def because(plan: HostPlan, reasons: Mapping[str, str]) -> HostPlan:
    """The plan with the reasons why layers travel as they do, by diffID."""
    layers = tuple(replace(each, why=reasons.get(each.layer.diff_id, each.why)) for each in plan.layers)
    return replace(plan, layers=layers)


def whole(each: LayerPlan, encoding: Encoding, why: str) -> LayerPlan:
    """A layer that could not be made on the host, to be sent as it is."""
    size = each.layer.size if encoding is Encoding.ZSTD else each.layer.plain_size
    return LayerPlan(each.layer, "send", staged_name(each.layer, encoding), size, size, why)
