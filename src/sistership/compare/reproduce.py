"""What `reproduce` decides before and after the second build. Pure: building and reading is done elsewhere."""

from __future__ import annotations

import re
from typing import Final

from sistership.compare.model import Comparison, Kind
from sistership.errors import NotReproducibleError

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


def refusal(comparison: Comparison, variant: str, *, inputs: Comparison | None = None) -> NotReproducibleError | None:
    """The error of a second build that gave other bytes; None when it gave the same.

    Args:
        comparison: A is the recorded image, B the second build.
        variant: its name.
        inputs: the two lock entries compared: an input that moved explains a result that moved.
    """
    if comparison.same:
        return None
    told = _told(comparison)
    causes = [cause for cause in comparison.causes if not cause.consequence]
    moved = moved_inputs(inputs) if inputs else ()
    if moved:
        return NotReproducibleError(
            f"the second build is another image: {told}",
            where=variant,
            why=f"an input moved: {', '.join(moved[:3])}",
            hint="build both from one lock: pin bases by digest and packages by snapshot",
        )
    return NotReproducibleError(
        f"the second build is another image: {told}",
        where=variant,
        why=causes[0].why if causes else "no known cause fits; the report above says where",
        hint=causes[0].cure if causes else "ship the recorded image: no gate depends on a rebuild",
    )


def _told(comparison: Comparison) -> str:
    layers = {found.layer for found in comparison.differences if found.layer is not None}
    files = {found.path for found in comparison.differences if found.layer is not None and found.path}
    if not layers:
        return "config differs"
    inside = f"{len(layers)} layer{'s' * (len(layers) != 1)}"
    return f"{len(files)} file{'s' * (len(files) != 1)} in {inside} differ" if files else f"{inside} differ"


def moved_inputs(inputs: Comparison) -> tuple[str, ...]:
    """Names of the inputs that two lock entries do not share, with both values."""
    return tuple(f"{found.path} ({found.detail})" for found in inputs.differences if found.kind is Kind.INPUT)
