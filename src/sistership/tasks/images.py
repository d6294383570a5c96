"""Images: `build`, `plan`, `ship`, `verify`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context

from sistership.report.events import Begin, Note
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, json_text, positive, print_json, say, verb, whole

if TYPE_CHECKING:
    from sistership.ship.host import Shipped


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
    from sistership.tasks.building import build_one, would_build  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.tasks.session import Session  # noqa: PLC0415

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
    from sistership.tasks import planning  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix)
    at_once, few = positive(jobs, "--jobs"), planning.minimized(minimize)
    document = planning.plans(session, variant, hosts, as_text=not json, jobs=at_once, via=via, minimize=few)
    if json:
        print_json(document)
    if out is not None and document["exit"] == 0:
        write_atomic(Path(out), (json_text(document) + "\n").encode())
        session.reporter.tell(Note(f"sistership ship --plan {out} does exactly this, or refuses"))
    elif not json and pending(document):
        say(f"next: {planning.next_command(variant, hosts, matrix, via, minimize)}")
    finish(planning.plan_code(document, detailed=detailed_exitcode))


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
    from sistership.tasks import planning, show  # noqa: PLC0415
    from sistership.tasks.prune import older_of  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix)
    at_once, kept = positive(jobs, "--jobs"), None if keep is None else whole(keep, "--keep")
    few = planning.minimized(minimize)
    if plan is not None:
        variant, hosts, via, few = planning.planned(session, plan, variant, hosts, via, minimize, jobs=at_once)
    if dry_run:
        document = planning.plans(session, variant, hosts, as_text=not run.json, jobs=at_once, via=via, minimize=few)
        for event in show.planned_events(document):
            run.reporter.tell(event)
        finish(planning.plan_code(document, detailed=detailed_exitcode))
        return
    chosen, releases = session.hosts(hosts), session.releases(variant)
    roads = planning.roads_of(session, releases, via)
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
    from sistership.tasks import planning, show  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415
    from sistership.verify.hosts import exit_code, verify_all  # noqa: PLC0415

    session = Session.open(matrix)
    chosen = session.hosts(hosts)
    releases = session.releases(variant) if expect is None else session.expected(expect, variant)
    with connected(chosen) as peers:
        session.reporter.step("", planning.asking(len(peers)))
        verdicts = verify_all(peers, releases, deep=deep, jobs=positive(jobs, "--jobs"))
    for names in same_daemons({each.host: each.facts for each in verdicts if each.facts}):
        session.reporter.step("", f"warning: {' and '.join(names)} are one engine under several names")
    code = exit_code(verdicts)
    if json:
        print_json(show.verdicts_json(verdicts, code))
    else:
        say(show.verdicts_text(verdicts))
    finish(code)
