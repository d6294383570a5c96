"""Which images and blobs of the store nobody needs any more.

The store is shared by all projects of a user, and only the lock of one of them is at hand. What stays: what that lock
says today, every archived base, every image that was made or used lately, and each blob that one of them needs.
An image was used when somebody asked whether it is whole, which every verb does that builds on it, ships, exports,
compares or reads it; the time is that of its manifest's file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from sistership.image.layout import Entry, Store

DAY: Final = 86400
#: Seconds for which an image stays after it was last used, whosesoever it is.
KEPT: Final = 30 * DAY


@dataclass(frozen=True, slots=True)
class Item:
    """One image or base of the store.

    Attributes:
        keep: why it stays, in a few words; "": it goes.
        frees: bytes that go with it; what several images share counts once, for the first.
    """

    entry: Entry
    keep: str
    frees: int


@dataclass(frozen=True, slots=True)
class Unneeded:
    """What goes from a store.

    Attributes:
        items: everything that the index lists; what goes last.
        blobs: digests of all blobs that go.
        loose: bytes of those that belong to no image, left by runs that were cut or by images that were made anew.
        frees: bytes of all.
    """

    items: tuple[Item, ...]
    blobs: frozenset[str]
    loose: int
    frees: int

    @property
    def going(self) -> tuple[Entry, ...]:
        """The images that go."""
        return tuple(item.entry for item in self.items if not item.keep)


def unneeded(store: Store, keys: Collection[str], blobs: Collection[str] = (), *, now: float | None = None) -> Unneeded:
    """What nobody needs. Changes nothing.

    Args:
        store: where.
        keys: recipe keys of what the project's lock says today.
        blobs: digests that it names, listed in the index or not.
        now: seconds since 1970.
    """
    now = time.time() if now is None else now
    entries = store.entries()
    why = {entry: _keep(entry, keys, now) for entry in entries}
    needed = frozenset(blobs).union(*(entry.needs for entry in entries if why[entry]))
    here = store.blobs()
    left = {digest: size for digest, size in here.items() if digest not in needed}
    loose = dict(left)
    gone = [Item(entry, "", sum(loose.pop(digest, 0) for digest in entry.needs)) for entry in entries if not why[entry]]
    stays = (Item(entry, why[entry], 0) for entry in entries if why[entry])
    return Unneeded((*stays, *gone), frozenset(left), sum(loose.values()), sum(left.values()))


def collect(store: Store, keys: Collection[str], blobs: Collection[str] = ()) -> Unneeded:
    """Remove what nobody needs, while no other run uses the store; gives what went.

    Cut at any point, what the index lists is whole, and what was not removed yet is found the next time.

    Raises:
        LockedError: another run uses the store.
        SistershipError: it cannot be written.
    """
    with store.alone():
        found = unneeded(store, keys, blobs)
        named = frozenset[str]().union(*(entry.needs for entry in found.going))
        # First what no line names: a disk that is full has no room for another index.
        store.drop((), found.blobs - named)
        store.drop(found.going, found.blobs & named)
        return found


def _keep(entry: Entry, keys: Collection[str], now: float) -> str:
    if entry.base:
        return "archived base"
    if entry.key in keys:
        return "in the lock"
    if not entry.key:
        return "listed by another tool"
    days = int((now - entry.used) // DAY)
    # A time in the future is of a clock that was wrong, which proves nothing against the image.
    return f"used {_ago(days)}" if now - entry.used <= KEPT else ""


def _ago(days: int) -> str:
    return "today" if days <= 0 else f"{days} day{'s' if days > 1 else ''} ago"
