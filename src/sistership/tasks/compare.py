"""What is equal and what is not: `reproduce`, `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sistership.errors import NotReproducibleError, UsageError
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, print_json, say, verb

if TYPE_CHECKING:
    from sistership.compare import Comparison
    from sistership.image.release import Release
    from sistership.tasks.session import Session


@verb
def reproduce(
    run: Run,
    *,
    variant: str | None = None,
    builder: str | None = None,
    matrix: str | None = None,
    source: list[str] | None = None,
    json: bool = False,
) -> None:
    """Build one variant again without any cache and compare it with the recorded image; exit 14 when they differ."""
    from sistership.build import build as rooms  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.build.reproduce import reproduce as again  # noqa: PLC0415
    from sistership.compare.reproduce import refusal  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix, source=source or ())
    chosen = session.variants(variant)
    if len(chosen) != 1:
        raise UsageError("reproduce builds one variant at a time", hint="sistership reproduce --variant NAME")
    hosts = session.hosts(builder) if builder is not None else ()
    if len(hosts) > 1:
        raise UsageError(f"--builder {builder} names {len(hosts)} hosts", hint="name the one that builds again")
    releases = {release.image.platform: release for release in session.releases(chosen[0].name)}
    for recipe in session.recipes(chosen, with_source=True):
        if recipe.platform not in releases:
            continue  # not built yet: the session has said so, and there is nothing to compare with
        place = hosts[0] if hosts else rooms.builder_host(session.matrix, recipe.variant, recipe.platform)
        found = again(place, recipe, releases[recipe.platform], session.store(), run.reporter)
        show(found, as_json=json)
        error = refusal(found, recipe.variant.name)
        if error is not None and json:
            finish(error.code)  # the document says it all, and standard output holds one document only
        elif error is not None:
            raise error


@verb
def diff(run: Run, first: str, second: str, *, matrix: str | None = None, json: bool = False) -> None:
    """Compare two images down to file, section and cause: files of `export` or `docker save`, or built variants."""
    del run
    from sistership import compare  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.tasks.session import Session  # noqa: PLC0415

    files = [Path(name) for name in (first, second) if Path(name).is_file()]
    session = None if len(files) == 2 else Session.open(matrix)  # noqa: PLR2004 - two sides
    if len(files) == 2:  # noqa: PLR2004 - two sides
        from sistership.image.layout import Store  # noqa: PLC0415
        from sistership.places import store  # noqa: PLC0415

        found = compare.saved(files[0], files[1], Store(store()).scratch, names=(first, second))
    elif not files and session is not None:
        one, two = release_of(session, first), release_of(session, second)
        blobs = session.store()
        found = compare.images(one.image, blobs, two.image, blobs, names=(first, second))
    else:
        raise UsageError(
            "diff compares two files or two built variants, not one of each",
            hint="sistership export --variant NAME --output FILE makes a file of a variant",
        )
    show(found, as_json=json)
    finish(0 if found.same else NotReproducibleError.code)


def release_of(session: Session, name: str) -> Release:
    """A built variant by name, or an image of the lock by the first digits of its recipe key or config digest.

    Raises:
        UsageError: nothing or several things are meant.
    """
    from sistership.image.release import Release  # noqa: PLC0415 - keeps --list and --help quick

    if name in session.matrix.variants:
        return session.releases(name)[0]
    digits = name.removeprefix("sha256:")
    found = [
        Release.from_record(key, record)
        for key, record in session.lock.images.items()
        if key.startswith(digits) or str(record.get("config", "")).removeprefix("sha256:").startswith(digits)
    ]
    if len(found) != 1 or len(digits) < 6:  # noqa: PLR2004 - fewer digits are a typo rather than a name
        kind = "no file, variant or image of the lock" if not found else "several images of the lock"
        raise UsageError(
            f"{name}: {kind}", hint="name a file, a variant, or more digits of a recipe key or config digest"
        )
    return found[0]


def show(found: Comparison, *, as_json: bool) -> None:
    """A comparison for people or as a document."""
    from sistership.compare import report  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.report.table import terminal_width  # noqa: PLC0415

    if as_json:
        print_json(report.json(found))
    else:
        say(report.text(found, terminal_width()))
