"""Bytes into a host's staging folder: by offset, checked there, named only when whole."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence

from sistership.errors import ShipError
from sistership.host.facts import STAGE
from sistership.host.filepart import FilePart
from sistership.host.inventory import Peer
from sistership.host.sums import SHA256
from sistership.host.transport import Completed, quote
from sistership.image.archive import Blob, open_blob
from sistership.image.identity import Layer
from sistership.image.layout import Store
from sistership.image.release import short
from sistership.ship.plan import Encoding, LayerPlan

CHUNK = 1 << 20
_WRONG_OFFSET = 9
_WRONG_SUM = 8
_SHORT = 7

Progress = Callable[[int], None]
Spoilt = Callable[[], None]


def receive_script(file: str, offset: int, size: int, digest: str) -> str:
    """Append standard input to `file`.part, hashing it on the way, and give it its name when it is whole and right.

    Too few bytes are a cut link: they stay. A wrong sum removes the file.

    Args:
        offset: bytes that lie there already.
        size: bytes of the whole file.
        digest: its sha256.
    """
    part = quote(f"{file}.part")
    before = f"head -c {offset} {part}; " if offset else ""
    # Where tee can, it ends with a full disk, so that the rest is not sent for nothing.
    return f"""{SHA256}{_open(part, offset)}
tee --output-error=exit /dev/null </dev/null 2>/dev/null && at_once=--output-error=exit || at_once=
set -- $({{ {{ {before}tee $at_once -a {part}; echo $? >&3; }} | sha256; }} 3>&1)
[ "$1" = 0 ] || exit 1
now=$(wc -c < {part})
[ "$now" -eq {size} ] || {{ echo "it has $((now)) bytes instead of {size}" >&2; exit {_SHORT}; }}
{_named(file, part, f'"$2" = {digest.removeprefix("sha256:")}')}
"""


def append_script(file: str, offset: int) -> str:
    """Append standard input to `file`.part, for what is compressed on the way: its size is not known before."""
    part = quote(f"{file}.part")
    return f"""{_open(part, offset)}
cat >> {part}
"""


def check_packed_script(file: str, diff_id: str) -> str:
    """Check a gzip `file`.part by its content, since its bytes have no digest of their own, and give it its name."""
    part = quote(f"{file}.part")
    return f"""{SHA256}
cd {STAGE} || exit 1
sum=$(gzip -dc < {part} | sha256)
{_named(file, part, f'"$sum" = {diff_id.removeprefix("sha256:")}')}
"""


def _open(part: str, offset: int) -> str:
    return f"""
cd {STAGE} || exit 1
if [ {offset} -eq 0 ]; then : > {part}; fi
[ "$(wc -c < {part})" -eq {offset} ] || exit {_WRONG_OFFSET}"""


def _named(file: str, part: str, sound: str) -> str:
    return f"if [ {sound} ]; then mv {part} {quote(file)}; else rm -f {part}; exit {_WRONG_SUM}; fi"


def recheck_script(layers: Sequence[LayerPlan]) -> str:
    """Remove the staged layers whose sum is not what it was when they got their name, and print their names."""
    lines = []
    for each in layers:
        file, packed = quote(each.loads), each.loads.endswith(".gz")
        digest = each.layer.digest if each.loads.endswith(".zst") else each.layer.diff_id
        # The end of a gzip file is no part of what comes out, and the load stumbles over it all the same.
        sound, hashed = ("true", f"sha256 < {file}")
        if packed:
            sound, hashed = f"gzip -t < {file} 2>/dev/null", f"gzip -dc < {file} | sha256"
        sound += f' && [ "$({hashed})" = {digest.removeprefix("sha256:")} ]'
        lines.append(f"[ ! -f {file} ] || {{ {sound}; }} || {{ rm -f -- {file}; echo {file}; }}")
    return "\n".join([f"{SHA256}cd {STAGE} || exit 1", *lines, "true"])


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


def blob_of(plan: LayerPlan) -> str:
    """Digest of the store's blob that is read to send a layer."""
    return plan.difference.digest if plan.difference else plan.layer.digest


def send_layer(
    peer: Peer, store: Store, plan: LayerPlan, encoding: Encoding, *, offset: int, progress: Progress, spoilt: Spoilt
) -> int:
    """Send the rest of one layer, or of its difference; it is checked there. Returns the bytes sent.

    Args:
        offset: bytes that lie there already, as the probe counted them.
        spoilt: is called before bytes are sent once more, since those that came before were wrong.

    Raises:
        HostUnreachableError: the connection was cut; what has arrived stays and the next run goes on from there.
        ShipError: the bytes are wrong on the host even when sent from the start.
    """
    total = 0

    def counted(size: int) -> None:
        nonlocal total
        total += size
        progress(size)

    for start in (offset, 0):
        total = 0
        done = _sent(peer, store, plan, encoding, start, counted)
        if done.status == 0:
            return total
        if done.status not in (_WRONG_SUM, _WRONG_OFFSET):
            raise _unwritten(peer, plan, done)
        if start == 0:
            break
        spoilt()
    raise ShipError(
        f"layer {short(plan.layer.diff_id)} arrived with a wrong checksum; it was removed there",
        where=peer.name,
        why=done.err.strip()[-200:] or None,
        hint="check that host's disk and memory, then ship again",
    )


def _sent(peer: Peer, store: Store, plan: LayerPlan, encoding: Encoding, offset: int, progress: Progress) -> Completed:
    """Send from `offset` on, and have it checked."""
    blob = blob_of(plan)
    if plan.difference or encoding is Encoding.ZSTD:
        # The very file of the store: nothing of it passes through this program.
        script, stdin = receive_script(plan.file, offset, plan.size, blob), FilePart(store.path(blob), offset, progress)
        return peer.transport.run(script, stdin=stdin)
    chunks = told(skip(content(store, plan.layer, encoding), offset), progress)
    if encoding is Encoding.PLAIN:
        script = receive_script(plan.file, offset, plan.size, plan.layer.diff_id)
        return peer.transport.run(script, stdin=chunks)
    done = peer.transport.run(append_script(plan.file, offset), stdin=chunks)
    if done.status != 0:
        return done
    return peer.transport.run(check_packed_script(plan.file, plan.layer.diff_id), timeout=3600)


def told(chunks: Iterator[bytes], progress: Progress) -> Iterator[bytes]:
    """The chunks, each counted when the next one is asked for."""
    for chunk in chunks:
        yield chunk
        progress(len(chunk))


def _unwritten(peer: Peer, plan: LayerPlan, done: Completed) -> ShipError:
    reason = done.err.strip().splitlines()
    return ShipError(
        f"layer {short(plan.layer.diff_id)} could not be written there",
        where=peer.name,
        why=reason[-1] if reason else f"exit status {done.status}",
        hint="is the disk full? what has arrived is kept, ship again to go on",
    )


def clear_script(files: Sequence[str]) -> str:
    """Remove staged files."""
    return f"cd {STAGE} && rm -f -- {quote(*files)}" if files else "true"
