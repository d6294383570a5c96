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
from dataclasses import dataclass
from typing import Protocol

#: Where engines and tools live when a non-interactive shell has a short PATH (macOS, snap, sbin).
EXTRA_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin:/opt/homebrew/bin"

Sink = Callable[[bytes], object]


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
        stdin: bytes | Iterable[bytes] | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run a POSIX shell script on the host.

        Args:
            script: the script; it sees `stdin` as its standard input, or nothing.
            stdin: bytes, or chunks that are made while they are sent.
            sink: takes standard output in chunks instead of keeping it in memory.
            timeout: seconds after which the script is ended.

        Raises:
            HostUnreachableError: no connection, or it was cut before the script ended.
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
        """One line that runs the wrapped script under any login shell (sh, bash, zsh, csh, fish).

        Base64 keeps newlines, quotes and `!` from a login shell that would read them in its own way.
        """
        encoded = base64.b64encode(self.wrap(script).encode()).decode()
        return f"exec sh -c 'eval \"$(echo {encoded} | base64 -d)\"'"


class Unframe:
    """Takes a stream of chunks and gives the script's own bytes to `sink`.

    Memory is bounded by the length of a nonce line: what may still become the closing line is held back.
    """

    def __init__(self, frame: Frame, sink: Sink) -> None:
        self._open = f"\n{frame.nonce}\n".encode()
        self._close = f"\n{frame.nonce} ".encode()
        self._hold = len(self._close) + 8
        self._sink = sink
        self._buffer = b""
        self._inside = False
        self.preface = b""

    def feed(self, chunk: bytes) -> None:
        """Take the next chunk."""
        self._buffer += chunk
        if not self._inside:
            at = self._buffer.find(self._open)
            if at < 0:
                # Login text may be long; only its tail can hold the start of the opening line.
                keep = len(self._open)
                self.preface = (self.preface + self._buffer[:-keep])[:4096]
                self._buffer = self._buffer[-keep:]
                return
            self.preface = (self.preface + self._buffer[:at])[:4096]
            self._buffer = self._buffer[at + len(self._open) :]
            self._inside = True
        if len(self._buffer) > self._hold:
            self._sink(self._buffer[: -self._hold])
            self._buffer = self._buffer[-self._hold :]

    def finish(self) -> int | None:
        """Give the rest and return the exit status; None when the closing line never came."""
        at = self._buffer.rfind(self._close) if self._inside else -1
        if at < 0:
            return None
        tail = self._buffer[at + len(self._close) :].strip()
        if not tail.isdigit():
            return None
        self._sink(self._buffer[:at])
        return int(tail)


def quote(*words: str) -> str:
    """Words as one piece of shell script."""
    return shlex.join(words)
