"""`push`: images into the registry that the matrix names, for hosts that are not in its inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sistership.errors import UsageError
from sistership.tasks.run import Run
from sistership.tasks.verb import print_json, say, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sistership.image.layout import Store
    from sistership.image.release import Release
    from sistership.report.listeners import Reporter
    from sistership.ship.road import Road
    from sistership.tasks.session import Session


@verb
def push(
    run: Run,
    *,
    variant: str | None = None,
    matrix: str | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Put built images into the registry that the matrix names; no host is asked or touched."""
    from sistership.image.release import by_variant  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.report.words import mebibytes  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415
    from sistership.tasks.show import JSON_VERSION  # noqa: PLC0415

    session = Session.open(matrix)
    roads = roads_to(session, variant)
    store = session.store()
    images: list[dict[str, Any]] = []
    for group in by_variant(session.releases(",".join(roads))):
        found = of_variant(group, roads[group[0].variant], store, run.reporter, dry_run=dry_run)
        for image in found:
            done = f"{mebibytes(image['bytes'])} {'to push' if dry_run else 'pushed'}"
            if not json:
                say(f"{image['variant']} ({image['platform']}): {done}\n  {image['source']}\n  {image['tag']}")
        images += found
    if json:
        print_json({"version": JSON_VERSION, "type": "push", "exit": 0, "pushed": not dry_run, "images": images})


def roads_to(session: Session, selector: str | None) -> dict[str, Road]:
    """Variant → its registry; without a selector those that name one.

    Raises:
        UsageError: a selected variant names none, or no variant does.
    """
    from sistership.ship.road import road_of  # noqa: PLC0415 - keeps --list and --help quick

    known = session.matrix.variants
    via = None if selector is None else "registry"
    roads = {each.name: road_of(known, each.name, via) for each in session.variants(selector)}
    found = {name: road for name, road in roads.items() if road is not None}
    if not found:
        raise UsageError(
            "no variant names a registry",
            where=str(session.matrix.path),
            hint="add `registry: HOST/REPOSITORY` to a variant, or to defaults",
        )
    return found


def of_variant(
    group: Sequence[Release], road: Road, store: Store, reporter: Reporter, *, dry_run: bool
) -> list[dict[str, Any]]:
    """What was pushed, or would be, of each platform of a variant, as plain JSON values.

    Raises:
        HostUnreachableError, ShipError, SistershipError: as `ship.road.push_all`.
    """
    from sistership.registry.place import tag_of  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.ship.road import push_all, to_push  # noqa: PLC0415
    from sistership.ship.sound import check_store  # noqa: PLC0415

    for release in group:
        check_store(release, store, deep=False)
    if dry_run:
        sizes = [to_push([release], road, store) for release in group]
    else:
        sizes = [each.sent for each in push_all(group, road, store, reporter)]
    return [
        {
            "variant": release.variant,
            "recipe": release.key,
            "platform": release.image.platform,
            "config": release.image.config,
            "manifest": release.image.manifest,
            "source": road.place.source(release.image),
            "tag": f"{road.place}:{tag_of(release.image)}",
            "bytes": size,
        }
        for release, size in zip(group, sizes, strict=True)
    ]
