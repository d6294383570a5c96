"""Which images of ours a host no longer needs. Pure: the same answers always get the same fates.

What stays: what the lock says today, what people's names point to, the newest images kept for a rollback, what a
container uses, running or not, what carries a name that is not ours or is of a variant that this matrix does not have,
and what a ship of somebody else may just have loaded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage, familiar
from sistership.image.release import OWN_REGISTRY, Release, own_path, short
from sistership.verify.verdict import is_ours

_UNIQUE: Final = re.compile(rf"{re.escape(OWN_REGISTRY)}/(?P<repository>.+):[0-9a-f]{{12}}")
_ROLLBACK: Final = re.compile(r"(?P<repository>.+):rollback-(?P<id>[0-9a-f]{12})")
#: The label that says of which variant an image is.
_VARIANT: Final = "dev.sistership.variant"
#: How long an image may have nothing but the name of a load: users have locks of their own, and nobody else's is seen.
_UNDER_WAY: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Ours:
    """What a project calls its own on hosts.

    Attributes:
        references: people's name (`image:tag`) → variant, of every variant of the matrix.
        selected: the references whose older images may be removed.
        places: repositories of registries from which hosts pull them by digest, `host/repository`.
        releases: what the lock says today, of every variant.
        sizes: diffID → (bytes unpacked, bytes packed) of layers that the lock knows.
    """

    references: Mapping[str, str]
    selected: frozenset[str]
    releases: tuple[Release, ...] = ()
    places: frozenset[str] = frozenset()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    @property
    def repositories(self) -> frozenset[str]:
        """The selected references without their tags, as we write them and as engines do."""
        written = {each.rpartition(":")[0] for each in self.selected}
        return frozenset(written | {*map(familiar, written)} | {*map(own_path, written)})

    def reference(self, name: str) -> str | None:
        """The people's name of a variant that this is, however the engine writes it."""
        return next((each for each in self.references if familiar(each) == familiar(name)), None)


@dataclass(frozen=True)
class Fate:
    """An image of ours on a host.

    Attributes:
        names: that are ours to remove, as the engine writes them: the unique one, that of a rollback, and that by
            which it was pulled.
        shown: the name that people know it by.
        keep: why it stays, in a few words; "": its names go.
        frees: bytes that go with it, as far as known; what several images share counts once, for the first.
    """

    image: HeldImage
    names: tuple[str, ...]
    shown: str
    keep: str
    frees: int = 0

    @property
    def goes(self) -> bool:
        """Whether its names are to be removed."""
        return not self.keep


def fates(
    facts: HostFacts, used: Mapping[str, str], ours: Ours, keep: int, now: datetime | None = None
) -> tuple[Fate, ...]:
    """What is to become of each image of ours, as it is now: those that stay first.

    Args:
        used: image ID, hex digits alone → name of a container that was made from it.
        keep: how many images are kept for a rollback, of each variant.
        now: by the host's own clock; None: not known.
    """
    current = _current(facts, ours)
    previous = _previous(facts, ours, current, keep)
    found: list[Fate] = []
    for image in facts.images:
        names = _names(image, ours)
        people = [tag for tag in image.tags if ours.reference(tag) in ours.selected]
        if not (names or people):
            continue
        container, others = used.get(image.id.removeprefix("sha256:")), _others(image, ours)
        why = current.get(image.id, "")
        if not why and image.id in previous:
            why = "previous"
        if not why and container is not None:
            why = f"used by container {container}"
        if not why and others:
            why = f"also named {others[0]}"
        if not why and _is_strange(image, ours):
            why = f"of variant {_labelled(image)}, which is not of this matrix"
        if not why and _just_loaded(image, now):
            why = "just loaded"
        shown = min((*people, *names), key=lambda name: (name in names, _plainness(name)))
        found.append(Fate(image, names, shown, why))
    found.sort(key=_rank)
    gone = [fate for fate in found if fate.goes]
    stays = [image for image in facts.images if image.id not in {fate.image.id for fate in gone}]
    sizes = freed([fate.image for fate in gone], stays, ours.sizes, facts.store)
    going = [replace(fate, frees=sizes[fate.image.id]) for fate in gone]
    return (*(fate for fate in found if not fate.goes), *going)


def _rank(fate: Fate) -> tuple[bool, bool, bool]:
    """Sorts what stays before what goes, and of that the current ones first."""
    return fate.goes, not fate.keep.startswith("current"), fate.keep != "previous"


def _plainness(name: str) -> tuple[bool, bool, str]:
    """Sorts names from what people know to what only we do."""
    return "@" in name, name.startswith(OWN_REGISTRY), name


def repository_of(name: str, image: HeldImage) -> str | None:
    """The repository that a name of ours belongs to; None where it is a name that somebody else gave.

    A rollback's name carries the ID of its image: one that does not was moved by somebody.
    """
    unique = _UNIQUE.fullmatch(name)
    if unique:
        return unique["repository"]
    rollback = _ROLLBACK.fullmatch(familiar(name))
    return rollback["repository"] if rollback and rollback["id"] == short(image.id) else None


def _names(image: HeldImage, ours: Ours) -> tuple[str, ...]:
    """The names of an image that ships of these variants made."""
    tags = [tag for tag in image.tags if repository_of(tag, image) in ours.repositories]
    places = {familiar(place) for place in ours.places}
    return (*tags, *(name for name in _pulled(image) if familiar(name.partition("@")[0]) in places))


def _pulled(image: HeldImage) -> list[str]:
    """References by digest that are names of their own; engines show one beside each tag as well."""
    tagged = {tag.rpartition(":")[0] for tag in image.tags}
    return [name for name in image.digests if name.partition("@")[0] not in tagged]


def _others(image: HeldImage, ours: Ours) -> list[str]:
    """Names of an image that neither a ship of these variants made nor the matrix knows."""
    mine = _names(image, ours)
    return [name for name in (*image.tags, *_pulled(image)) if name not in mine and not ours.reference(name)]


def _current(facts: HostFacts, ours: Ours) -> dict[str, str]:
    """ID → why it is current."""
    found: dict[str, str] = {}
    for reference in ours.references:
        held = facts.tagged(reference)
        if held is not None:
            found[held.id] = "current"
    for image in facts.images:
        if any(is_ours(release, image, facts.store) for release in ours.releases):
            found.setdefault(image.id, "current by the lock")
    return found


def _previous(facts: HostFacts, ours: Ours, current: Collection[str], keep: int) -> set[str]:
    """IDs of the newest images with a rollback's name, `keep` of each variant.

    An image gets that name when another takes its place, and engines tell when an image last got a name. A name that
    somebody else gave it moves that time, so such an image takes nobody's place in the count (it stays anyway).
    """
    groups: dict[tuple[str, str], list[HeldImage]] = {}
    for image in facts.images:
        rollbacks = {_rollback_of(tag, image) for tag in image.tags} & ours.repositories
        if image.id not in current and not _others(image, ours) and not _is_strange(image, ours):
            for repository in rollbacks:
                groups.setdefault((repository, _variant_of(image, repository, ours)), []).append(image)
    newest = [sorted(images, key=_replaced, reverse=True)[:keep] for images in groups.values()]
    return {image.id for images in newest for image in images}


def _rollback_of(name: str, image: HeldImage) -> str:
    return "" if _UNIQUE.fullmatch(name) else repository_of(name, image) or ""


def _variant_of(image: HeldImage, repository: str, ours: Ours) -> str:
    """The variant whose rollback it is; "" where only one has that repository, or it is not one of them."""
    sharing = {name for each, name in ours.references.items() if familiar(each).rpartition(":")[0] == repository}
    labelled = _labelled(image)
    return labelled if len(sharing) > 1 and labelled in sharing else ""


def _labelled(image: HeldImage) -> str:
    return str((image.config.get("Labels") or {}).get(_VARIANT, ""))


def _is_strange(image: HeldImage, ours: Ours) -> bool:
    """Whether it says that it is of a variant that this matrix does not have: another project ships by that name."""
    labelled = _labelled(image)
    return bool(labelled) and labelled not in ours.references.values()


def _just_loaded(image: HeldImage, now: datetime | None) -> bool:
    """Whether a ship may be about to tag it: it has no name but those of a load or a pull, and got it just now."""
    loaded = all(_UNIQUE.fullmatch(tag) for tag in image.tags)
    return now is not None and loaded and _moment(image.tagged) > now - _UNDER_WAY


def _replaced(image: HeldImage) -> tuple[datetime, datetime]:
    """When it was replaced; by its own date where the engine does not tell."""
    return _moment(image.tagged), _moment(image.created)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def freed(
    gone: Sequence[HeldImage], stays: Sequence[HeldImage], sizes: Mapping[str, tuple[int, int]], store: str
) -> dict[str, int]:
    """ID → bytes that go with each image: those of layers that no image that stays has, in the same place of its stack.

    Layers that nobody knows share what the engine says of the whole image. The containerd store has each layer
    twice, packed and unpacked, and its engine counts only the packed one, so there an unknown layer counts too little.
    """
    seen = {image.diff_ids[: depth + 1] for image in stays for depth in range(len(image.diff_ids))}
    both, found = store == "containerd", dict[str, int]()
    ratio = _ratio((*stays, *gone), sizes) if not both else 1.0
    for image in gone:
        known = {each: sizes[each] for each in image.diff_ids if each in sizes}
        told = image.size - int(ratio * sum(packed if both else plain for plain, packed in known.values()))
        unknown = sum(1 for each in image.diff_ids if each not in known)
        share = max(0, told) // unknown if unknown else 0
        taken = {each: plain + (packed if both else 0) for each, (plain, packed) in known.items()}
        stacks = [image.diff_ids[: depth + 1] for depth in range(len(image.diff_ids))]
        fresh = [stack for stack in stacks if stack not in seen]
        seen.update(fresh)
        found[image.id] = sum(taken.get(stack[-1], share) for stack in fresh)
    return found


def _ratio(images: Sequence[HeldImage], sizes: Mapping[str, tuple[int, int]]) -> float:
    """Bytes that a classic engine counts for a byte of a layer's tar: files alone, without headers and padding."""
    for image in images:
        plain = sum(sizes.get(each, (0, 0))[0] for each in image.diff_ids)
        if image.size and plain and all(each in sizes for each in image.diff_ids):
            return image.size / plain
    return 1.0
