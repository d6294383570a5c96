"""What a host's answer means. Pure: the same answer always gets the same verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.image.identity import Image
from sistership.image.release import Release, same_platform, short


class Kind(StrEnum):
    """The verdicts, in the words of the table."""

    OK = "ok"
    MISSING = "missing"
    DIFFERENT = "different"
    TAG_MOVED = "tag moved"
    INCOMPLETE = "incomplete"
    WRONG_PLATFORM = "wrong platform"
    NO_KERNELS = "no kernels for this GPU"
    UNFIT = "not fit"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"


#: Exit code of each verdict. Unknown counts as a difference: what is not proven equal is not equal.
CODES: Mapping[Kind, int] = {
    Kind.OK: 0,
    Kind.MISSING: 22,
    Kind.DIFFERENT: 23,
    Kind.TAG_MOVED: 23,
    Kind.INCOMPLETE: 22,
    Kind.WRONG_PLATFORM: 21,
    Kind.NO_KERNELS: 21,
    Kind.UNFIT: 21,
    Kind.UNREACHABLE: 20,
    Kind.UNKNOWN: 23,
}


@dataclass(frozen=True)
class Proof:
    """Whether the engine could make a container from an image (it was removed at once).

    The universal check of completeness: it failed for every incomplete image on every engine tried,
    where the ID, the exit status of the load and its output all looked right (Engine 28.5, containerd store).
    """

    created: bool
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """What verify says of one host.

    Attributes:
        shown: the ID this host's engine shows, or "".
        why: one sentence for people.
        hint: the next step; "" when there is none.
        code: exit code of this host alone, where it differs from the verdict's usual one.
    """

    kind: Kind
    shown: str = ""
    why: str = ""
    hint: str = ""
    code: int = -1

    @property
    def exit_code(self) -> int:
        """The host's exit code."""
        return CODES[self.kind] if self.code < 0 else self.code


#: Every kind of store that facts tell of.
STORES = ("classic", "containerd", "podman")


def expected_ids(image: Image, store: str) -> tuple[str, ...]:
    """Every ID that the engine may show for this very image.

    The classic store and Podman show the config digest; the containerd store the digest of the manifest that was
    loaded, with zstd layers or with plain ones.
    """
    return (image.manifest, image.manifest_plain) if store == "containerd" else (image.config,)


def candidate(release: Release, facts: HostFacts) -> HeldImage | None:
    """The image on the host that claims to be this release: by its own name, by the people's name, by ID."""
    named = [facts.tagged(release.unique), facts.tagged(release.reference)]
    for image in (*named, *facts.images):
        if image is not None and is_ours(release, image, facts.store):
            return image
    return named[0] or named[1]


def judge(release: Release, facts: HostFacts, proof: Proof | None, gpus: tuple[str, ...] = ()) -> Verdict:
    """The verdict on one host.

    Args:
        release: what should be there.
        facts: what the host answered.
        proof: of the candidate image; None when there was none to try.
        gpus: compute capabilities of the host's GPUs that have no code in the image.
    """
    if not same_platform(facts.platform, release.image.platform):
        return Verdict(
            Kind.WRONG_PLATFORM,
            why=f"the host is {facts.platform}, the image {release.image.platform}",
            hint="build the variant for this platform too: `platforms:` in the matrix",
        )
    held = candidate(release, facts)
    if held is None:
        return Verdict(Kind.MISSING, why="nothing under this name or ID", hint=_ship(release))
    if not is_ours(release, held, facts.store):
        return Verdict(Kind.DIFFERENT, held.id, difference(release, held, facts.store), _ship(release))
    return _incomplete(release, held, proof) or _misnamed(release, held, facts) or _usable(release, held, facts, gpus)


def is_ours(release: Release, held: HeldImage, store: str) -> bool:
    """Whether an image on a host is this release, by ID, or by every field where the ID cannot tell."""
    return held.id in expected_ids(release.image, store) or same_by_fields(release, held, store)


def _incomplete(release: Release, held: HeldImage, proof: Proof | None) -> Verdict | None:
    why = ""
    if proof is None:
        why = "the ID is right, but no container was tried"
    elif not proof.created:
        why = f"the ID is right, but no container can be made: {_last_line(proof.error)}"
    elif held.diff_ids != release.image.diff_ids:
        why = f"the ID is right, but the engine shows {len(held.diff_ids)} of {len(release.image.layers)} layers"
    return Verdict(Kind.INCOMPLETE, held.id, why, _ship(release)) if why else None


def _misnamed(release: Release, held: HeldImage, facts: HostFacts) -> Verdict | None:
    tagged = facts.tagged(release.reference)
    if tagged is not None and (tagged.id == held.id or is_ours(release, tagged, facts.store)):
        return None
    now = f"now {short(tagged.id)}" if tagged else "gone"
    shown = tagged.id if tagged else held.id
    return Verdict(Kind.TAG_MOVED, shown, f"the image is there, but {release.reference} is {now}", _ship(release))


def _usable(release: Release, held: HeldImage, facts: HostFacts, gpus: tuple[str, ...]) -> Verdict:
    if gpus:
        return Verdict(
            Kind.NO_KERNELS,
            held.id,
            f"compute capability {', '.join(gpus)} is not in the image's archs {';'.join(release.archs)}",
            "add the arch to the variant and build again",
        )
    known = held.id in expected_ids(release.image, facts.store)
    why = "" if known else "same config and layers under another manifest (recompressed on the way)"
    return Verdict(Kind.OK, held.id, why)


def _ship(release: Release) -> str:
    return f"sistership ship --variant {release.variant} --hosts {{host}}"


def same_by_fields(release: Release, held: HeldImage, store: str) -> bool:
    """Whether an image of unknown manifest is this one, by every field that the engine shows.

    The containerd store shows the config digest nowhere. All layers in order, the platform, the creation date
    and all runtime fields are compared instead; without the config at hand nothing is ever equal.
    Elsewhere the ID is the config digest, so another ID is another image.
    """
    config = release.fields
    if store != "containerd" or config is None or held.diff_ids != release.image.diff_ids or not held.diff_ids:
        return False
    return (
        same_platform(held.platform, release.image.platform)
        and held.created == config.get("created")
        and runtime_fields(held.config) == runtime_fields(config.get("config") or {})
    )


_FIELDS = ("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels", "StopSignal",
           "Healthcheck", "Shell", "OnBuild", "ArgsEscaped")  # fmt: skip


def runtime_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config that decide how a container runs; empty ones count as absent."""
    return {name: config[name] for name in _FIELDS if config.get(name) not in (None, "", False, [], {})}


def difference(release: Release, held: HeldImage, store: str) -> str:
    """Which layer or field of the held image is not as it should be."""
    ours, theirs = release.image.diff_ids, held.diff_ids
    expected = short(expected_ids(release.image, store)[0])
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False), start=1):
        if mine != other:
            return f"layer {number} of {len(ours)} is {short(other)}, should be {short(mine)}"
    if len(ours) != len(theirs):
        return f"it has {len(theirs)} layers, should have {len(ours)}"
    config = release.fields
    if config is not None:
        mine_fields, other_fields = runtime_fields(config.get("config") or {}), runtime_fields(held.config)
        for name in _FIELDS:
            if mine_fields.get(name) != other_fields.get(name):
                return f"same layers, but {name} differs"
        if config.get("created") != held.created:
            return f"same layers, but created {held.created}, should be {config.get('created')}"
    return f"same layers, but the ID is {short(held.id)}, should be {expected}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"
