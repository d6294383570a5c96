"""One image on a host: found by what people call it, saved into a file, or one file of it read."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Sequence
from typing import Final

from sistership.errors import ShipError
from sistership.host.commands import Commands
from sistership.host.engines import BY_HAND
from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.host.inventory import Peer
from sistership.host.transport import Sink, quote

#: Bytes of one file that are taken from a host.
MOST: Final = 4 << 20
#: Fewer digits are a typing error rather than an ID.
_DIGITS: Final = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})")
_NO_FILE: Final = 9


def held(host: str, facts: HostFacts, names: Sequence[str]) -> HeldImage:
    """The image on a host under the first of these names that it has: references, or the digits that an ID begins with.

    Raises:
        ShipError: it has none of them, or several images with an ID that begins so.
    """
    for name in names:
        tagged = facts.tagged(name if ":" in name.rpartition("/")[2] else f"{name}:latest")
        if tagged is not None:
            return tagged
    digits = [found[1] for name in names if (found := _DIGITS.fullmatch(name))]
    fitting = [each for each in facts.images if any(each.id.removeprefix("sha256:").startswith(one) for one in digits)]
    if len(fitting) == 1:
        return fitting[0]
    several = f"{len(fitting)} images there have an ID that begins with {digits[0]}" if fitting else None
    raise ShipError(
        f"there is no image {names[0]}" if not fitting else f"{names[0]} does not say which image",
        where=host,
        why=several,
        hint=f"`{BY_HAND[facts.engine]['images']}` there shows what it holds",
    )


def save(peer: Peer, image_id: str, sink: Sink) -> None:
    """`docker save` of an image, by ID: a name may move meanwhile.

    Raises:
        ShipError: the engine cannot give it.
        HostUnreachableError: the connection was cut.
    """
    done = peer.transport.run(f"{peer.engine.functions}\nsave_image {quote(image_id)}", sink=sink)
    if done.status != 0:
        raise ShipError(
            f"its engine cannot save {image_id[7:19]}",
            where=peer.name,
            why=done.err.strip()[-300:] or None,
            hint="the image there may lack a layer: sistership verify says so",
        )


def file_script(engine: Commands, image_id: str, path: str) -> str:
    """Prints a tar with one file of an image, out of a container that is made and removed; nothing of it is run."""
    return f"""{engine.functions}
open_image {quote(image_id)} >&2 || exit 1
trap 'close_image >/dev/null 2>&1' EXIT
copy_out {quote(path)} && exit 0
is_open && exit {_NO_FILE}
exit 1
"""


def file_of(peer: Peer, image_id: str, path: str) -> bytes | None:
    """A small regular file of an image on a host; None when the image has none at that path.

    Args:
        image_id: as that host's engine shows it.
        path: absolute.

    Raises:
        ShipError: no container can be made of the image, or what came is no file of such a size.
        HostUnreachableError: the connection was cut.
    """
    taken = bytearray()

    def take(chunk: bytes) -> None:
        # The rest of a huge file goes nowhere; the tar is then cut, and that is told.
        taken.extend(chunk[: MOST - len(taken)])

    done = peer.transport.run(file_script(peer.engine, image_id, path), sink=take, timeout=120)
    if done.status == _NO_FILE:
        return None
    if done.status != 0:
        lines = done.err.strip().splitlines()
        raise ShipError(
            f"no container can be made of {image_id[7:19]}", where=peer.name, why=lines[-1][:200] if lines else None
        )
    try:
        with tarfile.open(fileobj=io.BytesIO(taken), mode="r:") as tar:
            stream = next((tar.extractfile(member) for member in tar if member.isreg()), None)
            return stream.read() if stream else None
    except tarfile.TarError as error:
        raise ShipError(f"{path} of {image_id[7:19]} cannot be read", where=peer.name, why=str(error)) from None
