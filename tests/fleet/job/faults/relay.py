"""The cable between ssh and a host, as a ProxyCommand: `relay.py FOLDER ADDRESS PORT`.

It counts what passes, and something can happen at an exact byte of a conversation, over however many connections.
FOLDER holds:

counted   two numbers of 8 bytes: bytes to the host, bytes from it
rule      `AT DEED`: after AT bytes, both ways together, DEED happens; removing the file lets go of what is held
reached   made when that happened
down      while it exists nobody gets a connection

Deeds: `cut` (connections end now, and new ones until `down` goes), `kill` (the ssh that we serve is killed, once),
`hold` and `freeze` (nothing passes while the rule exists; ssh notices the second by itself).
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

_PIECE = 1 << 16
_COUNTS = struct.Struct("<QQ")
UP, DOWN = 0, 1


class Cable:
    """One host's folder, shared by every relay to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = os.open(folder / "counted", os.O_RDWR | os.O_CREAT)
        self._mine = threading.Lock()

    def allowed(self, size: int, way: int) -> int:
        """How many of `size` bytes may pass now; what the rule says happens when it is none."""
        while True:
            rule = self._rule()
            with self._mine:
                fcntl.flock(self._file, fcntl.LOCK_EX)
                try:
                    counts = list(counted(self._file))
                    room = size if rule is None else min(size, rule[0] - sum(counts))
                    if room > 0:
                        counts[way] += room
                        os.pwrite(self._file, _COUNTS.pack(*counts), 0)
                        return room
                finally:
                    fcntl.flock(self._file, fcntl.LOCK_UN)
            if rule is not None:
                self._happen(rule[1])

    def _rule(self) -> tuple[int, str] | None:
        try:
            at, deed = (self.folder / "rule").read_text().split()
        except FileNotFoundError:
            return None
        return int(at), deed

    def _happen(self, deed: str) -> None:
        (self.folder / "reached").touch()
        if deed == "cut":
            (self.folder / "down").touch()
            os._exit(1)
        if deed == "kill":
            (self.folder / "rule").unlink(missing_ok=True)
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(1)
        ours = os.getppid()
        # Another rule does not let go of what is held, unless it cuts.
        while (rule := self._rule()) and rule[1] != "cut":
            if os.getppid() != ours:  # ssh has given up
                os._exit(1)
            time.sleep(0.01)


def counted(file: int) -> tuple[int, int]:
    """Bytes to the host and from it, out of an open file of counts."""
    data = os.pread(file, _COUNTS.size, 0)
    return _COUNTS.unpack(data) if len(data) == _COUNTS.size else (0, 0)


def _pump(cable: Cable, source: int, sink: int, way: int) -> None:
    try:
        while data := os.read(source, _PIECE):
            view = memoryview(data)
            while view:
                size = cable.allowed(len(view), way)
                piece, view = view[:size], view[size:]
                while piece:
                    piece = piece[os.write(sink, piece) :]
    except OSError:
        pass  # either end is gone
    os._exit(0)  # one end closed: as with a cable, the other has nobody to talk to


def main() -> None:
    """Carry one connection."""
    cable = Cable(Path(sys.argv[1]))
    if (cable.folder / "down").exists():
        sys.exit("relay: the cable is cut")
    link = socket.create_connection((sys.argv[2], int(sys.argv[3])), timeout=10)
    link.settimeout(None)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=_pump, args=(cable, 0, link.fileno(), UP), daemon=True).start()
    _pump(cable, link.fileno(), 1, DOWN)


if __name__ == "__main__":
    main()
