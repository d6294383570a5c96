"""One ship, or prune, per host at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from sistership.errors import HostUnreachableError, LockedError
from sistership.host.facts import STAGE
from sistership.host.inventory import Peer

_BUSY = 7
_BEAT = 5  # seconds between two signs of life of a lock's holder
_SILENCE = 60  # seconds without one after which the host frees the lock
_STALE = 5  # minutes after which a lock without flock counts as left behind


class HostLock:
    """One ship per host at a time: a lock on the host, held by an open connection.

    It goes with the connection, so neither a crash here nor a cut link leaves a host locked.
    """

    def __init__(self, peer: Peer, *, timeout: float = 30) -> None:
        self._peer = peer
        self._timeout = timeout
        self._release = threading.Event()
        self._answered = threading.Event()
        self._answer = b""
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._hold, daemon=True, name=f"lock-{peer.name}")

    def __enter__(self) -> Self:
        """Take the lock.

        Raises:
            LockedError: another ship to this host, or a prune of it, is under way.
            HostUnreachableError: no connection.
        """
        self._thread.start()
        if not self._answered.wait(self._timeout):
            self._release.set()
            raise HostUnreachableError("it does not answer", where=self._peer.name, hint="run the command again")
        if isinstance(self._error, Exception):
            raise self._error
        if b"held" not in self._answer:
            self._release.set()
            self._thread.join(5)
            raise LockedError(
                "another ship to this host, or a prune of it, is under way",
                where=self._peer.name,
                hint="wait for it to end; a lock never outlives its connection",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        self._release.set()
        self._thread.join(10)

    def _hold(self) -> None:
        script = f"""
mkdir -p {STAGE} && cd {STAGE}/.. || exit 1
if command -v flock >/dev/null; then
  exec 9>ship.lock; flock -n 9 || {{ echo busy; exit {_BUSY}; }}
else
  # A folder that nobody touched for minutes was left by a power cut.
  [ -z "$(find ship.lock.d -prune -mmin +{_STALE} 2>/dev/null)" ] || rmdir ship.lock.d
  mkdir ship.lock.d 2>/dev/null || {{ echo busy; exit {_BUSY}; }}
  trap 'rmdir ship.lock.d' EXIT; trap 'exit 1' HUP INT TERM
fi
# Longer than what the reader holds back for the closing line, so that the answer gets through while we wait.
printf 'held%128s\\n' ''
# Whoever holds the lock sends a byte every {_BEAT} seconds: silence means that the link was cut.
# A timeout is a process group of its own, so that it may outlive this shell: it must not have the lock.
if command -v timeout >/dev/null; then
  while [ "$(timeout {_SILENCE} head -c 1 9>&- | wc -c)" -eq 1 ]; do [ ! -d ship.lock.d ] || touch ship.lock.d; done
else
  cat >/dev/null
fi
"""
        try:
            self._peer.transport.run(script, stdin=self._wait(), sink=self._take)
        except Exception as error:  # noqa: BLE001 - raised by __enter__ in the thread that waits
            self._error = error
        finally:
            self._answered.set()

    def _take(self, chunk: bytes) -> None:
        self._answer += chunk
        if b"held" in self._answer:
            self._answered.set()

    def _wait(self) -> Iterator[bytes]:
        while not self._release.wait(_BEAT):
            yield b"\n"
        yield b""
