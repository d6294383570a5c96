"""What there is to build: one job per variant and platform, from matrix and lock alone. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sistership.build.build import builder_host
from sistership.image.release import Release
from sistership.matrix.cuda import runs_on
from sistership.recipe.recipe import fresh, recipe_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sistership.matrix.model import Host, Matrix, Variant
    from sistership.recipe.lock import Lock


@dataclass(frozen=True)
class Job:
    """One image to be.

    Attributes:
        recipe: recipe key, 64 hex digits; None while the variant is not locked as the matrix has it.
        builder: the host that builds it.
        built: the lock records its image.
        stored: every blob of that image is in the local store, by size.
        hosts: the machines of the inventory that it is for, by platform and GPU.
    """

    variant: str
    platform: str
    image: str
    tag: str
    recipe: str | None
    builder: str
    built: bool
    stored: bool
    hosts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Unique, and allowed as the name of a job, an artefact or a file."""
        return f"{self.variant}-{self.platform.replace('/', '-')}"

    @property
    def state(self) -> str:
        """In words, for people."""
        if self.recipe is None:
            return "not locked"
        if not self.built:
            return "to be built"
        return "built, in the store" if self.stored else "built, not in the store"

    def to_json(self) -> dict[str, Any]:
        """As `matrix --json` shows it."""
        return {
            "name": self.name,
            "variant": self.variant,
            "platform": self.platform,
            "image": self.image,
            "tag": self.tag,
            "recipe": self.recipe,
            "builder": self.builder,
            "built": self.built,
            "stored": self.stored,
            "hosts": list(self.hosts),
        }


def jobs(matrix: Matrix, variants: Sequence[Variant], lock: Lock, stored: Callable[[Release], bool]) -> tuple[Job, ...]:
    """The jobs of these variants, in the order of the matrix.

    Args:
        stored: whether the local store has all blobs of a release.

    Raises:
        MatrixError: a template is wrong.
        LockError: an image record in the lock is damaged.
    """
    return tuple(
        _job(matrix, variant, platform, lock, stored) for variant in variants for platform in variant.platforms
    )


def _job(matrix: Matrix, variant: Variant, platform: str, lock: Lock, stored: Callable[[Release], bool]) -> Job:
    locked = lock.variants.get(variant.name)
    current = locked is not None and fresh(matrix, variant, locked)
    key = recipe_of(matrix, variant, platform, locked).key if locked is not None and current else None
    record = lock.images.get(key) if key else None
    return Job(
        variant=variant.name,
        platform=platform,
        image=variant.image,
        tag=variant.tag,
        recipe=key,
        builder=builder_host(matrix, variant, platform).name,
        built=record is not None,
        stored=key is not None and record is not None and stored(Release.from_record(key, record)),
        hosts=tuple(host.name for host in matrix.hosts.values() if _is_for(variant, platform, host)),
    )


def _is_for(variant: Variant, platform: str, host: Host) -> bool:
    """Whether a host can use the image, as far as the inventory says; what it does not say excludes nothing."""
    if host.platform is not None and host.platform.split("/")[:2] != platform.split("/")[:2]:
        return False
    archs = variant.cuda.archs if variant.cuda else ()
    return not archs or all(runs_on(archs, gpu) for gpu in host.gpu)


def github(found: Iterable[Job]) -> str:
    """One line for $GITHUB_OUTPUT: a matrix of what is not built yet, `matrix={"include":[]}` when all is.

    GitHub refuses a job with an empty matrix: let the job's `if` compare with that very text.
    """
    keys = ("name", "variant", "platform", "image", "tag", "builder")
    include = [{key: job.to_json()[key] for key in keys} for job in found if not job.built]
    return "matrix=" + json.dumps({"include": include}, separators=(",", ":"))
