"""Images: `build`, `plan`, `ship`, `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invoke import Context

from sistership.tasks.verb import finish, positive, print_json, say, verb

if TYPE_CHECKING:
    from sistership.tasks.session import Session


@verb
def build(
    c: Context,
    *,
    variant: str | None = None,
    matrix: str | None = None,
    source: list[str] | None = None,
    locked: bool = False,
    dry_run: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Build each image once; what the lock and the store hold already is not built again."""
    del c
    from sistership.build import build as rooms  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.release import short  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix, source=source or (), quiet=quiet, verbose=verbose)
    chosen = session.variants(variant)
    session.warn(chosen)
    session.resolve(chosen, locked=locked)
    store = session.store()
    for recipe in session.recipes(chosen, with_source=not dry_run):
        builder = rooms.builder_host(session.matrix, recipe.variant, recipe.platform)
        name = f"{recipe.variant.name} ({recipe.platform})"
        if dry_run:
            recorded, whole = rooms.already_built(recipe, session.lock, store)
            state = "already built" if whole else ("recorded, blobs missing" if recorded else "to be built")
            say(f"{name}: recipe {recipe.key[:12]}, {state} on {builder.name}")
            continue
        peers = tuple(session.matrix.hosts.values())
        built = rooms.build(recipe, session.lock, store, builder, peers, session.reporter)
        session.lock = session.lock.with_image(recipe.key, rooms.record_of(recipe, built.release.image, store))
        session.save()
        if built.how == "built":
            rooms.load_on_builder(builder, built.release, store, session.reporter)
        image = built.release.image
        say(f"{name}: {built.how}: {built.release.reference}  config {short(image.config)}")


@verb
def plan(
    c: Context,
    *,
    variant: str | None = None,
    hosts: str | None = None,
    matrix: str | None = None,
    json: bool = False,
    jobs: str = "16",
) -> None:
    """Show what `ship` would do: per host what it has, what would be sent, what would move. Changes nothing."""
    del c
    from sistership.tasks.session import Session  # noqa: PLC0415 - keeps --list and --help quick

    session = Session.open(matrix, quiet=json)
    show_plans(session, variant, hosts, as_json=json, jobs=positive(jobs, "--jobs"))


@verb
def ship(
    c: Context,
    *,
    variant: str | None = None,
    hosts: str | None = None,
    matrix: str | None = None,
    dry_run: bool = False,
    jobs: str = "16",
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Send built images to hosts, load and verify them there, then move the tag."""
    del c
    from sistership.host.inventory import connected  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.ship import ship as rooms  # noqa: PLC0415
    from sistership.tasks import show  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix, quiet=quiet or dry_run, verbose=verbose)
    at_once = positive(jobs, "--jobs")
    if dry_run:
        show_plans(session, variant, hosts, as_json=False, jobs=at_once)
        return
    chosen, releases = session.hosts(hosts), session.releases(variant)
    store = session.store()
    results: list[rooms.Shipped] = []
    with connected(chosen) as peers:
        for release in releases:
            session.reporter.step("", show.expectation(release))
            results.extend(rooms.ship_all(peers, release, store, session.reporter, jobs=at_once))
    say(show.shipped_table(results))
    finish(rooms.exit_code(results))


@verb
def verify(
    c: Context,
    *,
    variant: str | None = None,
    hosts: str | None = None,
    matrix: str | None = None,
    json: bool = False,
    jobs: str = "16",
) -> None:
    """Prove that every host holds the same whole image; a container is made and removed on each."""
    del c
    from sistership.host.inventory import connected  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.tasks import show  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415
    from sistership.verify.hosts import exit_code, verify_all  # noqa: PLC0415

    session = Session.open(matrix, quiet=json)
    chosen, releases = session.hosts(hosts), session.releases(variant)
    with connected(chosen) as peers:
        verdicts = verify_all(peers, releases, jobs=positive(jobs, "--jobs"))
    code = exit_code(verdicts)
    if json:
        print_json(show.verdicts_json(verdicts, code))
    else:
        for release in releases:
            say(show.expectation(release))
        say(show.verdict_table(verdicts))
    finish(code)


def show_plans(session: Session, variant: str | None, hosts: str | None, *, as_json: bool, jobs: int) -> None:
    """Plans of every selected release on every selected host, as text or as one document."""
    from sistership.errors import SistershipError, worst  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.host.inventory import connected  # noqa: PLC0415
    from sistership.ship.ship import plan_all  # noqa: PLC0415
    from sistership.tasks import show  # noqa: PLC0415

    chosen, releases = session.hosts(hosts), session.releases(variant)
    codes, documents = [], []
    with connected(chosen) as peers:
        for release in releases:
            plans = plan_all(peers, release, session.store(), jobs=jobs)
            named = list(zip((peer.name for peer in peers), plans, strict=True))
            codes += [plan.code if isinstance(plan, SistershipError) else 0 for plan in plans]
            if as_json:
                document = show.release_json(release)
                document["hosts"] = [show.plan_json(host, plan) for host, plan in named]
                documents.append(document)
            else:
                say(show.expectation(release))
                for host, each in named:
                    say(show.plan_text(host, each))
    code = worst(codes)
    if as_json:
        print_json({"version": show.JSON_VERSION, "kind": "plan", "exit": code, "images": documents})
    finish(code)
