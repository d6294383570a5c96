"""Housekeeping: `prune` for hosts and for the local store."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sistership.errors import LockError, SistershipError
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, positive, print_json, say, verb, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sistership.image.gc import Unneeded
    from sistership.matrix.model import Variant
    from sistership.ship.older import Ours
    from sistership.ship.prune import Older, Pruned
    from sistership.tasks.session import Session


@verb
def prune(
    run: Run,
    *,
    hosts: str | None = None,
    variant: str | None = None,
    local: bool = False,
    keep: str = "1",
    matrix: str | None = None,
    yes: bool = False,
    dry_run: bool = False,
    json: bool = False,
    jobs: str = "16",
) -> None:
    """Remove older images of ours and leftovers of ships from hosts, or unused images from the local store.

    Shows what would go, and does it with --yes.
    """
    del run
    from sistership.tasks import pruned  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.tasks.session import Session  # noqa: PLC0415

    kept, at_once, act = whole(keep, "--keep"), positive(jobs, "--jobs"), yes and not dry_run
    session = Session.open(matrix)
    chosen = session.variants(variant)
    root = str(session.store().root) if local else ""
    # First what a run under way may refuse.
    unneeded = in_store(session, act=act) if local else None
    found: list[Pruned] = []
    if hosts is not None or not local:
        older = older_of(session, chosen, kept)
        found = on_hosts(session, hosts, older, act=act, jobs=at_once)
    document = pruned.document(found, unneeded, root, done=act)
    if json:
        print_json(document)
    else:
        for text in pruned.texts(found, unneeded, root, done=act):
            say(text)
        if pruned.pending(found, unneeded) and not act:
            flags = {"--hosts": hosts, "--variant": variant, "--keep": keep if kept != 1 else None, "--matrix": matrix}
            say(f"next: {next_command(flags, local=local)}")
    finish(int(document["exit"]))


def next_command(flags: dict[str, str | None], *, local: bool) -> str:
    """The command that does what one with these flags showed."""
    given = [word for flag, value in flags.items() if value is not None for word in (flag, value)]
    return shlex.join(["sistership", "prune", *given, *(["--local"] if local else []), "--yes"])


def on_hosts(session: Session, selector: str | None, older: Older, *, act: bool, jobs: int) -> list[Pruned]:
    """What is to go on the selected hosts; with `act` it goes."""
    from sistership.host.inventory import connected  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.ship.prune import prune_all  # noqa: PLC0415

    with connected(session.hosts(selector)) as peers:
        count = len(peers)
        session.reporter.step("", f"{'pruning' if act else 'asking'} {count} host{'s' if count > 1 else ''}")
        return prune_all(peers, older, session.reporter, act=act, jobs=jobs)


def in_store(session: Session, *, act: bool) -> Unneeded:
    """What is to go from the store; with `act` it goes."""
    from sistership.image import gc  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.identity import Image  # noqa: PLC0415

    keys = keys_of(session)
    images = [Image.from_json(session.lock.images[key]) for key in keys if key in session.lock.images]
    blobs = {digest for each in images for digest in (each.config, each.manifest, each.manifest_plain)}
    blobs |= {layer.digest for each in images for layer in each.layers}
    return (gc.collect if act else gc.unneeded)(session.store(), keys, blobs)


def keys_of(session: Session) -> frozenset[str]:
    """Recipe keys of what the lock says today; of all that it records where that cannot be told."""
    from sistership.recipe.recipe import recipe_of  # noqa: PLC0415 - keeps --list and --help quick

    found: set[str] = set()
    for variant in session.variants(None):
        locked = session.lock.variants.get(variant.name)
        if locked is None:
            continue
        try:
            found |= {recipe_of(session.matrix, variant, each, locked).key for each in variant.platforms}
        except SistershipError:
            return frozenset(session.lock.images)
    return frozenset(found)


def older_of(session: Session, chosen: Sequence[Variant], keep: int) -> Older:
    """Whose older images go: those of the chosen variants, beside what the lock says today of any."""
    from sistership.ship.prune import Older  # noqa: PLC0415 - keeps --list and --help quick

    return Older(ours_of(session, chosen), keep)


def ours_of(session: Session, chosen: Sequence[Variant]) -> Ours:
    """What belongs to this project on its hosts."""
    from sistership.image.identity import Image  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.release import Release  # noqa: PLC0415
    from sistership.registry.place import Place  # noqa: PLC0415
    from sistership.ship.older import Ours  # noqa: PLC0415

    releases: list[Release] = []
    for variant in session.variants(None):
        try:
            releases += session.releases(variant.name)
        except LockError:
            continue  # not built as the matrix has it: what people's names point to stays in any case
    images = [Image.from_json(record) for record in session.lock.images.values()]
    places = [Place.of(each.registry) for each in chosen if each.registry]
    return Ours(
        references={f"{each.image}:{each.tag}": each.name for each in session.variants(None)},
        selected=frozenset(f"{each.image}:{each.tag}" for each in chosen),
        places=frozenset(name for place in places for name in (str(place), place.pull) if name),
        releases=tuple(releases),
        sizes={layer.diff_id: (layer.plain_size, layer.size) for image in images for layer in image.layers},
    )
