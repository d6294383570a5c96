"""A fault as a value: what happens, and what may be said of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from .scene import Ended, Scene

#: Does something to a ship and gives its end; what it broke is mended by then, but for what the next ship has to bear.
Strike = Callable[[Scene], AbstractContextManager[Ended]]


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    Attributes:
        strike: what happens.
        codes: the exit codes that a host may get.
        says: a pattern that the message has to match.
        restarted: containers end with the fault, and come back.
        lingers: seconds that the lock may outlive a connection of which the host heard no end.
        damages: what was staged is found damaged, so that it has to be sent again.
        ships: so many ships it may take until one completes: damage on the host is found when its engine refuses it.
        sends: more than this many image bytes must not leave; None: as many as the image has.
    """

    name: str
    strike: Strike
    codes: frozenset[int] | set[int]
    says: str = ""
    restarted: bool = False
    lingers: float = 5
    damages: bool = False
    sends: int | None = None
    ships: int = 1
