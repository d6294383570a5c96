"""Differences in place of whole layers: where one is possible, where it wins, and how a host makes the layer of it.

An older image of ours on the host has the old version of a large library. Its files come out of a container that is
made, read and removed; the host's own zstd makes the new layer of them, and its sha256 is checked there before an
engine sees it. What comes out is a plain layer, so the whole archive takes the plain form, whose manifest is known.
On the containerd store the other layers are then needed plain too: the host unpacks its engine's own blobs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from packaging.version import Version

from sistership.errors import HostUnfitError, SistershipError
from sistership.host.answers import parse_version
from sistership.host.commands import Commands
from sistership.host.facts import STAGE, HostFacts
from sistership.host.inventory import Peer
from sistership.host.sums import SHA256
from sistership.host.transport import quote
from sistership.image.difference import LEAST, Difference, NoDifferenceError, cached, make
from sistership.image.identity import Image, Layer
from sistership.image.layout import Store
from sistership.image.release import Release, same_platform, short
from sistership.report.events import mebibytes
from sistership.ship.have import known_manifests, layers_had
from sistership.ship.leftovers import COPIES
from sistership.ship.plan import (
    Action,
    Encoding,
    HostPlan,
    LayerPlan,
    arranged,
    check_disk,
    encoding_for,
    layer_plans,
    staged_name,
)
from sistership.verify.verdict import Kind, Verdict, expected_ids

#: The first zstd program that knows --patch-from.
PATCH_SINCE: Final = Version("1.4.5")
#: Bytes a second at which this machine makes a difference, and at which a host reads the old files, makes the layer
#: and hashes it, or unpacks a blob of its own engine and gives it back to it (measured with CUDA libraries of 105 and
#: 749 MB on 2 busy cores).
_MAKE: Final = 50e6
_APPLY: Final = 100e6
_COPY: Final = 60e6
_APPLY_FIXED: Final = 0.5  # seconds for the container
#: Random bytes that measure a link, at most: 1 Gbit/s then takes longer than starting a shell.
_PROBE: Final = 4 << 20
#: What a probe may cost, as a part of the bytes that it decides about.
_PROBE_SHARE: Final = 16
#: A link that carries more is no reason for a difference, and cannot be measured with so few bytes: 1 Gbit/s.
_FAST: Final = 117e6

NO_OLDER: Final = "no older image of ours with such a layer is there"

_NO_CONTAINER, _NO_FILES, _NO_DECODING, _WRONG_SUM, _NO_BLOB = range(11, 16)
_WHY: Final = {
    _NO_CONTAINER: "no container can be made of the older image",
    _NO_FILES: "the older image's files cannot be read",
    _NO_DECODING: "zstd there could not unpack it",
    _WRONG_SUM: "the layer came out wrong; the older image's files are not as they were built",
    _NO_BLOB: "its engine does not give the blob",
}


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


def improved(
    peer: Peer,
    release: Release,
    facts: HostFacts,
    verdict: Verdict,
    plan: HostPlan,
    store: Store,
    *,
    minimize: bool = False,
    tell: Callable[[str], object] = str,
) -> HostPlan:
    """The plan with differences in place of whole layers, where that wins; else with the reason why not.

    Differences are made on the way and kept in the store: only then their size is known.

    Args:
        minimize: what counts is bytes, not time.
        tell: is told what takes long.

    Raises:
        HostUnreachableError: the connection was cut while its speed was measured.
    """
    large = [each.layer for each in plan.layers if each.state == "send" and each.send >= LEAST]
    # What turned out incomplete once gets everything anew.
    if plan.action is not Action.LOAD or plan.source or verdict.kind is Kind.INCOMPLETE or not large:
        return plan
    images = [image for record in store.records() if (image := store.get(record.key))]
    older = older_image(release, facts, images, large)
    why = unable(facts) if older else NO_OLDER
    if why or older is None:
        return because(plan, {layer.diff_id: why for layer in large})
    speed = None if minimize else link_speed(peer, plan.send // _PROBE_SHARE)
    found, reasons = _differences(plan, older, facts, store, speed, tell)
    plan = because(plan, reasons)
    if not found:
        return plan
    had = layers_had(release.image, facts, known_manifests(store), plain=True)
    other = with_differences(plan, release, facts, older, found, had)
    lost = reason_against(plan, other, facts, speed)
    return because(plan, dict.fromkeys(found, lost)) if lost else other


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


def link_speed(peer: Peer, size: int) -> float:
    """Bytes a second that reach a host, by a small probe of random bytes; at most 1 Gbit/s is told.

    Args:
        size: bytes that the probe may have; it takes 4 MiB at most.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    size = min(size, _PROBE)
    began = time.monotonic()
    peer.transport.run("cat >/dev/null", stdin=b"\0", timeout=60)
    started = time.monotonic()
    peer.transport.run("cat >/dev/null", stdin=os.urandom(size), timeout=600)
    # Without what starting a shell takes.
    return size / max(time.monotonic() - started - (started - began), size / _FAST)


def _differences(
    plan: HostPlan, older: Older, facts: HostFacts, store: Store, speed: float | None, tell: Callable[[str], object]
) -> tuple[dict[str, Difference], dict[str, str]]:
    """By diffID: the differences that may win, and why there is none for the other large layers."""
    found: dict[str, Difference] = {}
    reasons: dict[str, str] = {}
    for each in plan.layers:
        if each.state == "send" and each.send >= LEAST:
            try:
                found[each.layer.diff_id] = _difference(each, older, facts, store, speed, tell)
            except NoDifferenceError as error:
                reasons[each.layer.diff_id] = str(error)
            except SistershipError as error:
                reasons[each.layer.diff_id] = f"{error.what}: {error.why}" if error.why else error.what
    return found, reasons


def _difference(
    each: LayerPlan, older: Older, facts: HostFacts, store: Store, speed: float | None, tell: Callable[[str], object]
) -> Difference:
    new, old = each.layer, older.counterpart(each.layer)
    if old is None:
        raise NoDifferenceError("the older image there has no such layer")
    known = cached(store, old, new)
    if known is None and not store.has(old.digest):
        raise NoDifferenceError("the store here has lost the older layer")
    memory = known.memory if known else old.plain_size + new.plain_size
    if why := too_little_memory(facts, memory):
        raise NoDifferenceError(why)
    if speed is not None:
        making = 0.0 if known else new.plain_size / _MAKE
        if making + apply_seconds(new, known) >= each.send / speed:
            raise NoDifferenceError(f"at {mebibytes(int(speed))}/s the whole layer is there sooner")
    if known is None:
        tell(f"making the difference of layer {short(new.diff_id)}")
    found = known or make(store, old, new)
    if not found.digest or found.size >= each.send:
        raise NoDifferenceError("a difference would be no smaller")
    if why := too_little_memory(facts, found.memory):
        raise NoDifferenceError(why)
    return found


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


def apply(peer: Peer, plan: HostPlan, each: LayerPlan) -> str:
    """Have a host make the layer of its difference, which is staged. Returns why it could not; "" when it did.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    if each.difference is None:
        return ""
    script = apply_script(peer.engine, plan.older, each.layer, each.difference, each.file)
    return _trouble(peer, script)


def copy(peer: Peer, plan: HostPlan) -> str:
    """Have a host unpack its engine's own blobs. Returns why it could not; "" when it did, or had none to unpack.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    copies = [each for each in plan.layers if each.state == "copy"]
    return _trouble(peer, copy_script(peer.engine, plan.older, copies)) if copies else ""


def _trouble(peer: Peer, script: str) -> str:
    done = peer.transport.run(script, timeout=3600)
    if done.status == 0:
        return ""
    words = done.text.strip().splitlines()
    why = _WHY.get(done.status, f"exit status {done.status}")
    return f"{why}: {words[-1][:200]}" if words and done.status != _WRONG_SUM else why


def apply_script(engine: Commands, held: str, layer: Layer, difference: Difference, file: str) -> str:
    """Make a plain layer of a staged difference and the files of an image that the host holds.

    Nothing of the image is run. zstd says nothing of wrong old bytes: the layer's sha256 does. The shell's number is in
    the names of what is not checked yet: the script of a ship whose link was cut may still be at work.
    """
    plain = staged_name(layer, Encoding.PLAIN)
    part, base = _own(f"{plain}.$$.part"), _own(f"{layer.diff_id.removeprefix('sha256:')}.$$.base")
    files = " && ".join(f"copy_out {quote(path)} | tar -xO" for path in difference.files)
    # The status of a pipe is that of its end: a file that broke off is told by its size.
    sizes = f'[ "$(wc -c < {base})" -eq {difference.base_size} ]'
    window = layer.plain_size + (1 << 20)
    return f"""{engine.functions}{SHA256}
cd {STAGE} || exit 1
open_image {quote(held)} || exit {_NO_CONTAINER}
trap 'close_image >/dev/null 2>&1; rm -f -- {base} {part}' EXIT; trap 'exit 1' HUP INT TERM
{{ {files}; }} > {base} 2>/dev/null && {sizes} || exit {_NO_FILES}
zstd -dqf --patch-from={base} --memory={window} -o {part} {quote(file)} 2>&1 || exit {_NO_DECODING}
sum=$(sha256 < {part})
[ "$sum" = {layer.diff_id.removeprefix("sha256:")} ] || exit {_WRONG_SUM}
mv {part} {quote(plain)} && rm -f -- {quote(file)}
"""


def _own(name: str) -> str:
    """A name with the number of the shell that runs, as a word for it; ours have nothing else that a shell reads."""
    return f'"{name}"'


def copy_script(engine: Commands, held: str, copies: Sequence[LayerPlan]) -> str:
    """Stage plain layers out of the zstd blobs that the engine keeps of an image; each is checked by its sha256."""
    folder = _own(f"{COPIES}.$$")
    blobs = {each.layer.diff_id: f"blobs/sha256/{each.blob.removeprefix('sha256:')}" for each in copies}
    lines = []
    for each in copies:
        blob, plain = quote(blobs[each.layer.diff_id]), quote(each.loads)
        part = _own(f"{each.loads}.$$.part")
        lines.append(
            f"zstd -dcq {folder}/{blob} > {part} && rm -f -- {folder}/{blob} || exit {_NO_BLOB}\n"
            f'[ "$(sha256 < {part})" = {each.layer.diff_id.removeprefix("sha256:")} ] || exit {_WRONG_SUM}\n'
            f"mv {part} {plain} || exit 1"
        )
    parts = " ".join(_own(f"{each.loads}.$$.part") for each in copies)
    body = "\n".join(lines)
    return f"""{engine.functions}{SHA256}
cd {STAGE} && rm -rf {folder} && mkdir {folder} || exit 1
trap 'rm -rf {folder}; rm -f -- {parts}' EXIT; trap 'exit 1' HUP INT TERM
save_image {quote(held)} | tar -C {folder} -xf - {quote(*blobs.values())} 2>&1 || exit {_NO_BLOB}
{body}
"""
