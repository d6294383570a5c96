"""From staged files to an image in the host's engine: read from the host's own disk, under a name nobody else has."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sistership.errors import ShipError
from sistership.host.facts import STAGE
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.archive import Blob, Bytes
from sistership.image.release import Release
from sistership.ship.plan import Encoding, HostPlan, staged_name

_CUT = 6


@dataclass(frozen=True)
class Assembly:
    """How a host puts the archive together.

    Attributes:
        file: the metadata's name in the staging folder, of this load alone: an engine may still be reading that of
            a load whose ship was killed.
        metadata: headers, manifests and padding, one after the other; they travel as one small file.
        script: prints the archive, reading that file and the staged layers.
    """

    file: str
    metadata: bytes
    script: str


def metadata_prefix(release: Release) -> str:
    """How the metadata files of an image begin."""
    return f"{release.image.config.removeprefix('sha256:')}.meta"


def assemble(
    pieces: Sequence[Bytes | Blob], release: Release, encoding: Encoding, files: Mapping[str, str] | None = None
) -> Assembly:
    """The archive as shell: what is small comes from one file by offset, what is large from its own file.

    An archive never lies on the host's disk as a whole, and its metadata comes last:
    whatever fails midway leaves the engine with a tar that names no image.

    Args:
        encoding: of the staged layers.
        files: diffID → staged file, of layers that lie there in another way.
    """
    name = f"{metadata_prefix(release)}-{secrets.token_hex(4)}"
    meta = quote(name)
    metadata = bytearray()
    lines: list[str] = []
    for piece in pieces:
        if isinstance(piece, Bytes):
            lines.append(f"tail -c +{len(metadata) + 1} {meta} | head -c {len(piece.data)}")
            metadata += piece.data
        else:
            file = (files or {}).get(piece.layer.diff_id) or staged_name(piece.layer, encoding)
            lines.append(_read(file, plain=piece.plain) + f" || exit {_CUT}")
    return Assembly(name, bytes(metadata), "\n".join(lines))


def _read(file: str, *, plain: bool) -> str:
    """Prints a staged file as the engine gets it; its ending says how it is encoded."""
    if plain and file.endswith(".zst"):
        return f"zstd -dcq {quote(file)}"
    return f"gzip -dc < {quote(file)}" if file.endswith(".gz") else f"cat {quote(file)}"


def load(peer: Peer, assembly: Assembly, name: str = "") -> str:
    """Load the image on the host under its unique name. Returns what the engine printed.

    Its words and exit status are kept for messages only: "Loaded image", exit 0 and the right ID have all been
    seen for an image that lacked a layer. The caller verifies.

    Args:
        name: the unique name. It is given once more: a classic engine notes the time of a tag, not that of a load, and
            by it a prune of another user knows that a ship is under way.

    Raises:
        ShipError: the engine refused it.
        HostUnreachableError: the connection was cut.
    """
    meta = quote(assembly.file)
    put = peer.transport.run(f"cd {STAGE} && cat > {meta}", stdin=assembly.metadata, timeout=120)
    if put.status != 0:
        raise ShipError("the staging folder cannot be written", where=peer.name, why=put.err.strip()[-200:] or None)
    remove = f"trap 'rm -f -- {meta}' EXIT"
    script = f"cd {STAGE} || exit 1\n{remove}\n{{\n{assembly.script}\n}} | {peer.docker} load 2>&1"
    if name:
        script += f"\nstatus=$?; {peer.docker} tag {quote(name, name)} >/dev/null 2>&1; exit $status"
    done = peer.transport.run(script)
    words = done.text.strip()
    if done.status != 0 or "Error unpacking image" in words:
        raise ShipError(
            "its engine refused the image; what it ran before is untouched",
            where=peer.name,
            why=(words or done.err.strip()).splitlines()[-1][:300] if words or done.err.strip() else None,
            hint="see the engine's log there: journalctl -u docker -n 50",
        )
    return words


def remove_name(peer: Peer, name: str) -> None:
    """Remove one of our own names from the host, and what only it held; it need not be there."""
    peer.transport.run(f"{peer.docker} image rm {quote(name)} >/dev/null 2>&1", timeout=120)


def tag(peer: Peer, release: Release, plan: HostPlan, loaded_id: str) -> None:
    """Keep the old image under its rollback tag, then move the people's tag.

    In this order: the containerd store before Engine 28.1 loses an image whose last tag is moved away.
    A rollback tag that the old image has from an earlier time is made anew: the engine's time of it tells which image
    was replaced last, and the containerd store of Engine 26.1 keeps the time of a tag that does not move.

    Raises:
        ShipError: the engine refused a tag.
    """
    docker, reference = peer.docker, quote(release.reference)
    keep = ":"
    if plan.moves:
        name = quote(plan.moves[1])
        held = f"$({docker} image inspect --format '{{{{.Id}}}}' {name} 2>/dev/null)"
        anew = f'[ "{held}" != "$old" ] || {docker} image rm --no-prune {name} >/dev/null 2>&1'
        keep = f'{anew}; {docker} tag "$old" {name} || exit 1'
    script = f"""
old=$({docker} image inspect --format '{{{{.Id}}}}' {reference} 2>/dev/null)
[ -z "$old" ] || [ "$old" = {quote(loaded_id)} ] || {{ {keep}; }}
{docker} tag {quote(loaded_id)} {quote(release.unique)} && {docker} tag {quote(loaded_id)} {reference}
"""
    done = peer.transport.run(script, timeout=120)
    if done.status != 0:
        raise ShipError(
            f"the tag {release.reference} could not be moved", where=peer.name, why=done.err.strip()[-200:] or None
        )
