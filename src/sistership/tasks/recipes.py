"""What will be built: `lock` and `render`."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context

from sistership.errors import UsageError
from sistership.report.events import Archived, Moved, Note, Resolved
from sistership.tasks.run import Run
from sistership.tasks.verb import say, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sistership.matrix.model import Variant
    from sistership.recipe.recipe import Recipe
    from sistership.tasks.session import Session


@verb(json="lines")
def lock(
    run: Run,
    *,
    variant: str | None = None,
    matrix: str | None = None,
    source: list[str] | None = None,
    upgrade: bool = False,
    locked: bool = False,
    archive_bases: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Resolve commits, patches and bases into buildmatrix.lock.json; every patch is tried."""
    del json  # the run knows
    from sistership.recipe.moves import moved  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.tasks.session import Session  # noqa: PLC0415 - keeps --list and --help quick

    session = Session.open(matrix, source=source or ())
    chosen = session.variants(variant)
    session.warn(chosen)
    before = session.lock
    session.resolve(chosen, upgrade=upgrade, locked=locked, dry=dry_run)
    for each in chosen:
        found = session.lock.variants[each.name]
        old = before.variants.get(each.name)
        moves = tuple(Moved(move.what, move.old, move.new, move.note) for move in moved(old, found))
        run.reporter.tell(
            Resolved(each.name, found.commit, found.number, found.tree, len(found.patches), old != found, moves)
        )
        if run.json:
            continue
        say(f"{each.name}: {found.commit[:12]} b{found.number}, tree {found.tree[:12]}, {len(found.patches)} patches")
    if archive_bases:
        archive(session, chosen, run, dry=dry_run)


def archive(session: Session, chosen: Sequence[Variant], run: Run, *, dry: bool) -> None:
    """Keep the bases of these variants in the store, each once, fetched by the builder that builds on it.

    Args:
        dry: say which are not there yet, and fetch nothing.
    """
    from sistership.build import bases as rooms  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.build.build import builder_host, builder_peer  # noqa: PLC0415
    from sistership.image.bases import Base, kept  # noqa: PLC0415

    store = session.store()
    wanted = {
        Base(reference, platform): builder_host(session.matrix, each, platform)
        for each in chosen
        for platform in each.platforms
        for reference in session.lock.variants[each.name].bases.values()
    }
    if dry:
        for base in wanted:
            there = kept(base, store, deep=False)
            session.reporter.tell(Note(f"{base}: {'archived already' if there else 'would be archived'}"))
        return
    found = []
    for base, builder in wanted.items():
        with builder_peer(builder) as peer:
            found.append(rooms.archive(peer, base, store, session.reporter))
        image = found[-1].image
        size = sum(layer.size for layer in {layer.digest: layer for layer in image.layers}.values())
        run.reporter.tell(Archived(base.reference, base.platform, image.config, len(image.layers), size, found[-1].new))
    if not run.json:
        say(f"archived: {rooms.summary(found)}")


@verb
def render(
    c: Context,
    *,
    variant: str | None = None,
    matrix: str | None = None,
    output: str | None = None,
    source: list[str] | None = None,
) -> None:
    """Print Dockerfiles, or write them with their build contexts; needs no lock and no network to print."""
    del c
    from sistership.recipe.recipe import recipe_of  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.recipe.render import dockerfile  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix, source=source or ())
    chosen = session.variants(variant)
    session.warn(chosen)
    if output is not None:
        session.resolve(chosen)
        for recipe in session.recipes(chosen, with_source=True):
            several = len(recipe.variant.platforms) > 1
            platform = recipe.platform.replace("/", "-")
            folder = Path(output) / (f"{recipe.variant.name}-{platform}" if several else recipe.variant.name)
            write_folder(recipe, folder)
            say(f"{folder}/Dockerfile")
        return
    for each in chosen:
        locked = session.lock.variants.get(each.name)
        for platform in each.platforms:
            if locked is not None and session.stale(each) is None:
                text = recipe_of(session.matrix, each, platform, locked).dockerfile
            else:
                text = dockerfile(session.matrix, each, platform, None)
            say(text.rstrip("\n"))


def write_folder(recipe: Recipe, folder: Path) -> None:
    """The Dockerfile and its context as a folder that plain `docker build` takes.

    Raises:
        UsageError: the folder exists and is not empty; nothing is ever written over.
    """
    from sistership.recipe.context import write_context  # noqa: PLC0415 - keeps --list and --help quick

    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="choose another --output, or empty it")
    if recipe.repo is None:
        raise UsageError(f"{recipe.variant.name} is not resolved", hint="sistership lock")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its place and renamed: a run that was cut leaves no half folder behind that looks whole.
    with (
        tempfile.TemporaryFile() as context,
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".render-") as beside,
    ):
        write_context(recipe, recipe.repo, context)
        context.seek(0)
        with tarfile.open(fileobj=context) as tar:
            tar.extractall(Path(beside) / "context", filter="data")
        (Path(beside) / "context").replace(folder)
