"""Plans of a ship, as a document that may lie in a file, and the flags that decide about them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sistership.errors import SistershipError, UsageError, worst
from sistership.host.inventory import connected
from sistership.image.release import Release, by_variant
from sistership.report.words import mebibytes
from sistership.ship import planfile
from sistership.ship.road import Road, road_of, to_push
from sistership.ship.ship import plan_all
from sistership.tasks import show
from sistership.tasks.session import Session
from sistership.tasks.verb import say


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


def roads_of(session: Session, releases: Sequence[Release], via: str | None) -> dict[str, Road | None]:
    """Variant → the road that it is shipped by.

    Raises:
        UsageError: as `ship.road.road_of`.
    """
    return {each.variant: road_of(session.matrix.variants, each.variant, via) for each in releases}


def minimized(text: str | None) -> bool:
    """Whether `--minimize bytes` was given.

    Raises:
        UsageError: another word.
    """
    if text not in {None, "bytes"}:
        raise UsageError(f"--minimize {text}: only bytes can be minimized", hint="--minimize bytes")
    return text is not None


def next_command(
    variant: str | None, hosts: str | None, matrix: str | None, via: str | None = None, minimize: str | None = None
) -> str:
    """The ship that does what a plan with these flags showed."""
    flags = {"--variant": variant, "--hosts": hosts, "--matrix": matrix, "--via": via, "--minimize": minimize}
    given = [word for flag, value in flags.items() if value is not None for word in (flag, value)]
    return shlex.join(["sistership", "ship", *given])


def asking(count: int) -> str:
    """What people read while hosts answer."""
    return f"asking {count} host{'s' if count > 1 else ''}"


def plan_code(document: dict[str, Any], *, detailed: bool) -> int:
    """Exit code of a plan: what is wrong, else 2 for pending work where that is asked for."""
    code = int(document["exit"])
    return UsageError.code if detailed and code == 0 and planfile.pending(document) else code


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
    if any(given is not None for given in (variant, hosts, via, minimize)):
        left = "leave --variant, --hosts, --via and --minimize out"
        raise UsageError(f"--plan says which variants and hosts and how; {left}")
    document = planfile.load(Path(file))
    variants, names = planfile.selected(document)
    chosen, road = (",".join(variants), ",".join(names)), document.get("via")
    few = minimized(document.get("minimize"))
    planfile.require(document, plans(session, *chosen, as_text=False, jobs=jobs, via=road, minimize=few), file)
    return (*chosen, road, few)
