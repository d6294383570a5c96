"""The comparison of any two things that a word can mean: opened where they are, then compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sistership import compare
from sistership.compare import hashed
from sistership.compare.whole import Opened, saved_image, stored, two
from sistership.image.release import Release, for_platform
from sistership.tasks.named import InFile, Named, OnHost, Recorded, fetched

if TYPE_CHECKING:
    from sistership.image.identity import Image
    from sistership.image.layout import Store
    from sistership.tasks.session import Session


def between(first: Named, second: Named, session: Callable[[], Session], store: Store) -> compare.Comparison:
    """Compare what two words mean.

    Args:
        session: opens the project; called only where it is needed.
        store: holds the blobs of what was built, or some of them, and gives temporary files.

    Raises:
        BuildError: a file or a layer is damaged.
        HostUnreachableError, HostUnfitError, ShipError: a host cannot give its image.
        SistershipError: a blob is damaged, or the disk fails.
    """
    if isinstance(first, Recorded):
        if isinstance(second, Recorded):
            return recorded(first, second, store)
        with opened(second, session, store) as other:
            release = for_platform(first.releases, other.side.platform)
            mine = stored(release.image, store, first.word)
            return by_hash(two(mine, other, store.scratch), release, mine, other)
    with opened(first, session, store) as one:
        if isinstance(second, Recorded):
            release = for_platform(second.releases, one.side.platform)
            theirs = stored(release.image, store, second.word)
            return by_hash(two(one, theirs, store.scratch), release, theirs, one)
        with opened(second, session, store) as other:
            return two(one, other, store.scratch)


@contextmanager
def opened(each: InFile | OnHost, session: Callable[[], Session], store: Store) -> Iterator[Opened]:
    """What is in a file or on a host, readable while the block lasts."""
    with ExitStack() as stack:
        path = each.path if isinstance(each, InFile) else stack.enter_context(fetched(each, session()))
        yield stack.enter_context(saved_image(path, store.scratch, each.word))


def recorded(first: Recorded, second: Recorded, store: Store) -> compare.Comparison:
    """Two images of the lock, by their bytes where the store has them all, else by what the lock says of them."""
    one = first.releases[0]
    other = for_platform(second.releases, one.image.platform)
    names = (first.word, second.word)
    mine, theirs = first.record(one), second.record(other)
    if lacks(store, one.image) or lacks(store, other.image):
        return compare.records(mine, theirs, names=names)
    found = compare.images(one.image, store, other.image, store, names=names)
    return found if found.same else replace(found, differences=(*found.differences, *compare.inputs(mine, theirs)))


def lacks(store: Store, image: Image) -> bool:
    """Whether the store lacks the config or an own layer of an image; a base layer is told by its digest alone."""
    own = [layer.digest for layer in image.layers if not layer.base]
    return not all(store.has(digest) for digest in (image.config, *own))


def by_hash(found: compare.Comparison, release: Release, built: Opened, other: Opened) -> compare.Comparison:
    """A comparison with the files named by their hashes in the lock, where the built image's bytes are not at hand.

    Args:
        built: the image of the lock, one of the two that were compared.
        other: the other one.
    """
    if found.same or not release.files or all(layer.open for layer in built.layers):
        return found
    base = {layer.diff_id for layer in release.image.layers if layer.base}
    files = hashed.files(release.files, other.layers, base, recorded_in_a=found.a == built.side)
    said = "the lock's hashes of files stand for the bytes that the store lacks"
    return replace(found, differences=(*found.differences, *files), unread=(*found.unread, said))
