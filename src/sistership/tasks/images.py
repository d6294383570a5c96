"""Images: `build`, `plan`, `ship`, `verify`."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke import Context

from sistership.errors import SistershipError, UsageError
from sistership.report.events import Begin, Built, Note, mebibytes
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, json_text, positive, print_json, say, verb, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sistership.image.bases import Base
    from sistership.image.release import Release
    from sistership.recipe.recipe import Recipe
    from sistership.ship.host import Shipped
    from sistership.ship.road import Road
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
    via: str | None = None,
    minimize: str | None = None,
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
    at_once, few = positive(jobs, "--jobs"), minimized(minimize)
    document = plans(session, variant, hosts, as_text=not json, jobs=at_once, via=via, minimize=few)
    if json:
        print_json(document)
    if out is not None and document["exit"] == 0:
        write_atomic(Path(out), (json_text(document) + "\n").encode())
        session.reporter.tell(Note(f"sistership ship --plan {out} does exactly this, or refuses"))
    elif not json and pending(document):
        say(f"next: {next_command(variant, hosts, matrix, via, minimize)}")
    finish(plan_code(document, detailed=detailed_exitcode))


def next_command(
    variant: str | None, hosts: str | None, matrix: str | None, via: str | None = None, minimize: str | None = None
) -> str:
    """The ship that does what a plan with these flags showed."""
    flags = {"--variant": variant, "--hosts": hosts, "--matrix": matrix, "--via": via, "--minimize": minimize}
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
    via: str | None = None,
    minimize: str | None = None,
    keep: str | None = None,
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
    from sistership.tasks.prune import older_of  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix)
    at_once, kept = positive(jobs, "--jobs"), None if keep is None else whole(keep, "--keep")
    few = minimized(minimize)
    if plan is not None:
        variant, hosts, via, few = planned(session, plan, variant, hosts, via, minimize, jobs=at_once)
    if dry_run:
        document = plans(session, variant, hosts, as_text=not run.json, jobs=at_once, via=via, minimize=few)
        for event in show.planned_events(document):
            run.reporter.tell(event)
        finish(plan_code(document, detailed=detailed_exitcode))
        return
    chosen, releases = session.hosts(hosts), session.releases(variant)
    roads = roads_of(session, releases, via)
    store = session.store()
    older = None if kept is None else older_of(session, session.variants(variant), kept)
    results: list[Shipped] = []

    def ended(shipped: Shipped, seconds: float) -> None:
        run.reporter.tell(show.outcome(shipped, seconds))

    ship_all = partial(rooms.ship_all, jobs=at_once, older=older, minimize=few)
    with connected(chosen) as peers:
        for group in by_variant(releases):
            for release in group:
                run.reporter.tell(show.begin(release, [peer.name for peer in peers]))
            road = roads[group[0].variant]
            results.extend(ship_all(peers, group, store, run.reporter, ended, road=road))
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


def roads_of(session: Session, releases: Sequence[Release], via: str | None) -> dict[str, Road | None]:
    """Variant → the road that it is shipped by.

    Raises:
        UsageError: as `ship.road.road_of`.
    """
    from sistership.ship.road import road_of  # noqa: PLC0415 - keeps --list and --help quick

    return {each.variant: road_of(session.matrix.variants, each.variant, via) for each in releases}


def minimized(text: str | None) -> bool:
    """Whether `--minimize bytes` was given.

    Raises:
        UsageError: another word.
    """
    if text not in {None, "bytes"}:
        raise UsageError(f"--minimize {text}: only bytes can be minimized", hint="--minimize bytes")
    return text is not None


def plans(
    session: Session,
    variant: str | None,
    hosts: str | None,
    *,
    as_text: bool,
    jobs: int,
    via: str | None = None,
    minimize: bool = False,
) -> dict[str, Any]:
    """Plans of every selected variant on every selected host as one document; as text too where that is wanted."""
    from sistership.errors import SistershipError, worst  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.host.inventory import connected  # noqa: PLC0415
    from sistership.image.release import by_variant  # noqa: PLC0415
    from sistership.ship.road import to_push  # noqa: PLC0415
    from sistership.ship.ship import plan_all  # noqa: PLC0415
    from sistership.tasks import show  # noqa: PLC0415

    chosen, releases = session.hosts(hosts), session.releases(variant)
    roads = roads_of(session, releases, via)
    store = session.store()
    codes: list[int] = []
    images: list[dict[str, Any]] = []
    with connected(chosen) as peers:
        session.reporter.step("", asking(len(peers)))
        for group in by_variant(releases):
            road = roads[group[0].variant]
            # Before the hosts are asked: without its registry such a ship touches none of them.
            push = None if road is None else to_push(group, road, store)
            found = plan_all(peers, group, store, jobs=jobs, road=road, minimize=minimize)
            named = list(zip((peer.name for peer in peers), found, strict=True))
            codes += [each.code if isinstance(each, SistershipError) else 0 for each in found]
            image = show.release_json(group[0])
            image["hosts"] = [show.plan_json(host, each) for host, each in named]
            image["push"] = push
            images.append(image)
            if as_text:
                say("\n".join(map(show.expectation, group)))
                if road is not None:
                    say(f"{road.place}: {mebibytes(push or 0)} to push")
                say("\n".join(show.plan_text(host, each) for host, each in named))
    few = "bytes" if minimize else None
    about = {"version": show.JSON_VERSION, "kind": "plan", "exit": worst(codes), "via": via, "minimize": few}
    return {**about, "images": images}


def asking(count: int) -> str:
    """What people read while hosts answer."""
    return f"asking {count} host{'s' if count > 1 else ''}"


def plan_code(document: dict[str, Any], *, detailed: bool) -> int:
    """Exit code of a plan: what is wrong, else 2 for pending work where that is asked for."""
    from sistership.ship.planfile import pending  # noqa: PLC0415 - keeps --list and --help quick

    code = int(document["exit"])
    return UsageError.code if detailed and code == 0 and pending(document) else code


def planned(
    session: Session,
    file: str,
    variant: str | None,
    hosts: str | None,
    via: str | None,
    minimize: str | None,
    *,
    jobs: int,
) -> tuple[str, str, str | None, bool]:
    """Variants and hosts of a plan file, as selectors, its road and whether it minimizes, when it still holds.

    Raises:
        UsageError: no plan, or selectors beside it.
        LockError: the world moved since.
    """
    from sistership.ship import planfile  # noqa: PLC0415 - keeps --list and --help quick

    if any(given is not None for given in (variant, hosts, via, minimize)):
        left = "leave --variant, --hosts, --via and --minimize out"
        raise UsageError(f"--plan says which variants and hosts and how; {left}")
    document = planfile.load(Path(file))
    variants, names = planfile.selected(document)
    chosen, road = (",".join(variants), ",".join(names)), document.get("via")
    few = minimized(document.get("minimize"))
    planfile.require(document, plans(session, *chosen, as_text=False, jobs=jobs, via=road, minimize=few), file)
    return (*chosen, road, few)
