"""An image together with the names it goes by: what is shipped and what a host is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sistership.image.identity import Image

#: The registry part of names that belong to us: fully qualified, so podman keeps it, and nobody can push there.
OWN_REGISTRY = "sistership.local"


@dataclass(frozen=True)
class Release:
    """An image as the lock records it.

    Attributes:
        variant: its row of the matrix.
        key: recipe key, 64 hex digits.
        reference: the name people use, `image:tag`. It may move.
        image: identity and layers.
        archs: CUDA architectures inside; empty without CUDA.
        files: path → sha256 hex of every file in the image's own layers.
        fields: the image's config, where the store has it; with it an image under an unknown manifest can be told.
    """

    variant: str
    key: str
    reference: str
    image: Image
    archs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    fields: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_record(cls, key: str, record: Mapping[str, Any], fields: Mapping[str, Any] | None = None) -> Release:
        """A release from one entry of the lock's `images`."""
        return cls(
            variant=str(record["variant"]),
            key=key,
            reference=f"{record['image']}:{record['tag']}",
            image=Image.from_json(record),
            archs=tuple(record.get("archs", ())),
            files=dict(record.get("files", {})),
            fields=fields,
        )

    @property
    def unique(self) -> str:
        """The name no other image can have: 12 hex digits of the config digest as tag."""
        return f"{OWN_REGISTRY}/{own_path(self.reference.rpartition(':')[0])}:{short(self.image.config)}"

    @property
    def names(self) -> tuple[str, ...]:
        """Everything a host may know this image by: names and IDs."""
        return (self.unique, self.reference, self.image.config, self.image.manifest, self.image.manifest_plain)


def own_path(repository: str) -> str:
    """A repository as it stands behind our own registry: a port or capitals of its host have no place in a path."""
    host, slash, path = repository.partition("/")
    return f"{host.replace(':', '-').lower()}/{path}" if slash else repository


def by_variant(releases: Iterable[Release]) -> list[tuple[Release, ...]]:
    """Releases in groups, one per variant, in order: the same thing for several platforms."""
    groups: dict[str, list[Release]] = {}
    for release in releases:
        groups.setdefault(release.variant, []).append(release)
    return [tuple(group) for group in groups.values()]


def for_platform(group: Sequence[Release], platform: str) -> Release:
    """The release of a variant that fits an engine of this platform; the first where none does."""
    fitting = [release for release in group if same_platform(platform, release.image.platform)]
    return (fitting or list(group))[0]


def same_platform(host: str, image: str) -> bool:
    """Whether an engine of platform `host` runs images of platform `image`; variants of one arch count as one."""
    return host.split("/")[:2] == image.split("/")[:2]


def short(digest: str) -> str:
    """12 hex digits of a digest, for names and for people; never for a comparison."""
    return digest.removeprefix("sha256:")[:12]


def rollback_reference(reference: str, old_id: str) -> str:
    """The name under which the image that `reference` pointed to is kept."""
    return f"{reference.rpartition(':')[0]}:rollback-{short(old_id)}"
