"""One fleet command at a time on this machine."""

from __future__ import annotations

import fcntl
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sistership.errors import LockedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sistership.fleet.process import Reporter

#: As long as a cold start may take, in seconds.
PATIENCE = 1200.0


@contextmanager
def held(path: Path, report: Reporter, seconds: float = PATIENCE) -> Iterator[None]:
    """Hold the lock `path`; waits up to `seconds` for another command to finish.

    Raises:
        LockedError: it did not finish.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        deadline = time.monotonic() + seconds
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LockedError(
                        "another fleet command is still running", where=str(path), hint="wait for it, or end it"
                    ) from None
                if not told:
                    report("another fleet command is running; waiting for it")
                    told = True
                time.sleep(0.2)
        yield
