"""Images: `build`, `plan`, `ship`, `verify`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Context

from sistership.errors import UsageError
from sistership.report.events import Begin, Built, Note
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, json_text, positive, print_json, say, verb

if TYPE_CHECKING:
    from sistership.image.bases import Base
    from sistership.recipe.recipe import Recipe
    from sistership.tasks.session import Session


@verb(json="lines")
def build(
    run: Run,
    *,
    variant: str | None = None,
    platform: str | None = None,
    matrix: str | None = None,
    source: list[str] | None = None,
    locked: bool = False,
    offline: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Build each image once; what the lock and the store hold already is not built again."""
    del json  # the run knows
    from sistership.tasks.session import Session  # noqa: PLC0415 - keeps --list and --help quick

    session = Session.open(matrix, source=source or ())
    chosen = session.variants(variant, platform)
    session.warn(chosen)
    # What is not locked would have to be asked from a registry.
    session.resolve(chosen, locked=locked or offline, dry=dry_run)
    for recipe in session.recipes(chosen, with_source=not dry_run):
        name = f"{recipe.variant.name} ({recipe.platform})"
        run.reporter.tell(Begin(name, recipe.variant.name, recipe.platform, recipe.key))
        built = (would_build if dry_run else build_one)(session, recipe, offline=offline)
        run.reporter.tell(built)
        if run.json:
            continue
        if built.image is None:
            say(f"{name}: recipe {recipe.key[:12]}, {built.how} on {built.builder}")
        else:
            say(f"{name}: {built.how}: {built.image}  config {(built.config or '')[7:19]}")


def build_one(session: Session, recipe: Recipe, *, offline: bool = False) -> Built:
    """Have a recipe's image in the store, in the lock, and where it was built."""
    from sistership.build import build as rooms  # noqa: PLC0415 - keeps --list and --help quick

    store = session.store()
    builder = rooms.builder_host(session.matrix, recipe.variant, recipe.platform)
    peers = tuple(session.matrix.hosts.values())
    bases = bases_of(session, recipe) if offline else None
    built = rooms.build(recipe, session.lock, store, builder, peers, session.reporter, bases=bases)
    known = built.release.files if built.how == "built" else None
    record = rooms.record_of(recipe, built.release.image, store, built.measured, known)
    try:
        # First, so that a run that was killed here is finished by the next one instead of found "already built".
        if built.how == "built":
            rooms.load_on_builder(builder, built.release, store, session.reporter)
    finally:
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


def bases_of(session: Session, recipe: Recipe) -> list[Base]:
    """The bases that a recipe is built on, as the lock pins them."""
    from sistership.image.bases import Base  # noqa: PLC0415 - keeps --list and --help quick

    pins = session.lock.variants[recipe.variant.name].bases.values()
    return [Base(reference, recipe.platform) for reference in dict.fromkeys(pins)]


def would_build(session: Session, recipe: Recipe, *, offline: bool = False) -> Built:
    """What `build` would do for a recipe.

    Raises:
        LockError: it would be built offline, and a base of it is not archived.
    """
    from sistership.build import build as rooms  # noqa: PLC0415 - keeps --list and --help quick

    recorded, whole = rooms.already_built(recipe, session.lock, session.store())
    how = "already built" if whole else ("recorded, blobs missing" if recorded else "to be built")
    if offline and not whole:
        from sistership.image.bases import require  # noqa: PLC0415 - seldom needed

        require(bases_of(session, recipe), session.store(), recipe.variant.name)
    builder = rooms.builder_host(session.matrix, recipe.variant, recipe.platform)
    return Built(recipe.variant.name, recipe.platform, recipe.key, how, builder.name)


@verb
def plan(
    c: Context,
    *,
    variant: str | None = None,
    hosts: str | None = None,
    matrix: str | None = None,
    out: str | None = None,
    detailed_exitcode: bool = False,
    json: bool = False,
    jobs: str = "16",
) -> None:
    """Show what `ship` would do: per host what it has, what would be sent, what would move. Changes nothing."""
    del c
    from sistership.recipe.files import write_atomic  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.ship.planfile import pending  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix)
    document = plans(session, variant, hosts, as_text=not json, jobs=positive(jobs, "--jobs"))
    if json:
        print_json(document)
    if out is not None and document["exit"] == 0:
        write_atomic(Path(out), (json_text(document) + "\n").encode())
        session.reporter.tell(Note(f"sistership ship --plan {out} does exactly this, or refuses"))
    elif not json and pending(document):
        say(f"next: {next_command(variant, hosts, matrix)}")
    finish(plan_code(document, detailed=detailed_exitcode))


def next_command(variant: str | None, hosts: str | None, matrix: str | None) -> str:
    """The ship that does what a plan with these flags showed."""
    flags = {"--variant": variant, "--hosts": hosts, "--matrix": matrix}
    given = [word for flag, value in flags.items() if value is not None for word in (flag, value)]
    return shlex.join(["sistership", "ship", *given])


@verb(json="lines")
def ship(
    run: Run,
    *,
    variant: str | None = None,
    hosts: str | None = None,
    matrix: str | None = None,
    plan: str | None = None,
    dry_run: bool = False,
    detailed_exitcode: bool = False,
    jobs: str = "16",
    json: bool = False,
) -> None:
    """Send built images to hosts, load and verify them there, then move the tag."""
    del json  # the run knows
    from sistership.host.inventory import connected  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.release import by_variant  # noqa: PLC0415
    from sistership.ship import ship as rooms  # noqa: PLC0415
    from sistership.tasks import show  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix)
    at_once = positive(jobs, "--jobs")
    if plan is not None:
        variant, hosts = planned(session, plan, variant, hosts, jobs=at_once)
    if dry_run:
        document = plans(session, variant, hosts, as_text=not run.json, jobs=at_once)
        for event in show.planned_events(document):
            run.reporter.tell(event)
        finish(plan_code(document, detailed=detailed_exitcode))
        return
    chosen, releases = session.hosts(hosts), session.releases(variant)
    store = session.store()
    results: list[rooms.Shipped] = []

    def ended(shipped: rooms.Shipped, seconds: float) -> None:
        run.reporter.tell(show.outcome(shipped, seconds))

    with connected(chosen) as peers:
        for group in by_variant(releases):
            for release in group:
                run.reporter.tell(show.begin(release, [peer.name for peer in peers]))
            results.extend(rooms.ship_all(peers, group, store, run.reporter, ended, jobs=at_once))
    if not run.json:
        say(show.shipped_text(results))
    finish(rooms.exit_code(results))


@verb
def verify(
    c: Context,
    *,
    variant: str | None = None,
    hosts: str | None = None,
    matrix: str | None = None,
    deep: bool = False,
    expect: str | None = None,
    json: bool = False,
    jobs: str = "16",
) -> None:
    """Prove that every host holds the same whole image; a container is made and removed on each."""
    del c
    from sistership.host.facts import same_daemons  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.host.inventory import connected  # noqa: PLC0415
    from sistership.tasks import show  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415
    from sistership.verify.hosts import exit_code, verify_all  # noqa: PLC0415

    session = Session.open(matrix)
    chosen = session.hosts(hosts)
    releases = session.releases(variant) if expect is None else session.expected(expect, variant)
    with connected(chosen) as peers:
        session.reporter.step("", asking(len(peers)))
        verdicts = verify_all(peers, releases, deep=deep, jobs=positive(jobs, "--jobs"))
    for names in same_daemons({each.host: each.facts for each in verdicts if each.facts}):
        session.reporter.step("", f"warning: {' and '.join(names)} are one engine under several names")
    code = exit_code(verdicts)
    if json:
        print_json(show.verdicts_json(verdicts, code))
    else:
        say(show.verdicts_text(verdicts))
    finish(code)


def plans(session: Session, variant: str | None, hosts: str | None, *, as_text: bool, jobs: int) -> dict[str, Any]:
    """Plans of every selected variant on every selected host as one document; as text too where that is wanted."""
    from sistership.errors import SistershipError, worst  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.host.inventory import connected  # noqa: PLC0415
    from sistership.image.release import by_variant  # noqa: PLC0415
    from sistership.ship.ship import plan_all  # noqa: PLC0415
    from sistership.tasks import show  # noqa: PLC0415

    chosen, releases = session.hosts(hosts), session.releases(variant)
    store = session.store()
    codes: list[int] = []
    images: list[dict[str, Any]] = []
    with connected(chosen) as peers:
        session.reporter.step("", asking(len(peers)))
        for group in by_variant(releases):
            found = plan_all(peers, group, store, jobs=jobs)
            named = list(zip((peer.name for peer in peers), found, strict=True))
            codes += [each.code if isinstance(each, SistershipError) else 0 for each in found]
            image = show.release_json(group[0])
            image["hosts"] = [show.plan_json(host, each) for host, each in named]
            images.append(image)
            if as_text:
                say("\n".join(map(show.expectation, group)))
                say("\n".join(show.plan_text(host, each) for host, each in named))
    return {"version": show.JSON_VERSION, "kind": "plan", "exit": worst(codes), "images": images}


def asking(count: int) -> str:
    """What people read while hosts answer."""
    return f"asking {count} host{'s' if count > 1 else ''}"


def plan_code(document: dict[str, Any], *, detailed: bool) -> int:
    """Exit code of a plan: what is wrong, else 2 for pending work where that is asked for."""
    from sistership.ship.planfile import pending  # noqa: PLC0415 - keeps --list and --help quick

    code = int(document["exit"])
    return UsageError.code if detailed and code == 0 and pending(document) else code


def planned(session: Session, file: str, variant: str | None, hosts: str | None, *, jobs: int) -> tuple[str, str]:
    """The variants and hosts of a plan file, as selectors, when it still holds.

    Raises:
        UsageError: no plan, or selectors beside it.
        LockError: the world moved since.
    """
    from sistership.ship import planfile  # noqa: PLC0415 - keeps --list and --help quick

    if variant is not None or hosts is not None:
        raise UsageError("--plan says which variants and hosts; leave --variant and --hosts out")
    document = planfile.load(Path(file))
    variants, names = planfile.selected(document)
    chosen = ",".join(variants), ",".join(names)
    planfile.require(document, plans(session, *chosen, as_text=False, jobs=jobs), file)
    return chosen
