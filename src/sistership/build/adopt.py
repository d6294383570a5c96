"""An export meets a project: whether its lock knows the image, and whether its matrix asks for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sistership.errors import IdentityError
from sistership.image.identity import Image
from sistership.recipe.lock import LockedVariant
from sistership.recipe.recipe import fresh, inputs_of, recipe_of

if TYPE_CHECKING:
    from sistership.image.exported import Exported
    from sistership.matrix.model import Matrix
    from sistership.recipe.lock import Lock


class How(StrEnum):
    """What an import did to the lock."""

    ADDED = "added to the lock"
    KNOWN = "the lock has it already"
    REPACKED = "the lock has it already, with other compressed blobs: it takes these"


@dataclass(frozen=True)
class Adopted:
    """A lock that knows the image.

    Attributes:
        resolved: the variant's resolution came along, since the lock had none that fits the matrix.
        refusal: why the project does not ask for this image; "" when it does, so that `ship` sends it.
    """

    lock: Lock
    how: How
    resolved: bool
    refusal: str


def adopt(matrix: Matrix, lock: Lock, exported: Exported, *, keep: bool) -> Adopted:
    """The project's lock with an exported image in it.

    Args:
        exported: its identity was checked.
        keep: the blobs of the lock's own record are all in the store, so that record stays.

    Raises:
        IdentityError: the lock has another image for this recipe.
    """
    how = _how(lock, exported, keep=keep)
    if how is not How.KNOWN:
        lock = lock.with_image(exported.key, exported.record)
    name = exported.release.variant
    refusal = _refusal(matrix, lock.variants.get(name), exported)
    if not refusal:
        return Adopted(lock, how, resolved=False, refusal="")
    theirs = _fitting(matrix, lock, exported)
    if theirs is None:
        return Adopted(lock, how, resolved=False, refusal=refusal)
    return Adopted(lock.with_variant(name, theirs), how, resolved=True, refusal="")


def _how(lock: Lock, exported: Exported, *, keep: bool) -> How:
    record = lock.images.get(exported.key)
    if record is None:
        return How.ADDED
    ours, theirs = Image.from_json(record), exported.image
    if (ours.config, ours.diff_ids) != (theirs.config, theirs.diff_ids):
        raise IdentityError(
            f"the lock has another image for this recipe of {exported.release.variant}",
            why=f"config {ours.config[7:19]} in the lock, {theirs.config[7:19]} in the file: it was built twice",
            hint="decide for one: ship the lock's, or remove its entry from `images` and import again",
        )
    return How.KNOWN if keep or ours == theirs else How.REPACKED


def _refusal(matrix: Matrix, locked: LockedVariant | None, exported: Exported) -> str:
    """Why the matrix with this resolution does not ask for the image; "" when it does."""
    name, platform = exported.release.variant, exported.image.platform
    variant = matrix.variants.get(name)
    if variant is None:
        return f"the matrix has no variant {name}"
    if platform not in variant.platforms:
        return f"the matrix has {name} for {', '.join(variant.platforms)} only"
    if locked is None:
        return f"{name} is not locked here"
    if not fresh(matrix, variant, locked):
        return f"{name} in the matrix changed since it was locked"
    if recipe_of(matrix, variant, platform, locked).key != exported.key:
        return f"matrix and lock here ask for another recipe of {name}: commit, flags, template or version differ"
    return ""


def _fitting(matrix: Matrix, lock: Lock, exported: Exported) -> LockedVariant | None:
    """The export's own resolution, where this project has none that holds, and the recipe key proves it."""
    variant, resolved = matrix.variants.get(exported.release.variant), exported.resolved
    if variant is None or resolved is None or fresh(matrix, variant, lock.variants.get(variant.name)):
        return None
    try:
        theirs = LockedVariant.from_json(resolved)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if theirs.inputs != inputs_of(matrix, variant):
        return None
    return theirs if not _refusal(matrix, theirs, exported) else None
