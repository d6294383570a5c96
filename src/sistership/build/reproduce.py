"""The same recipe built a second time from nothing, and compared with what the lock records."""

from __future__ import annotations

import secrets
from dataclasses import replace

from sistership import compare
from sistership.build.build import build_on
from sistership.compare.reproduce import check_dockerfile
from sistership.errors import LockError
from sistership.image.layout import Store
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.recipe.recipe import Recipe
from sistership.report.events import Reporter


def reproduce(builder: Host, recipe: Recipe, recorded: Release, store: Store, reporter: Reporter) -> compare.Comparison:
    """Build `recipe` on `builder` without any cache and compare; nothing that was recorded is changed.

    Raises:
        BuildError: the second build failed.
        LockError: the recorded image's blobs are not in the store, so there is nothing to compare with.
    """
    missing = store.image_complete(recorded.image)
    if missing:
        raise LockError(
            f"{len(missing)} blobs of the recorded image are not in the store",
            where=str(store.root),
            hint=f"sistership build --variant {recipe.variant.name} brings them back from a host",
        )
    again = replace(recipe, dockerfile=check_dockerfile(recipe.dockerfile, secrets.token_hex(4)))
    image = build_on(builder, again, store, reporter, no_cache=True)
    return compare.images(recorded.image, store, image, store, names=("recorded", f"built on {builder.name}"))
