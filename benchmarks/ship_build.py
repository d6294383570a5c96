"""What `build` does once the builder has the image: export, canonical form, packing, reading back.

The same functions in the same order as in `sistership.build.build`, without a recipe, since nothing is built here.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from sistership.build.build import builder_peer, path_of
from sistership.build.builder import export, raw_reference
from sistership.image.canonical import canonicalise
from sistership.image.layout import Store
from sistership.image.readback import read_back
from sistership.matrix.model import Host
from sistership.recipe.recipe import Recipe
from sistership.report.listeners import Reporter


def recipe_of(key: str) -> Recipe:
    """As much of a recipe as names the image on its builder."""
    return cast(Recipe, SimpleNamespace(key=key))


def raw_name(key: str) -> str:
    """The name under which a builder has what it built of the recipe `key`."""
    return raw_reference(recipe_of(key))


def finished(
    builder: Host, key: str, instructions: Sequence[str], created: str, store: Store, reporter: Reporter
) -> None:
    """The image that `builder` has just built into the store, recorded.

    Args:
        builder: has it under `raw_name`.
        instructions: those of the final stage, one for each own layer.
        created: ISO date of the image.
        store: holds nothing of it yet.

    Raises:
        SistershipError: as of `build`.
    """
    with builder_peer(builder) as peer, store.scratch() as saved:
        reporter.step(peer.name, "exporting")
        export(peer, recipe_of(key), saved, reporter)
        reporter.step("", "making it canonical")
        image = canonicalise(path_of(saved), instructions=instructions, created=created, store=store)
    reporter.step("", "reading it back")
    read_back(image, store)
    store.record(key, image, created)
