"""Bytes into a host's staging folder: by offset, checked there, named only when whole."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

from sistership.errors import HostUnreachableError, LockedError, ShipError
from sistership.host.facts import STAGE
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.archive import Blob, open_blob
from sistership.image.identity import Layer
from sistership.image.layout import Store
from sistership.ship.plan import Encoding, LayerPlan
from sistership.verify.deep import SHA256

CHUNK = 1 << 20
_WRONG_OFFSET = 9
_WRONG_SUM = 8
_BUSY = 7
_BEAT = 5  # seconds between two signs of life of a lock's holder
_SILENCE = 60  # seconds without one after which the host frees the lock
_STALE = 5  # minutes after which a lock without flock counts as left behind

Progress = Callable[[int], None]


def append_script(file: str, offset: int) -> str:
    """Append standard input to `file`.part, which must be `offset` bytes long."""
    part = quote(f"{file}.part")
    return f"""
cd {STAGE} || exit 1
if [ {offset} -eq 0 ]; then : > {part}; fi
[ "$(wc -c < {part})" -eq {offset} ] || exit {_WRONG_OFFSET}
cat >> {part}
"""


def finish_script(file: str, encoding: Encoding, layer: Layer) -> str:
    """Check `file`.part and give it its name; remove it when its sum is wrong.

    What we compress on the way has no digest of its own, so there the content is checked.
    """
    digest = layer.digest if encoding is Encoding.ZSTD else layer.diff_id
    return check_script(file, digest, unpack="gzip -dc" if encoding is Encoding.GZIP else "cat")


def check_script(file: str, digest: str, *, unpack: str = "cat") -> str:
    """Check `file`.part by the sha256 of what `unpack` makes of it, and give it its name; remove it when it is wrong.

    Args:
        digest: what that sum has to be.
    """
    part = quote(f"{file}.part")
    return f"""
cd {STAGE} || exit 1
sum=$({unpack} < {part} | {SHA256})
if [ "$sum" = {digest.removeprefix("sha256:")} ]; then mv {part} {quote(file)}; else rm -f {part}; exit {_WRONG_SUM}; fi
"""


def recheck_script(layers: Sequence[LayerPlan]) -> str:
    """Remove the staged layers whose sum is not what it was when they got their name, and print their names."""
    lines = []
    for each in layers:
        file, packed = quote(each.file), each.file.endswith(".gz")
        digest = each.layer.digest if each.file.endswith(".zst") else each.layer.diff_id
        # The end of a gzip file is no part of what comes out, and the load stumbles over it all the same.
        sound, unpack = (f"gzip -t < {file} 2>/dev/null", "gzip -dc") if packed else ("true", "cat")
        sound += f' && [ "$({unpack} < {file} | {SHA256})" = {digest.removeprefix("sha256:")} ]'
        lines.append(f"[ ! -f {file} ] || {{ {sound}; }} || {{ rm -f -- {file}; echo {file}; }}")
    return "\n".join([f"cd {STAGE} || exit 1", *lines, "true"])


def content(store: Store, layer: Layer, encoding: Encoding) -> Iterator[bytes]:
    """A layer's bytes as they travel."""
    if encoding is Encoding.ZSTD:
        with store.path(layer.digest).open("rb") as stream:
            while chunk := stream.read(CHUNK):
                yield chunk
        return
    plain = open_blob(store, Blob(layer, plain=True))
    if encoding is Encoding.PLAIN:
        yield from plain
        return
    # One level and no time stamp: the same bytes each time, so that a cut transfer resumes by offset.
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for chunk in plain:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()


def skip(chunks: Iterator[bytes], offset: int) -> Iterator[bytes]:
    """The chunks without their first `offset` bytes."""
    for chunk in chunks:
        if offset >= len(chunk):
            offset -= len(chunk)
        else:
            yield chunk[offset:] if offset else chunk
            offset = 0


def send_layer(
    peer: Peer, store: Store, plan: LayerPlan, encoding: Encoding, *, offset: int, progress: Progress
) -> int:
    """Send the rest of one layer, or of its difference, and have it checked there. Returns the bytes sent.

    Args:
        offset: bytes that lie there already, as the probe counted them.

    Raises:
        HostUnreachableError: the connection was cut; what has arrived stays and the next run goes on from there.
        ShipError: the bytes are wrong on the host even when sent from the start.
    """
    if plan.difference is None:
        check = finish_script(plan.file, encoding, plan.layer)
    else:
        check = check_script(plan.file, plan.difference.digest)
    for start in (offset, 0):
        sent = _send(peer, store, plan, encoding, start, progress)
        done = peer.transport.run(check, timeout=3600)
        if done.status == 0:
            return sent
        if start == 0:
            break
    raise ShipError(
        f"layer {plan.layer.diff_id[7:19]} arrived with a wrong checksum; it was removed there",
        where=peer.name,
        why=done.err.strip()[-200:] or None,
        hint="check that host's disk and memory, then ship again",
    )


def _send(peer: Peer, store: Store, plan: LayerPlan, encoding: Encoding, offset: int, progress: Progress) -> int:
    sent = 0
    found = plan.difference
    chunks = content(store, plan.layer, encoding) if found is None else store.chunks(found.digest)

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for chunk in skip(chunks, offset):
            yield chunk
            sent += len(chunk)
            progress(len(chunk))

    done = peer.transport.run(append_script(plan.file, offset), stdin=counted())
    if done.status == _WRONG_OFFSET and offset:
        return _send(peer, store, plan, encoding, 0, progress)
    if done.status != 0:
        reason = done.err.strip().splitlines()
        raise ShipError(
            f"layer {plan.layer.diff_id[7:19]} could not be written there",
            where=peer.name,
            why=reason[-1] if reason else f"exit status {done.status}",
            hint="is the disk full? what has arrived is kept, ship again to go on",
        )
    return sent


def clear_script(files: Sequence[str]) -> str:
    """Remove staged files."""
    return f"cd {STAGE} && rm -f -- {quote(*files)}" if files else "true"


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
if command -v timeout >/dev/null; then
  while [ "$(timeout {_SILENCE} head -c 1 | wc -c)" -eq 1 ]; do [ ! -d ship.lock.d ] || touch ship.lock.d; done
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
