"""Which verbs there are."""

from __future__ import annotations

from invoke import Collection

from sistership.tasks import check, compare, fleet, images, pipelines, prune, push, recipes, start


def namespace() -> Collection:
    """The tasks of `sistership` and, in a project, of `invoke`."""
    ns = Collection()
    for task in (recipes.lock, recipes.render, images.build, images.plan, images.ship, images.verify):
        ns.add_task(task)
    for task in (pipelines.matrix_, pipelines.export, pipelines.import_):
        ns.add_task(task, name=task.body.__name__.rstrip("_"))
    for task in (check.check, compare.reproduce, compare.diff):
        ns.add_task(task)
    ns.add_task(push.push)
    ns.add_task(prune.prune)
    for task in (start.init, start.doctor, start.schema, start.completion):
        ns.add_task(task)
    ns.add_collection(Collection("fleet", fleet.up, fleet.status, fleet.down))
    return ns
