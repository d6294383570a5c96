"""One build per recipe: nothing runs when the lock and the store hold the image already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from sistership import places
from sistership.build.builder import digest_of, export, remove_raw, run_build
from sistership.errors import BuildError, NotReproducibleError, SistershipError, UsageError
from sistership.host.facts import HostFacts
from sistership.host.inventory import Peer, connect, connected
from sistership.host.transport import quote
from sistership.image.canonical import canonicalise
from sistership.image.contents import file_hashes
from sistership.image.identity import Image
from sistership.image.layout import Store
from sistership.image.recover import restore
from sistership.image.release import Release
from sistership.matrix.model import Host, Matrix, Variant
from sistership.recipe.context import write_context
from sistership.recipe.lock import Lock
from sistership.recipe.recipe import Recipe
from sistership.report.events import Reporter, mebibytes
from sistership.ship.ship import Shipped, ship_host
from sistership.verify.hosts import verify_all
from sistership.verify.verdict import Kind, candidate


@dataclass(frozen=True)
class Built:
    """The outcome of a build.

    Attributes:
        how: `already built`, `built` or `fetched from HOST`.
    """

    release: Release
    how: str


def builder_host(matrix: Matrix, variant: Variant, platform: str) -> Host:
    """The host that builds a variant for a platform: the variant's, else the matrix's, else this machine."""
    name = variant.builders.get(platform)
    return matrix.hosts[name] if name else Host(name="this-machine", local=True)


@contextmanager
def builder_peer(host: Host) -> Iterator[Peer]:
    """An open way to the builder."""
    peer = connect(host)
    try:
        yield peer
    finally:
        peer.transport.close()


def record_of(recipe: Recipe, image: Image, store: Store) -> dict[str, object]:
    """What the lock keeps of a built image: identity, names, and the hash of every file that we put into it."""
    variant = recipe.variant
    archs = list(variant.cuda.archs) if variant.cuda else []
    names = {"variant": variant.name, "platform": recipe.platform, "image": variant.image, "tag": variant.tag}
    return {**image.to_json(), **names, "created": recipe.created, "archs": archs, "files": file_hashes(image, store)}


def already_built(recipe: Recipe, lock: Lock, store: Store) -> tuple[Release | None, bool]:
    """The recorded release of a recipe, and whether every blob of it is in the store with the right checksum."""
    record = lock.images.get(recipe.key)
    if record is None:
        return None, False
    release = Release.from_record(recipe.key, record)
    return release, not store.image_complete(release.image, deep=True)


def build(recipe: Recipe, lock: Lock, store: Store, builder: Host, peers: Sequence[Host], reporter: Reporter) -> Built:
    """The image of a recipe: from the store, from a host that verifies, or from the builder.

    Args:
        peers: hosts that may hold the image when the store lost it.

    Raises:
        BuildError: the build or its export failed.
        NotReproducibleError: a rebuild of a recorded recipe gave another image.
    """
    recorded, whole = already_built(recipe, lock, store)
    if recorded and whole:
        return Built(recorded, "already built")
    if recorded:
        reporter.step("", f"{recipe.variant.name}: recorded, but its blobs are not in the store; asking the hosts")
        fetched = fetch(peers, recorded, recipe.created, store, reporter)
        if fetched:
            return fetched
    image = build_on(builder, recipe, store, reporter)
    if recorded and recorded.image.config != image.config:
        raise NotReproducibleError(
            "the recorded image is nowhere to be had, and building it again gave another one",
            where=recipe.variant.name,
            why=f"recorded {recorded.image.config[7:19]}, built {image.config[7:19]}",
            hint="ship the new one everywhere: remove the entry from the lock's `images` and run build again",
        )
    store.record(recipe.key, image, recipe.created, name=f"{recipe.variant.image}:{recipe.variant.tag}")
    return Built(Release.from_record(recipe.key, record_of(recipe, image, store)), "built")


def build_on(builder: Host, recipe: Recipe, store: Store, reporter: Reporter, *, no_cache: bool = False) -> Image:
    """Build on `builder`, export, make canonical; every blob is in the store, its index does not name it yet."""
    if recipe.repo is None:
        raise UsageError(f"{recipe.variant.name} is not resolved", hint="sistership lock")
    log = places.logs() / f"build-{recipe.variant.name}-{recipe.key[:12]}.log"
    with builder_peer(builder) as peer:
        with store.scratch() as context:
            write_context(recipe, recipe.repo, context)
            context.seek(0)
            reporter.step(peer.name, f"building {recipe.variant.name} for {recipe.platform}, log in {log}")
            run_build(peer, recipe, context, log, reporter, no_cache=no_cache)
        with store.scratch() as saved:
            reporter.step(peer.name, "exporting")
            try:
                export(peer, recipe, saved)
            finally:
                remove_raw(peer, recipe)
            reporter.step("", f"making it canonical, {mebibytes(saved.tell())}")
            image = canonicalise(
                path_of(saved),
                instructions=recipe.instructions,
                created=recipe.created,
                labels=recipe.labels,
                store=store,
            )
    return image


def path_of(file: BinaryIO) -> Path:
    """A path to an open file without a name: it goes with its last user, even one that was killed."""
    file.flush()
    file.seek(0)
    return Path(f"/dev/fd/{file.fileno()}")


def fetch(hosts: Sequence[Host], release: Release, created: str, store: Store, reporter: Reporter) -> Built | None:
    """The image from the first host that verifies, back into the store; None when no host can give it."""
    with connected(hosts) as peers:
        for found in verify_all(peers, [release]):
            if found.verdict.kind in (Kind.OK, Kind.TAG_MOVED) and found.facts:
                peer = next(peer for peer in peers if peer.name == found.host)
                image = _fetch_from(peer, release, found.facts, store, reporter)
                if image:
                    store.record(release.key, image, created, name=release.reference)
                    return Built(replace(release, image=image), f"fetched from {peer.name}")
    return None


def _fetch_from(peer: Peer, release: Release, facts: HostFacts, store: Store, reporter: Reporter) -> Image | None:
    held = candidate(release, facts)
    if held is None:
        return None
    reporter.step(peer.name, f"has {release.reference}; fetching it")
    with store.scratch() as saved:
        try:
            # By ID: a name may have gone or moved although the image is there.
            done = peer.transport.run(f"{peer.docker} save {quote(held.id)}", sink=saved.write)
            return restore(path_of(saved), release.image, store) if done.status == 0 else None
        except SistershipError as error:
            reporter.step(peer.name, f"cannot give it: {error.what}")
            return None


def load_on_builder(builder: Host, release: Release, store: Store, reporter: Reporter) -> Shipped:
    """The canonical image into the builder's own engine, by the code that loads on any host.

    Raises:
        SistershipError: it could not be loaded.
    """
    with builder_peer(builder) as peer:
        shipped = ship_host(peer, [release], store, reporter)
    if shipped.error:
        raise shipped.error
    if shipped.verdict.kind is not Kind.OK:
        raise BuildError(f"loaded, but {shipped.verdict.kind}", where=builder.name, why=shipped.verdict.why or None)
    return shipped


def digests_by(builder: Host) -> Callable[[str], str]:
    """A function that pins references by asking registries from the builder; connects when first called."""
    known: dict[str, str] = {}

    def pin(reference: str) -> str:
        if reference not in known:
            with builder_peer(builder) as peer:
                known[reference] = digest_of(peer, reference)
        return known[reference]

    return pin


def sources_from(options: Sequence[str]) -> Mapping[str, Path]:
    """`--source FORK=DIR` options as fork → folder.

    Raises:
        UsageError: not of that form, or no such folder.
    """
    found: dict[str, Path] = {}
    for text in options:
        fork, equals, folder = text.partition("=")
        path = Path(folder).expanduser().absolute()
        if not (fork and equals and folder):
            raise UsageError(f"--source {text}: not of the form FORK=DIR")
        if not path.is_dir():
            raise UsageError(f"--source {text}: there is no folder {path}")
        found[fork] = path
    return found
