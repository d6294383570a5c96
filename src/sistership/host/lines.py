"""Connections to a port of a host's own loopback, for what listens nowhere else."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

#: Seconds for a program to end once the connection that it carried is gone.
_PATIENCE = 5
#: ssh's last two lines when nobody listens at the far end. A jump host says the first of them for a target that is
#: down, and then the outer ssh has more to say.
_REFUSED = re.compile(r"open failed: connect failed.*\n.*stdio forwarding failed\s*\Z")


class Line(Protocol):
    """An open connection: a socket, or what has its methods."""

    def sendall(self, data: bytes, /) -> object:
        """Send all of it."""
        ...

    def recv(self, size: int, /) -> bytes:
        """The next bytes, b"" at the end."""
        ...

    def settimeout(self, seconds: float, /) -> object:
        """Seconds that sending and receiving may take; then they raise TimeoutError."""
        ...


@contextlib.contextmanager
def to_local(port: int, *, seconds: float = 5.0) -> Iterator[Line]:
    """A connection to a port of this machine.

    Raises:
        ConnectionRefusedError: nobody listens there.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as line:
        yield line


@contextlib.contextmanager
def through(argv: Sequence[str], failure: Callable[[str], Exception]) -> Iterator[Line]:
    """A connection that a program carries by its standard input and output, as `ssh -W` does; it ends with the block.

    Args:
        failure: the error for what the program said on standard error when it ended by itself.

    Raises:
        ConnectionRefusedError: nobody listens at the far end. That is known when the line was read to its end, so it
            is raised when the block is left.
        FileNotFoundError: there is no such program.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                list(argv),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        line, broken = _Carried(ours), None
        try:
            yield line
        except ConnectionError as error:  # it hung up before all was sent: its own words say more
            line.ended, broken = True, error
        finally:
            ours.close()
            said = _ended(process, by_itself=line.ended)
    if _REFUSED.search(said):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused") from broken
    if process.returncode > 0:
        raise failure(said) from broken
    if broken is not None:
        raise broken


class _Carried:
    """A socket that remembers whether its other end hung up."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self.ended = False

    def sendall(self, data: bytes, /) -> None:
        self._line.sendall(data)

    def recv(self, size: int, /) -> bytes:
        data = self._line.recv(size)
        self.ended = not data
        return data

    def settimeout(self, seconds: float, /) -> None:
        self._line.settimeout(seconds)


def _ended(process: subprocess.Popen[bytes], *, by_itself: bool) -> str:
    """What it said on standard error, once it ended; ended now unless it does that by itself."""
    said = b""
    for number in (None if by_itself else signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            # All of its session: a proxy command that it started holds its output open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            said = process.communicate(timeout=_PATIENCE)[1]
            break
    return said.decode(errors="replace")
