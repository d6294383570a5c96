"""How a script reaches a host: one small protocol, whatever lies between.

Everything that runs on a host is a POSIX `sh` script, given as text.
Its standard output travels between two nonce lines, so text printed by login files, banners or a
motd is never taken for an answer, and a connection that was cut is never taken for success: the
closing line carries the exit status, and without it there is none.
"""

from __future__ import annotations

import base64
import secrets
import shlex
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sistership.host.filepart import FilePart
from sistership.host.lines import Line

#: Where engines and tools live when a non-interactive shell has a short PATH (macOS, snap, sbin).
EXTRA_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin:/opt/homebrew/bin"

#: Seconds in which a host must take some of what it is sent.
STALL = 120.0
#: Words of a command line stay shorter than this: a BSD csh says "Word too long" somewhere above 4000 bytes.
_WORD = 900

Sink = Callable[[bytes], object]
#: Standard input: bytes, chunks that are made while they are sent, or a file that the program reads by itself.
Input = bytes | Iterable[bytes] | FilePart


@dataclass(frozen=True)
class Completed:
    """What a script did.

    Attributes:
        status: its exit status.
        out: what it wrote to standard output (empty when a sink took it).
        err: the last part of standard error, decoded.
    """

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are no UTF-8 are replaced."""
        return self.out.decode(errors="replace")


class Transport(Protocol):
    """A way to a host."""

    @property
    def host(self) -> str:
        """The host's name in the inventory."""
        ...

    def run(
        self,
        script: str,
        *,
        stdin: Input | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
        stall: float | None = STALL,
    ) -> Completed:
        """Run a POSIX shell script on the host.

        Args:
            script: the script; it sees `stdin` as its standard input, or nothing.
            stdin: bytes, chunks that are made while they are sent, or a part of a file. Of these the last is the
                fastest: where a program of this machine carries the bytes, it reads them itself.
            sink: takes standard output in chunks instead of keeping it in memory.
            timeout: seconds after which the script is ended.
            stall: seconds after which it is ended when nothing moves while `stdin` waits to be taken.

        Raises:
            HostUnreachableError: no connection, or it was cut, stalled or timed out before the script ended.
            HostUnfitError: the login shell there does not get as far as the script.
            SistershipError: the file of `stdin` cannot be read, or its size changed meanwhile.
        """
        ...

    def dial(self, port: int) -> AbstractContextManager[Line]:
        """A connection to a port of the host's own loopback.

        Raises:
            ConnectionRefusedError: nobody listens there; perhaps not before the block is left.
            HostUnreachableError: there is no way to the host, or it forwards nothing; the same.
        """
        ...

    def close(self) -> None:
        """End what still runs and give the connection back."""
        ...


@dataclass(frozen=True)
class Frame:
    """The two lines around a script's output.

    Attributes:
        nonce: 32 hex digits that no login text can guess.
    """

    nonce: str

    @classmethod
    def fresh(cls) -> Frame:
        """A frame with a nonce of its own."""
        return cls(secrets.token_hex(16))

    def wrap(self, script: str) -> str:
        """`script` between the two lines; its exit status goes into the closing one."""
        return (
            f'PATH="$PATH:{EXTRA_PATH}"; LC_ALL=C; export PATH LC_ALL\n'
            f"printf '\\n%s\\n' {self.nonce}\n"
            f"(\n{script}\n)\n"
            f"printf '\\n%s %d\\n' {self.nonce} $?\n"
        )

    def command(self, script: str) -> str:
        """One line that runs the wrapped script under any login shell (sh, bash, zsh, csh, tcsh, fish).

        Base64 keeps newlines, quotes and `!` from a login shell that would read them in its own way.
        """
        encoded = base64.b64encode(self.wrap(script).encode()).decode()
        words = " ".join(encoded[at : at + _WORD] for at in range(0, len(encoded), _WORD))
        return f'exec sh -c \'eval "set --; $(printf %s "$@" | base64 -d)"\' sh {words}'


class Unframe:
    """Takes a stream of chunks and gives the script's own bytes to `sink`.

    Memory is bounded by the length of a nonce line: what may still become the closing line is held back.

    Attributes:
        preface: the beginning of what was printed before the script ran.
        opened: the script began to run.
        status: its exit status; None until the closing line has come.
    """

    def __init__(self, frame: Frame, sink: Sink) -> None:
        self._open = f"\n{frame.nonce}\n".encode()
        self._close = f"\n{frame.nonce} ".encode()
        self._hold = len(self._close) + 8
        self._sink = sink
        self._buffer = b""
        self.preface = b""
        self.opened = False
        self.status: int | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk; what follows the closing line is no answer and left out."""
        if self.status is not None:
            return
        self._buffer += chunk
        if not self.opened and not self._look_for_start():
            return
        at = self._buffer.find(self._close)
        if at < 0:
            self._give(len(self._buffer) - self._hold)
            return
        self._give(at)
        status, ended, _ = self._buffer[len(self._close) :].partition(b"\n")
        if ended and status.isdigit():
            self.status = int(status)

    def _look_for_start(self) -> bool:
        before, found, after = self._buffer.partition(self._open)
        if not found:
            # Login text may be long; only its tail can hold the start of the opening line.
            cut = max(len(before) - len(self._open), 0)
            before, after = before[:cut], before[cut:]
        self.preface = (self.preface + before)[:4096]
        self._buffer = after
        self.opened = bool(found)
        return self.opened

    def _give(self, size: int) -> None:
        if size > 0:
            self._sink(self._buffer[:size])
            self._buffer = self._buffer[size:]

    def finish(self) -> int | None:
        """The exit status at the end of the stream; None when the closing line never came."""
        if not self.opened:
            self.preface = (self.preface + self._buffer)[:4096]
            self._buffer = b""
        return self.status


def quote(*words: str) -> str:
    """Words as one piece of shell script."""
    return shlex.join(words)
