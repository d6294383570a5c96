"""The same recipe built a second time from nothing, and compared with what the lock records."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sistership import compare
from sistership.build.build import build_on
from sistership.build.inputs import asked
from sistership.compare.records import INPUTS, unrecorded
from sistership.compare.reproduce import check_dockerfile
from sistership.errors import LockError
from sistership.image.bases import Base
from sistership.image.layout import Store
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.recipe.recipe import Recipe
from sistership.report.listeners import Reporter


@dataclass(frozen=True)
class Reproduced:
    """What a second build gave.

    Attributes:
        comparison: A is the recorded image, B the second build; inputs that moved are among its differences.
        moved: these inputs; an input that either side does not know is none of them.
    """

    comparison: compare.Comparison
    moved: tuple[compare.Moved, ...]


def reproduce(
    builder: Host,
    recipe: Recipe,
    recorded: Release,
    record: Mapping[str, Any],
    store: Store,
    reporter: Reporter,
    *,
    bases: Sequence[Base] | None = None,
) -> Reproduced:
    """Build `recipe` on `builder` without any cache and compare; nothing that was recorded is changed.

    Args:
        recorded: the image that the lock has for this recipe.
        record: its entry in the lock, for the inputs that it was made from.
        bases: taken from the store in place of their registry; None: from the registry.

    Raises:
        BuildError: the second build failed.
        LockError: the recorded image's blobs are not in the store, so there is nothing to compare with; or a base
            is not archived.
    """
    missing = store.image_complete(recorded.image)
    if missing:
        raise LockError(
            f"{len(missing)} blobs of the recorded image are not in the store",
            where=str(store.root),
            hint=f"sistership build --variant {recipe.variant.name} brings them back from a host",
        )
    again = replace(recipe, dockerfile=check_dockerfile(recipe.dockerfile, secrets.token_hex(4)))
    made = build_on(builder, again, store, reporter, no_cache=True, verb="reproduce", bases=bases)
    names = ("recorded", f"built on {builder.name}")
    found = compare.images(recorded.image, store, made.image, store, names=names)
    return with_inputs(found, record, {**asked(recipe), **made.measured})


def with_inputs(found: compare.Comparison, record: Mapping[str, Any], again: Mapping[str, Any]) -> Reproduced:
    """A comparison of two images together with that of their inputs. Pure.

    Args:
        record: the lock's entry of A.
        again: the inputs of B, by the same names.
    """
    old, new = ({name: side[name] for name in INPUTS if name in side} for side in (record, again))
    inputs = tuple(compare.inputs(old, new))
    unread = (*found.unread, *unrecorded(old, new, (found.a.name, found.b.name)))
    whole = replace(found, differences=(*found.differences, *inputs), unread=unread)
    return Reproduced(whole, compare.moved(old, new))
