"""What would be done on a host, decided from facts alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sistership.errors import HostUnfitError
from sistership.host.facts import HostFacts
from sistership.image.difference import Difference
from sistership.image.identity import Layer
from sistership.image.release import Release, rollback_reference, short
from sistership.report.words import mebibytes
from sistership.ship.have import Manifests, layers_had
from sistership.verify.verdict import Kind, Verdict, expected_ids


class Encoding(StrEnum):
    """How a layer lies in the host's staging folder."""

    ZSTD = "zstd"
    GZIP = "gzip"
    PLAIN = "plain"


class Action(StrEnum):
    """What a host needs."""

    NOTHING = "nothing"
    TAG = "tag"
    LOAD = "load"


#: Free space asked for beyond the image itself: staging's small files, the engine's own records.
SLACK = 64 << 20


@dataclass(frozen=True)
class LayerPlan:
    """One layer on one host.

    Attributes:
        state: `have` (the engine holds it), `staged` (it lies there already), `send`, `difference` (sent, and the
            host makes the layer of it and an older image's files), or `copy` (the engine holds it compressed, and the
            host unpacks that).
        file: its name in the staging folder.
        size: bytes of that file, an upper bound where it is compressed on the way (gzip).
        send: bytes still to be sent.
        why: why it is sent so; "" where nothing else was possible.
        difference: what is sent in its place.
        blob: digest of the engine's own blob of a `copy`.
    """

    layer: Layer
    state: str
    file: str
    size: int
    send: int
    why: str = ""
    difference: Difference | None = None
    blob: str = ""

    @property
    def loads(self) -> str:
        """The staged file that the engine gets."""
        made = self.difference is not None or self.state == "copy"
        return staged_name(self.layer, Encoding.PLAIN) if made else self.file


@dataclass(frozen=True)
class HostPlan:
    """Everything a ship would do on one host.

    Attributes:
        encoding: of the staged layers.
        plain: the engine gets uncompressed layers, decompressed on the host: the classic store, all where a
            difference is used, and the containerd store where it holds more of the image's layers in that form.
        disk: bytes needed where the engine keeps images.
        stage: bytes needed in the staging folder.
        spool: bytes needed where the engine keeps what it is given until that is stored.
        daemon: the engine's own ID.
        moves: (old ID, name it is kept under) when the people's name points elsewhere now.
        source: what the engine pulls, by digest; "": the image is sent from here.
        remark: why it comes by another road than was asked for; "" when it does not.
        older: ID there of the image that differences and copies are made from; "" without any.
    """

    host: str
    action: Action
    encoding: Encoding
    plain: bool
    layers: tuple[LayerPlan, ...]
    disk: int
    stage: int
    moves: tuple[str, str] | None
    store: str
    version: str
    daemon: str = ""
    source: str = ""
    remark: str = ""
    older: str = ""
    spool: int = 0

    @property
    def send(self) -> int:
        """Image bytes to be sent."""
        return sum(layer.send for layer in self.layers)

    @property
    def leave_out(self) -> frozenset[str]:
        """diffIDs of the layers that are not in the archive because the host has them."""
        return frozenset(layer.layer.diff_id for layer in self.layers if layer.state == "have")

    @property
    def files(self) -> dict[str, str]:
        """diffID → the staged file that the engine gets, of the layers that are in the archive."""
        return {layer.layer.diff_id: layer.loads for layer in self.layers if layer.state != "have"}

    @property
    def steps(self) -> tuple[str, ...]:
        """The plan in words, one step a line."""
        if self.action is Action.NOTHING:
            return ("nothing to do: the image is there and whole",)
        steps: list[str] = []
        if self.action is Action.LOAD:
            there = sum(1 for layer in self.layers if layer.state in {"have", "copy"})
            had = f", {there} are there" if there else ""
            steps.append(self._way(had))
        if self.moves:
            steps.append(f"keep {short(self.moves[0])} as {self.moves[1]}")
        return (*steps, "move the tag")

    def _way(self, had: str) -> str:
        if self.source:
            return f"pull at most {mebibytes(self.send)} from {self.source}{had}"
        remark = f", {self.remark}" if self.remark else ""
        small = sum(1 for layer in self.layers if layer.state == "difference")
        less = f", {small} as a difference" if small else ""
        return f"send {mebibytes(self.send)} as {self.encoding} of {len(self.layers)} layers{had}{less}{remark}"


def encoding_for(facts: HostFacts, *, plain: bool = False) -> tuple[Encoding, bool]:
    """How layers travel to a host, and whether its engine gets them plain.

    Engines since 23.0 read tar+zstd themselves. An older one needs plain layers, decompressed on the host by
    whatever is there; plain bytes travel only where nothing is. The classic store keeps layers unpacked, in whatever
    form they came, and zstd itself unpacks them for a third of the processor time that the engine takes for it, while
    others still arrive (measured on Engine 26.1: 920 MB of libraries, 5.6 seconds of its processor time, not 8.2).

    Args:
        plain: the engine shall get plain layers although it reads others.
    """
    unpacks = facts.store == "classic" and str(Encoding.ZSTD) in facts.tools
    if facts.reads_zstd and not plain and not unpacks:
        return Encoding.ZSTD, False
    for encoding in (Encoding.ZSTD, Encoding.GZIP):
        if str(encoding) in facts.tools:
            return encoding, True
    return Encoding.PLAIN, True


def staged_name(layer: Layer, encoding: Encoding) -> str:
    """A staged layer's file: named by the digest of its bytes, or of its content where we make the bytes on the way."""
    if encoding is Encoding.ZSTD:
        return f"{layer.digest.removeprefix('sha256:')}.zst"
    suffix = "gz" if encoding is Encoding.GZIP else "tar"
    return f"{layer.diff_id.removeprefix('sha256:')}.{suffix}"


def plan_host(
    host: str,
    release: Release,
    facts: HostFacts,
    verdict: Verdict,
    known: Manifests | None = None,
) -> HostPlan:
    """The plan for one host.

    Args:
        known: manifests whose blobs we know; None: everything is sent, whatever the host has.

    Raises:
        HostUnfitError: its platform is another, or its disk too small.
    """
    if verdict.kind in (Kind.WRONG_PLATFORM, Kind.NO_KERNELS):
        raise HostUnfitError(f"{verdict.kind}: {verdict.why}", where=host, hint=verdict.hint or None)
    encoding, plain = encoding_for(facts)
    layers: tuple[LayerPlan, ...] = ()
    action = {Kind.OK: Action.NOTHING, Kind.TAG_MOVED: Action.TAG}.get(verdict.kind, Action.LOAD)
    if action is Action.LOAD:
        # What turned out incomplete once is not trusted to hold any layer.
        trusted = known if verdict.kind is not Kind.INCOMPLETE else None
        encoding, plain, layers = _cheapest(release, facts, trusted)
    tagged = facts.tagged(release.reference)
    moves = None
    if action is not Action.NOTHING and tagged and tagged.id not in expected_ids(release.image, facts.store):
        moves = (tagged.id, rollback_reference(release.reference, tagged.id))
    plan = HostPlan(
        host=host,
        action=action,
        encoding=encoding,
        plain=plain,
        layers=layers,
        disk=disk_needed(layers, facts.store, plain=plain),
        stage=stage_needed(layers),
        moves=moves,
        store=facts.store,
        version=facts.version,
        daemon=facts.daemon,
        spool=spool_needed(layers, facts.store, plain=plain),
    )
    if action is Action.LOAD:
        check_disk(plan, facts)
    return plan


def _cheapest(
    release: Release, facts: HostFacts, known: Manifests | None
) -> tuple[Encoding, bool, tuple[LayerPlan, ...]]:
    """The form in which the fewest bytes are sent; zstd layers where both forms cost the same.

    The containerd store has blobs of one form, whichever came last: plain ones after a difference. A ship that was
    cut after a difference was used left a plain layer staged.
    """
    forms = [encoding_for(facts)]
    unpacked = any(lies_whole(layer, Encoding.PLAIN, facts.staged) for layer in release.image.layers)
    if not forms[0][1] and (facts.store != "classic" or unpacked):
        forms.append(encoding_for(facts, plain=True))
    found = []
    for encoding, plain in forms:
        had = layers_had(release.image, facts, known, plain=plain) if known is not None else frozenset()
        found.append((encoding, plain, layer_plans(release, encoding, facts.staged, had, plain=plain)))
    return min(found, key=lambda form: sum(layer.send for layer in form[2]))


def lies_whole(layer: Layer, encoding: Encoding, staged: Mapping[str, int]) -> bool:
    """Whether a layer is staged. Its sum was checked before it got its name, but a power cut may have cut it since.

    What we compress on the way has no size that is known before.
    """
    size = staged.get(staged_name(layer, encoding), 0)
    if encoding is Encoding.GZIP:
        return size > 0
    return size == (layer.size if encoding is Encoding.ZSTD else layer.plain_size)


def layer_plans(
    release: Release, encoding: Encoding, staged: Mapping[str, int], had: Collection[str], *, plain: bool
) -> tuple[LayerPlan, ...]:
    """What is to be done for each layer, each once.

    Args:
        staged: name → bytes of what lies in the staging folder.
        had: diffIDs of the layers that the engine holds in this form.
        plain: the engine gets plain layers.
    """
    plans: dict[str, LayerPlan] = {}
    for layer in release.image.layers:
        if layer.diff_id in had:
            plans.setdefault(layer.diff_id, LayerPlan(layer, "have", "", 0, 0))
            continue
        file = staged_name(layer, encoding)
        unpacked = staged_name(layer, Encoding.PLAIN)
        whole = lies_whole(layer, encoding, staged)
        if plain and not whole and lies_whole(layer, Encoding.PLAIN, staged):
            plans.setdefault(layer.diff_id, LayerPlan(layer, "staged", unpacked, layer.plain_size, 0))
            continue
        size = layer.size if encoding is Encoding.ZSTD else layer.plain_size
        # A `.part` counts by its length, its sum is checked later.
        done = size if whole else min(staged.get(f"{file}.part", 0), size)
        state = "staged" if whole else "send"
        plans.setdefault(layer.diff_id, LayerPlan(layer, state, file, size, size - done))
    return tuple(plans.values())


def arranged(plan: HostPlan, encoding: Encoding, layers: tuple[LayerPlan, ...], *, older: str = "") -> HostPlan:
    """The plan with other layers, in the plain form, and the disk that this takes."""
    disk, stage = disk_needed(layers, plan.store, plain=True), stage_needed(layers)
    spool = spool_needed(layers, plan.store, plain=True)
    return replace(plan, encoding=encoding, plain=True, layers=layers, older=older, disk=disk, stage=stage, spool=spool)


def stage_needed(layers: Collection[LayerPlan]) -> int:
    """Bytes needed in the staging folder: what is sent, and what the host makes of it."""
    total = 0
    for each in layers:
        total += each.send
        if each.difference:
            total += each.layer.plain_size + each.difference.base_size
        elif each.state == "copy":
            total += each.layer.plain_size + each.layer.size
    return total


def disk_needed(layers: Collection[LayerPlan], store: str, *, plain: bool = False) -> int:
    """Bytes the engine needs to load the layers that it does not have.

    The classic store untars the whole archive beside the layers before it registers them; the containerd store
    keeps the blobs as they came and the unpacked layers (measured on Engines 20.10, 26.1 and 28.5).
    """
    new = [each.layer for each in layers if each.state != "have"]
    unpacked, packed = sum(layer.plain_size for layer in new), sum(layer.size for layer in new)
    if store == "podman":
        return unpacked
    return unpacked * 2 if store == "classic" or plain else unpacked + packed


def spool_needed(layers: Collection[LayerPlan], store: str, *, plain: bool = False) -> int:
    """Bytes that Podman needs in its folder for temporary files: it writes the archive there, unpacks it, and copies
    each blob once more (measured with 5.4: 2.9 times the archive).
    """
    if store != "podman":
        return 0
    new = [each.layer for each in layers if each.state != "have"]
    return 3 * sum(layer.plain_size if plain else layer.size for layer in new)


def check_disk(plan: HostPlan, facts: HostFacts) -> None:
    """Refuse what does not fit.

    Raises:
        HostUnfitError: the staging folder, or where the engine keeps images, is too small.
    """
    if facts.stage_free is not None and plan.stage + SLACK > facts.stage_free:
        raise HostUnfitError(
            f"the staging folder needs {mebibytes(plan.stage + SLACK)}, {mebibytes(facts.stage_free)} are free",
            where=plan.host,
            hint="free space there, or set XDG_CACHE_HOME for that user to a larger disk",
        )
    # On one file system what is staged lies beside what the engine writes.
    needed = plan.disk + SLACK + (plan.stage if facts.one_disk else 0)
    needed += plan.spool if "engine" in facts.spool_on else 0
    if facts.free is not None and needed > facts.free:
        raise HostUnfitError(
            f"the engine needs {mebibytes(needed)} to load it, {mebibytes(facts.free)} are free",
            where=plan.host,
            hint=f"remove images there that nothing uses: {_cli(facts)} image prune",
        )
    needed = plan.spool + SLACK + (plan.stage if "stage" in facts.spool_on else 0)
    if facts.spool_free is not None and plan.spool and needed > facts.spool_free:
        raise HostUnfitError(
            f"{facts.engine} needs {mebibytes(needed)} for temporary files, {mebibytes(facts.spool_free)} are free",
            where=plan.host,
            hint="free space in /var/tmp there, or set image_copy_tmp_dir in its containers.conf",
        )


def _cli(facts: HostFacts) -> str:
    return "podman" if facts.engine == "podman" else "docker"
