"""The labels of an image: where it comes from, in words that registries and other tools know."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sistership.matrix.model import Fork, Variant
    from sistership.recipe.lock import LockedVariant

_OCI: Final = "org.opencontainers.image"
_OURS: Final = "dev.sistership"
#: git@host:path, the address form without a scheme.
_SCP: Final = re.compile(r"[^/:@\s]+@[^/:\s]+:\S+")


def labels(variant: Variant, fork: Fork, locked: LockedVariant, key: str) -> Mapping[str, str]:
    """Label → value. `key` is the recipe key, empty while the key itself is computed."""
    return {
        f"{_OCI}.created": locked.date,
        f"{_OCI}.revision": locked.commit,
        f"{_OCI}.source": address(fork),
        f"{_OCI}.title": variant.image,
        f"{_OCI}.version": variant.tag,
        f"{_OURS}.archs": ";".join(variant.cuda.archs) if variant.cuda else "",
        f"{_OURS}.patches": ",".join(f"{patch.file}@sha256:{patch.sha256}" for patch in locked.patches),
        f"{_OURS}.recipe": key,
        f"{_OURS}.tree": locked.tree,
        f"{_OURS}.variant": variant.name,
    }


def address(fork: Fork) -> str:
    """The fork's public address, without a password; the fork's name where the address is a path of some machine."""
    written = fork.written
    if _SCP.fullmatch(written):
        return written
    parts = urlsplit(written)
    if not parts.scheme or parts.scheme == "file" or not parts.hostname:
        return fork.name
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
