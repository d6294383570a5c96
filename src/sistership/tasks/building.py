"""Having an image of each recipe: in the store, in the lock, and in the engine that built it."""

from __future__ import annotations

from sistership.build import build as rooms
from sistership.errors import SistershipError
from sistership.image.bases import Base, require
from sistership.recipe.recipe import Recipe
from sistership.report.events import Built, Note
from sistership.tasks.session import Session


def build_one(session: Session, recipe: Recipe, *, offline: bool = False) -> Built:
    """Have a recipe's image in the store, in the lock, and where it was built."""
    store = session.store()
    builder = rooms.builder_host(session.matrix, recipe.variant, recipe.platform)
    peers = tuple(session.matrix.hosts.values())
    bases = bases_of(session, recipe) if offline else None
    built = rooms.build(recipe, session.lock, store, builder, peers, session.reporter, bases=bases)
    known = built.release.files if built.how == "built" else None
    record = rooms.record_of(recipe, built.release.image, store, built.measured, known)
    # Before it is recorded, so that a run that ended here is finished by the next one, not found "already built".
    if built.how == "built":
        try:
            rooms.load_on_builder(builder, built.release, store, session.reporter)
        except SistershipError:
            session.record(recipe.key, record)
            session.reporter.tell(Note(only_stored(session, recipe.variant.name, builder.name)))
            raise
    session.record(recipe.key, record)
    release = built.release
    return Built(
        recipe.variant.name,
        recipe.platform,
        recipe.key,
        built.how,
        builder.name,
        release.reference,
        release.image.config,
    )


def only_stored(session: Session, variant: str, builder: str) -> str:
    """What to say when an image was built, and did not get into the engine that built it."""
    told = f"{variant} is built, in the store and in the lock; only the engine of {builder} lacks it"
    return f"{told}: sistership ship --variant {variant} --hosts {builder}" if builder in session.matrix.hosts else told


def would_build(session: Session, recipe: Recipe, *, offline: bool = False) -> Built:
    """What `build` would do for a recipe.

    Raises:
        LockError: it would be built offline, and a base of it is not archived.
    """
    recorded, whole = rooms.already_built(recipe, session.lock, session.store())
    how = "already built" if whole else ("recorded, blobs missing" if recorded else "to be built")
    if offline and not whole:
        require(bases_of(session, recipe), session.store(), recipe.variant.name)
    builder = rooms.builder_host(session.matrix, recipe.variant, recipe.platform)
    return Built(recipe.variant.name, recipe.platform, recipe.key, how, builder.name)


def bases_of(session: Session, recipe: Recipe) -> list[Base]:
    """The bases that a recipe is built on, as the lock pins them."""
    pins = session.lock.variants[recipe.variant.name].bases.values()
    return [Base(reference, recipe.platform) for reference in dict.fromkeys(pins)]
