"""What a build leaves on its builder for as long as it works there, noted on this machine before it is there.

A run that was killed cleans nothing up. Its note stays and the lock on it is gone with the run, so the next build on
that builder knows what to remove, and takes nothing away from a run that still works.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from sistership.host.commands import Commands
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image import disk
from sistership.matrix.model import Host
from sistership.report.listeners import Reporter

#: What remove_script prints before a name.
_REMOVED: Final = "removed "
_ABSENT: Final = "absent "


@contextmanager
def noted(peer: Peer, made: Sequence[str], lent: Collection[str], folder: Path, reporter: Reporter) -> Iterator[None]:
    """Note what a build makes on a builder until the block has ended well; first remove what killed ones left there.

    Args:
        made: names of images that this build will make there and remove.
        lent: names of images that it will put there and remove; they are used where a killed build left them.
        folder: where the notes of all builds of this user are.

    Raises:
        HostUnreachableError: the builder does not answer; what was left there stays noted.
        SistershipError: the note cannot be written.
    """
    with disk.explained(folder, "a note of this build cannot be written"):
        note, path, left = _take(folder, peer.host, (*made, *lent))
    with note:
        removable, kept = sorted(left - set(lent)), set[str]()
        if removable:
            said = peer.transport.run(remove_script(peer.engine, removable), timeout=600).text.splitlines()
            gone = {line.removeprefix(_REMOVED) for line in said if line.startswith(_REMOVED)}
            done = gone | {line.removeprefix(_ABSENT) for line in said if line.startswith(_ABSENT)}
            kept = set(removable) - done
            _write(note, peer.host, (*made, *lent, *kept))
            if gone:
                count = f"{len(gone)} image{'s' * (len(gone) != 1)}"
                reporter.step(peer.name, f"removed {count} that a build left there when it was cut off")
        yield
        # Not when it failed: after an interrupt the engine may still be about to name what the build has made.
        kept -= {*made, *lent}
        if kept:
            _write(note, peer.host, kept)
        else:
            path.unlink(missing_ok=True)


def place(host: Host) -> list[str]:
    """The engine that a host of any matrix means, as far as the way to it says: one name may be two machines."""
    return [str(part or "") for part in (host.ssh, host.ssh_config, host.docker_host, host.context)]


def remove_script(engine: Commands, names: Iterable[str]) -> str:
    """Removes the images that are there of these, and prints which it removed and which are not there.

    An engine that does not answer says of none that it is not there.
    """
    return f"""{engine.functions}
for name in {quote(*names)}; do
  if drop_name "$name" >/dev/null 2>&1; then echo "{_REMOVED}$name"
  elif ! image_id "$name" >/dev/null && engine version >/dev/null 2>&1; then
    echo "{_ABSENT}$name"
  fi
done
true
"""


def _take(folder: Path, host: Host, names: Sequence[str]) -> tuple[BinaryIO, Path, set[str]]:
    """A new note, open and locked, that took over those of ended runs, its path, and the names that only they had."""
    folder.mkdir(parents=True, exist_ok=True)
    with disk.locked(folder / ".lock"):
        left, used, over = set[str](), set[str](), list[Path]()
        for path in folder.glob("*.json"):
            with suppress(FileNotFoundError), path.open("rb") as file:
                found = _names(file.read(), place(host))
                if found is None:
                    continue  # of another builder
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    used |= found
                    continue
                left |= found
                over.append(path)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".json")
        note = os.fdopen(handle, "wb", buffering=0)
        fcntl.flock(note, fcntl.LOCK_EX)
        # With what others left: this run may be killed, too, before it has removed that.
        _write(note, host, (*names, *left))
        for path in over:
            path.unlink(missing_ok=True)
    return note, Path(name), left - used


def _write(note: BinaryIO, host: Host, names: Iterable[str]) -> None:
    note.seek(0)
    note.write(json.dumps({"where": place(host), "names": sorted(set(names))}).encode())
    note.truncate()


def _names(data: bytes, where: list[str]) -> set[str] | None:
    """The names in a note of this place; None of another place's, nothing of one that was never written to its end."""
    try:
        document: Any = json.loads(data)
        return set(map(str, document["names"])) if document["where"] == where else None
    except (KeyError, TypeError, ValueError):
        return set()
