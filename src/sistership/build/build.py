"""One build per recipe: nothing runs when the lock and the store hold the image already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from sistership import compare, places
from sistership.build import inputs
from sistership.build.builder import digest_of, export, raw_reference, remove_raw, run_build
from sistership.build.notes import noted
from sistership.build.offline import lent, releases
from sistership.errors import BuildError, NotReproducibleError, SistershipError, UsageError
from sistership.host.facts import HostFacts
from sistership.host.inventory import Peer, connect, connected
from sistership.host.transport import quote
from sistership.image.bases import Base, require
from sistership.image.canonical import canonicalise
from sistership.image.contents import file_hashes
from sistership.image.identity import Image
from sistership.image.layout import Store
from sistership.image.readback import read_back
from sistership.image.recover import restore
from sistership.image.release import Release
from sistership.matrix.model import Host, Matrix, Variant
from sistership.recipe.context import write_context
from sistership.recipe.lock import Lock
from sistership.recipe.recipe import Recipe
from sistership.report.listeners import Reporter, counted
from sistership.report.words import joined, mebibytes
from sistership.ship.host import Shipped, ship_host
from sistership.verify.hosts import verify_all
from sistership.verify.verdict import Kind, candidate


@dataclass(frozen=True)
class Built:
    """The outcome of a build.

    Attributes:
        how: `already built`, `built` or `fetched from HOST`.
        measured: toolchain and packages of the build, as the lock keeps them.
    """

    release: Release
    how: str
    measured: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Made:
    """What came from a builder: the canonical image, and the toolchain and packages that it was made with.

    Attributes:
        measured: as the lock keeps them; empty where the builder could not tell.
        files: path → sha256 of every file in own layers, by what was read back from the store.
    """

    image: Image
    measured: Mapping[str, Any] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)


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


def record_of(
    recipe: Recipe,
    image: Image,
    store: Store,
    measured: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """What the lock keeps of a built image: identity, names, inputs, and the hash of every file that we put into it.

    Args:
        measured: toolchain and packages, see `inputs.measure`.
        files: the hashes, where they are known; else the layers are read.
    """
    variant = recipe.variant
    archs = list(variant.cuda.archs) if variant.cuda else []
    names = {"variant": variant.name, "platform": recipe.platform, "image": variant.image, "tag": variant.tag}
    made_of = {**inputs.asked(recipe), **(measured or {})}
    files = dict(files) if files else file_hashes(image, store)
    return {**image.to_json(), **names, "created": recipe.created, "archs": archs, **made_of, "files": files}


def already_built(recipe: Recipe, lock: Lock, store: Store) -> tuple[Release | None, bool]:
    """The recorded release of a recipe, and whether every blob of it is in the store with the right checksum."""
    record = lock.images.get(recipe.key)
    if record is None:
        return None, False
    release = Release.from_record(recipe.key, record)
    return release, not store.image_complete(release.image, deep=True)


def build(
    recipe: Recipe,
    lock: Lock,
    store: Store,
    builder: Host,
    peers: Sequence[Host],
    reporter: Reporter,
    *,
    bases: Sequence[Base] | None = None,
) -> Built:
    """The image of a recipe: from the store, from a host that verifies, or from the builder.

    Args:
        peers: hosts that may hold the image when the store lost it.
        bases: taken from the store in place of their registry; None: from the registry.

    Raises:
        BuildError: the build or its export failed.
        LockError: a base is not archived.
        NotReproducibleError: a rebuild of a recorded recipe gave another image.
    """
    recorded, whole = already_built(recipe, lock, store)
    known = inputs.kept(lock.images.get(recipe.key))
    if recorded and whole:
        return Built(recorded, "already built", known)
    if recorded:
        reporter.step("", f"{recipe.variant.name}: recorded, but its blobs are not in the store; asking the hosts")
        fetched = fetch(peers, recorded, recipe.created, store, reporter)
        if fetched:
            return replace(fetched, measured=known)
    made = build_on(builder, recipe, store, reporter, bases=bases)
    image, measured = made.image, made.measured or known
    if recorded and recorded.image.config != image.config:
        moved = compare.reproduce.moved_text(compare.moved(known, made.measured))
        raise NotReproducibleError(
            "the recorded image is nowhere to be had, and building it again gave another one",
            where=recipe.variant.name,
            why=joined((f"recorded {recorded.image.config[7:19]}, built {image.config[7:19]}", moved)),
            hint="ship the new one everywhere: remove the entry from the lock's `images` and run build again",
        )
    store.record(recipe.key, image, recipe.created, name=f"{recipe.variant.image}:{recipe.variant.tag}")
    record = record_of(recipe, image, store, measured, made.files)
    return Built(Release.from_record(recipe.key, record), "built", measured)


def build_on(
    builder: Host,
    recipe: Recipe,
    store: Store,
    reporter: Reporter,
    *,
    no_cache: bool = False,
    verb: str = "build",
    bases: Sequence[Base] | None = None,
) -> Made:
    """Build on `builder`, export, make canonical; every blob is in the store, its index does not name it yet.

    Args:
        bases: as of `build`.
        verb: names the log, so that a second build leaves the log of the first.
    """
    if recipe.repo is None:
        raise UsageError(f"{recipe.variant.name} is not resolved", hint="sistership lock")
    log = places.logs() / f"{verb}-{recipe.variant.name}-{recipe.key[:12]}.log"
    archived = None if bases is None else releases(recipe, require(bases, store, recipe.variant.name), store)
    names = [name for each in (archived or {}).values() for name in (each.unique, each.reference)]
    with (
        builder_peer(builder) as peer,
        noted(peer, [raw_reference(recipe)], names, store.root / "notes", reporter),
        store.scratch() as saved,
    ):
        try:
            with lent(peer, recipe, archived, store, reporter) as sent, store.scratch() as context:
                write_context(sent, recipe.repo, context)
                context.seek(0)
                reporter.step(peer.name, f"building {recipe.variant.name} for {recipe.platform}, log in {log}")
                run_build(peer, sent, context, log, reporter, no_cache=no_cache)
                measured = inputs.measure(peer, sent, log, reporter)
            reporter.step(peer.name, "exporting")
            export(peer, recipe, saved, reporter)
        finally:
            remove_raw(peer, recipe)
        image = _canonical(peer, recipe, saved, store, reporter)
        reporter.step("", "reading it back")
        files = read_back(image, store)
    return Made(image, measured, files)


def _canonical(peer: Peer, recipe: Recipe, saved: BinaryIO, store: Store, reporter: Reporter) -> Image:
    reporter.step(peer.name, f"exported {mebibytes(saved.tell())}")
    reporter.step("", f"making {recipe.variant.name} canonical")
    with called(path_of(saved), f"what {peer.name} exported") as path:
        return canonicalise(
            path,
            instructions=recipe.instructions,
            created=recipe.created,
            labels=recipe.labels,
            store=store,
            tell=partial(reporter.progress, "", "made canonical"),
        )


def path_of(file: BinaryIO) -> Path:
    """A path to an open file without a name: it goes with its last user, even one that was killed."""
    file.flush()
    file.seek(0)
    return Path(f"/dev/fd/{file.fileno()}")


@contextmanager
def called(path: Path, name: str) -> Iterator[Path]:
    """A path of `path_of`; errors say the name in its place."""
    try:
        yield path
    except SistershipError as error:
        error.where = error.where and error.where.replace(str(path), name)
        raise


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
            sink = counted(saved.write, reporter, peer.name, "saved")
            done = peer.transport.run(f"{peer.engine.functions}\nsave_image {quote(held.id)}", sink=sink)
            return restore(path_of(saved), release.image, store) if done.status == 0 else None
        except SistershipError as error:
            reporter.step(peer.name, f"cannot give it: {error.what}")
            return None


def load_on_builder(builder: Host, release: Release, store: Store, reporter: Reporter) -> Shipped:
    """The canonical image into the builder's own engine, by the code that loads on any host.

    The engine has to show the predicted ID. Files are not hashed there once more: what was sent whole was compared
    with its digests twice, staged and by the engine, and a ship that left layers out hashes the files itself.

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
