"""What is equal and what is not: `reproduce`, `diff`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from sistership.errors import NotReproducibleError, UsageError
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, print_json, say, verb

if TYPE_CHECKING:
    from sistership.compare import Comparison


@verb
def reproduce(
    run: Run,
    *,
    variant: str | None = None,
    builder: str | None = None,
    matrix: str | None = None,
    source: list[str] | None = None,
    offline: bool = False,
    json: bool = False,
) -> None:
    """Build one variant again without any cache and compare it with the recorded image; exit 14 when they differ."""
    from sistership.build import build as rooms  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.build.reproduce import reproduce as again  # noqa: PLC0415
    from sistership.compare.reproduce import agreement, refusal  # noqa: PLC0415
    from sistership.tasks.building import bases_of  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix, source=source or ())
    chosen = session.variants(variant)
    if len(chosen) != 1:
        raise UsageError("reproduce builds one variant at a time", hint="sistership reproduce --variant NAME")
    hosts = session.hosts(builder, "--builder") if builder is not None else ()
    if len(hosts) > 1:
        raise UsageError(f"--builder {builder} names {len(hosts)} hosts", hint="name the one that builds again")
    releases = {release.image.platform: release for release in session.releases(chosen[0].name)}
    for recipe in session.recipes(chosen, with_source=True):
        if recipe.platform not in releases:
            continue  # not built yet: the session has said so, and there is nothing to compare with
        place = hosts[0] if hosts else rooms.builder_host(session.matrix, recipe.variant, recipe.platform)
        record = session.lock.images[recipe.key]
        bases = bases_of(session, recipe) if offline else None
        found = again(place, recipe, releases[recipe.platform], record, session.store(), run.reporter, bases=bases)
        show(found.comparison, as_json=json)
        if not json and (line := agreement(found.comparison, found.moved)):
            say(line)
        error = refusal(found.comparison, recipe.variant.name, moved=found.moved)
        if error is not None and json:
            finish(error.code)  # the document says it all, and standard output holds one document only
        elif error is not None:
            raise error


@verb
def diff(run: Run, first: str, second: str, *, matrix: str | None = None, json: bool = False) -> None:
    """Compare two images down to file, section and cause: files, built variants, or what hosts hold, in any mix."""
    del run
    from sistership.image.layout import Store  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.places import store  # noqa: PLC0415
    from sistership.tasks.between import between  # noqa: PLC0415
    from sistership.tasks.named import named  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = functools.cache(lambda: Session.open(matrix))
    sides = [named(word, matrix, session) for word in (first, second)]
    found = between(sides[0], sides[1], session, Store(store()))
    show(found, as_json=json)
    finish(0 if found.same else NotReproducibleError.code)


def show(found: Comparison, *, as_json: bool) -> None:
    """A comparison for people or as a document."""
    from sistership.compare import report  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.report.table import terminal_width  # noqa: PLC0415

    if as_json:
        print_json(report.json(found))
    else:
        say(report.text(found, terminal_width()))
