"""Which verbs there are."""

from __future__ import annotations

from invoke import Collection


def namespace() -> Collection:
    """The tasks of `sistership` and, in a project, of `invoke`."""
    from sistership.tasks import fleet, images, recipes  # noqa: PLC0415 - tasks.py asks for the namespace alone

    ns = Collection()
    for task in (recipes.lock, recipes.render, images.build, images.plan, images.ship, images.verify):
        ns.add_task(task)
    ns.add_collection(Collection("fleet", fleet.up, fleet.status, fleet.down))
    return ns
