"""Which verbs there are."""

from __future__ import annotations

from invoke import Collection

from sistership.tasks import fleet, images, recipes


def namespace() -> Collection:
    """The tasks of `sistership` and, in a project, of `invoke`."""
    ns = Collection()
    for task in (recipes.lock, recipes.render, images.build, images.plan, images.ship, images.verify):
        ns.add_task(task)
    ns.add_collection(Collection("fleet", fleet.up, fleet.status, fleet.down))
    return ns
