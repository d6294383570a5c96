"""What `reproduce` decides before and after the second build. Pure: building and reading is done elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from sistership.compare.model import Cause, Comparison, Kind, ranked
from sistership.compare.records import Moved
from sistership.errors import NotReproducibleError

#: How one and how several of a group are called.
_WORDS: Final = {
    "toolchain": ("a tool", "tools"),
    "packages": ("a package", "packages"),
    "bases": ("a base", "bases"),
    "patches": ("a patch", "patches"),
    "flags": ("a flag", "flags"),
}
_DIGEST: Final = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
#: Versions are told in full up to this many characters.
_LONG: Final = 60
_MOUNT: Final = re.compile(r"(--mount=type=cache\b[^\s\\]*?\bid=)([^,\s\\]+)")


def check_dockerfile(dockerfile: str, run: str) -> str:
    """The Dockerfile with cache mounts of this run alone.

    `--no-cache` does not empty cache mounts for one build only: on the same id it takes them away from later builds,
    and a check that reads the first build's compiler cache proves nothing (measured with buildx 0.29).
    The id is in no layer and no label, so the image stays the same.

    Args:
        dockerfile: the rendered text.
        run: what makes the ids of this run unlike any other; letters, digits and dashes.
    """
    return _MOUNT.sub(lambda found: f"{found[1]}{found[2]}-{run}", dockerfile)


def refusal(comparison: Comparison, variant: str, *, moved: Sequence[Moved] = ()) -> NotReproducibleError | None:
    """The error of a second build that gave other bytes; None when it gave the same.

    Args:
        comparison: A is the recorded image, B the second build.
        variant: its name.
        moved: the inputs that the two do not share: one that moved explains a result that moved.
    """
    if comparison.same:
        return None
    told = _told(comparison)
    causes = _causes(comparison)
    if moved:
        why = moved_text(moved)
        return NotReproducibleError(
            f"the second build is another image: {told}",
            where=variant,
            # An input that moved need not be all: the time of the build in a program is there in any case.
            why=f"{why}; besides, {causes[0].why}" if causes else why,
            hint="build both from one lock: pin bases by digest and packages by snapshot",
        )
    return NotReproducibleError(
        f"the second build is another image: {told}",
        where=variant,
        why=causes[0].why if causes else "no known cause fits; the report above says where",
        hint=causes[0].cure if causes else "ship the recorded image: no gate depends on a rebuild",
    )


def agreement(comparison: Comparison, moved: Sequence[Moved]) -> str:
    """One line for a second build that gave the same image although inputs moved; "" otherwise."""
    return f"the same although {moved_text(moved)}" if comparison.same and moved else ""


def moved_text(moved: Sequence[Moved]) -> str:
    """Inputs that moved in one line: per group one in full, the others counted; "" when none did."""
    groups = [list(group) for _, group in groupby(moved, key=lambda row: row.group)]
    return "; ".join(_group_text(group) for group in groups)


def _group_text(group: Sequence[Moved]) -> str:
    one, several = _WORDS.get(group[0].group, (f"the {group[0].group}", group[0].group))
    first = _row_text(group[0])
    if len(group) == 1:
        return f"{one} moved: {first}"
    return f"{len(group)} {several} moved, first: {first}"


def _row_text(row: Moved) -> str:
    old, new = _shown(row.old), _shown(row.new)
    # most tools begin with their name
    name = f"{row.name} " if row.name and not (new or old).startswith(f"{row.name} ") else ""
    if not old:
        return f"{name}{new} is new"
    return f"{name}{old} → {new}" if new else f"{name}{old} is gone"


def _shown(value: str) -> str:
    value = _DIGEST.sub(lambda found: found[0][:12], value)
    return value if len(value) <= _LONG else f"{value[:_LONG]}…"


def _causes(comparison: Comparison) -> list[Cause]:
    """Causes that can be cured, of what differs in the image itself."""
    own = [found for found in comparison.differences if found.kind is not Kind.INPUT]
    return [cause for cause in ranked(found.causes for found in own) if not cause.consequence]


def _told(comparison: Comparison) -> str:
    layers = {found.layer for found in comparison.differences if found.layer is not None}
    files = {found.path for found in comparison.differences if found.layer is not None and found.path}
    if not layers:
        return "config differs"
    inside = f"{len(layers)} layer{'s' * (len(layers) != 1)}"
    return f"{len(files)} file{'s' * (len(files) != 1)} in {inside} differ" if files else f"{inside} differ"
