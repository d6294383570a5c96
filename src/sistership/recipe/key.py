"""The recipe key: one hash over everything that decides an image's bytes."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Raised when the meaning of a recipe changes, so that images of the older meaning are built anew.
FORMAT: Final = 1


def canonical(value: object) -> bytes:
    """JSON with sorted keys and no blanks: the same value always gives the same bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(value: object) -> str:
    """Sha256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def recipe_key(*, platform: str, dockerfile: str, tree: str, scripts: Mapping[str, bytes]) -> str:
    """The key of a recipe, 64 hex digits.

    Args:
        platform: "linux/amd64".
        dockerfile: rendered with an empty key; holds bases, flags, labels and the commit.
        tree: git tree of the patched source.
        scripts: support scripts of the build context, name → bytes.
    """
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in scripts.items()}
    return digest({"format": FORMAT, "platform": platform, "dockerfile": dockerfile, "tree": tree, "scripts": hashes})
