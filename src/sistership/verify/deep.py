"""The files inside an image, hashed on the host that holds it."""

from __future__ import annotations

from collections.abc import Mapping

from sistership.host.commands import Commands
from sistership.host.inventory import Peer
from sistership.host.openfiles import FOLDERS, OWN_FILE
from sistership.host.sums import SHA256
from sistership.host.transport import quote

#: Files that a host hashes at a time.
_AT_ONCE = 4


def hash_script(engine: Commands, image_id: str, paths: tuple[str, ...]) -> str:
    """Prints `NUMBER HASH` a line for each of `paths`, counted from 0, in any order; nothing of the image is run.

    The files are those of a container that is made, read and removed: what the engine would really run.
    """
    workers = [
        "\n".join(f"sum {number} {quote(path)}" for number, path in enumerate(paths) if number % _AT_ONCE == first)
        for first in range(min(_AT_ONCE, len(paths)))
    ]
    body = "\n".join(f"{{\n{worker}\n}} &" for worker in workers)
    return f"""{engine.functions}
{SHA256}{OWN_FILE}
open_image {quote(image_id)} >&2 || exit 1
trap 'close_image >/dev/null 2>&1' EXIT
{FOLDERS}
sum() {{
  file=$(own_file "$2") sum=
  [ -z "$file" ] || sum=$(sha256 < "$file" 2>/dev/null)
  [ -n "$sum" ] || sum=$(copy_out "$2" 2>/dev/null | tar -xO 2>/dev/null | sha256)
  echo "$1 $sum"
}}
{body}
wait
"""


def differing_file(peer: Peer, image_id: str, expected: Mapping[str, str]) -> str | None:
    """The first file of the image that is not as it was built, or None when all are.

    Args:
        peer: the host.
        image_id: as that host's engine shows it.
        expected: path → sha256 hex.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    paths = tuple(sorted(expected))
    done = peer.transport.run(hash_script(peer.engine, image_id, paths), timeout=3600)
    found = dict(line.split() for line in done.text.splitlines() if len(line.split()) == 2)  # noqa: PLR2004 - a pair
    return next((path for number, path in enumerate(paths) if found.get(str(number)) != expected[path]), None)
