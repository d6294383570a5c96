"""The files inside an image, hashed on the host that holds it."""

from __future__ import annotations

from collections.abc import Mapping

from sistership.host.inventory import Peer
from sistership.host.transport import quote

#: sha256 of standard input as 64 hex digits, with whatever the host has.
SHA256 = (
    "{ if command -v sha256sum >/dev/null; then sha256sum; "
    "elif command -v shasum >/dev/null; then shasum -a 256; "
    "else openssl dgst -sha256 -r; fi; } | cut -c1-64"
)


def hash_script(docker: str, image_id: str, paths: tuple[str, ...]) -> str:
    """Prints one hash a line, in the order of `paths`; nothing of the image is run.

    The files come out of a container that is made, read and removed: what the engine would really run.
    """
    create = f"{docker} create --pull never --network none --entrypoint /sistership-proof {quote(image_id)}"
    lines = [f"sum {quote(path)}" for path in paths]
    body = "\n".join(lines)
    return f"""
id=$({create} 2>/dev/null | tail -n 1)
[ -n "$id" ] || exit 1
trap '{docker} rm -fv "$id" >/dev/null 2>&1' EXIT
sum() {{ {docker} cp "$id:$1" - 2>/dev/null | tar -xO 2>/dev/null | {SHA256}; }}
{body}
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
    done = peer.transport.run(hash_script(peer.docker, image_id, paths), timeout=3600)
    found = done.text.split()
    for number, path in enumerate(paths):
        if number >= len(found) or found[number] != expected[path]:
            return path
    return None
