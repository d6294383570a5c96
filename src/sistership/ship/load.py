"""From staged files to an image in the host's engine: read from the host's own disk, under a name nobody else has."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sistership.errors import ShipError
from sistership.host.engines import BY_HAND
from sistership.host.facts import STAGE
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.archive import Blob, Bytes
from sistership.image.release import Release
from sistership.ship.coming import FUNCTIONS
from sistership.ship.plan import Encoding, staged_name

_CUT = 6
_COMING = "coming"


@dataclass(frozen=True)
class Assembly:
    """How a host puts the archive together.

    Attributes:
        file: the metadata's name in the staging folder, of this load alone: an engine may still be reading that of
            a load whose ship was killed.
        metadata: headers, manifests and padding, one after the other; they travel as one small file.
        script: prints the archive, reading that file and the staged layers.
        promise: file in the staging folder by which the host knows that layers still come; "": it waits for none.
        after: metadata of the load that has to end before this one; "": none.
    """

    file: str
    metadata: bytes
    script: str
    promise: str = ""
    after: str = ""


def metadata_prefix(release: Release) -> str:
    """How the metadata files of an image begin."""
    return f"{release.image.config.removeprefix('sha256:')}.meta"


def assemble(
    pieces: Sequence[Bytes | Blob],
    release: Release,
    encoding: Encoding,
    files: Mapping[str, str] | None = None,
    coming: Collection[str] = (),
    after: str = "",
) -> Assembly:
    """The archive as shell: what is small comes from one file by offset, what is large from its own file.

    An archive never lies on the host's disk as a whole, and its metadata comes last:
    whatever fails midway leaves the engine with a tar that names no image.

    Args:
        encoding: of the staged layers.
        files: diffID → staged file, of layers that lie there in another way.
        coming: diffIDs of layers that are not staged yet; each is read while it arrives, and nothing follows it before
            it was checked and has its name.
        after: metadata of the load that brings the layers below. An engine takes in all of an archive before it
            looks for them, so its layers come at once and only the metadata waits for the other load's end.
    """
    name = f"{metadata_prefix(release)}-{secrets.token_hex(4)}"
    meta = quote(name)
    metadata = bytearray()
    lines: list[str] = []
    waits = bool(after)
    for piece in pieces:
        if isinstance(piece, Bytes):
            if after and piece is pieces[-1]:
                lines.append(f"loaded {quote(after)} || exit {_CUT}")
            lines.append(f"tail -c +{len(metadata) + 1} {meta} | head -c {len(piece.data)}")
            metadata += piece.data
            continue
        file = (files or {}).get(piece.layer.diff_id) or staged_name(piece.layer, encoding)
        if piece.layer.diff_id in coming:
            waits = True
            # What was printed in full and then found wrong has no name.
            lines.append(f"{_follow(file, plain=piece.plain)} || exit {_CUT}")
            lines.append(f'[ -f "$promise" ] && [ -f {quote(file)} ] || exit {_CUT}')
        else:
            lines.append(_read(file, plain=piece.plain) + f" || exit {_CUT}")
    return Assembly(name, bytes(metadata), "\n".join(lines), f"{name}.{_COMING}" if waits else "", after)


def _read(file: str, *, plain: bool) -> str:
    """Prints a staged file as the engine gets it."""
    if unpack := _unpack(file, plain=plain):
        return f"{unpack} < {quote(file)}"
    return f"cat {quote(file)}"


def _follow(file: str, *, plain: bool) -> str:
    """The same while the file arrives."""
    unpack = _unpack(file, plain=plain)
    return f"coming {quote(file)} | {unpack}" if unpack else f"coming {quote(file)}"


def _unpack(file: str, *, plain: bool) -> str:
    """What turns a staged file into what the engine gets; its ending says how it is encoded."""
    if plain and file.endswith(".zst"):
        return "zstd -dcq"
    return "gzip -dc" if file.endswith(".gz") else ""


def put_script(assembly: Assembly, release: Release) -> str:
    """Takes the metadata on standard input. Loads of an earlier ship that still wait are given up."""
    script = f"cd {STAGE}"
    if not assembly.after:
        script += f" && rm -f -- {quote(metadata_prefix(release))}-*.{_COMING}"
    script += f" && cat > {quote(assembly.file)}"
    return f"{script} && : > {quote(assembly.promise)}" if assembly.promise else script


def give_up_script(promises: Sequence[str]) -> str:
    """Tells loads that wait that their layers will not come."""
    return f"cd {STAGE} && rm -f -- {quote(*promises)}"


def put(peer: Peer, assembly: Assembly, release: Release) -> None:
    """Stage the metadata of a load.

    Raises:
        ShipError: it cannot be written there.
        HostUnreachableError: the connection was cut.
    """
    done = peer.transport.run(put_script(assembly, release), stdin=assembly.metadata, timeout=120)
    if done.status != 0:
        raise ShipError("the staging folder cannot be written", where=peer.name, why=done.err.strip()[-200:] or None)


def load(peer: Peer, assembly: Assembly, name: str = "", *, followed: bool = False) -> str:
    """Load what was assembled and put there. Returns what the engine printed.

    Its words and exit status are kept for messages only: "Loaded image", exit 0 and the right ID have all been
    seen for an image that lacked a layer. The caller verifies.

    Args:
        name: the unique name. It is given once more: a classic engine notes the time of a tag, not that of a load, and
            by it a prune of another user knows that a ship is under way.
        followed: another load waits for the end of this one.

    Raises:
        ShipError: the engine refused it.
        HostUnreachableError: the connection was cut.
    """
    after = f"{assembly.after}.loaded" if assembly.after else ""
    ours = quote(*filter(None, (assembly.file, assembly.promise, after)))
    before = f"promise={quote(assembly.promise)}{FUNCTIONS}" if assembly.promise else ""
    then = [f"tag_image {quote(name, name)} >/dev/null 2>&1"] if name else []
    then += [f"touch {quote(f'{assembly.file}.loaded')}"] if followed else []
    script = f"""{peer.engine.functions}
cd {STAGE} || exit 1
trap 'rm -f -- {ours}' EXIT
{before}
{{
{assembly.script}
}} | load_image
status=$?
[ $status -ne 0 ] || {{ {"; ".join([*then, ":"])}; }}
exit $status
"""
    done = peer.transport.run(script)
    words = done.text.strip()
    if done.status != 0 or "Error unpacking image" in words:
        raise ShipError(
            "its engine refused the image; what it ran before is untouched",
            where=peer.name,
            why=(words or done.err.strip()).splitlines()[-1][:300] if words or done.err.strip() else None,
            hint=f"see what the engine says of it there: {BY_HAND[peer.engine.kind]['log']}",
        )
    return words


def give_name(peer: Peer, image_id: str, name: str) -> None:
    """Give an image another name; whether it has it is for the caller to find out."""
    peer.transport.run(f"{peer.engine.functions}\ntag_image {quote(image_id, name)} >/dev/null 2>&1", timeout=120)


def remove_name(peer: Peer, name: str) -> None:
    """Remove one of our own names from the host, and what only it held; it need not be there."""
    peer.transport.run(f"{peer.engine.functions}\ndrop_name {quote(name)} >/dev/null 2>&1", timeout=120)
