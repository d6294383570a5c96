"""What an image is, independent of any engine: config digest, ordered diffIDs and platform.

An engine with the classic store shows the config digest as its ID, one with the containerd store
shows the digest of the manifest it was given, so both manifest forms are part of the record.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from sistership.errors import LockError

T = TypeVar("T")

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def digest_of(data: bytes) -> str:
    """The digest of some bytes, as ``sha256:`` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def is_digest(text: object) -> bool:
    """Whether this is a full sha256 digest; a short ID is none."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def hex_of(digest: str) -> str:
    """The 64 hex digits of a digest.

    Raises:
        LockError: it is not a full sha256 digest.
    """
    if not is_digest(digest):
        raise LockError(f"not a sha256 digest: {digest!r}", hint="restore buildmatrix.lock.json, or build again")
    return digest.removeprefix("sha256:")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer in both forms.

    Args:
        diff_id: digest of the uncompressed tar.
        digest: digest of the zstd blob in the store.
        size: bytes of the zstd blob.
        plain_size: bytes of the uncompressed tar.
        base: it came with the base image, exactly as it is.
        created_by: the instruction that made it, or ``base layer N``.
    """

    diff_id: str
    digest: str
    size: int
    plain_size: int
    base: bool
    created_by: str


@dataclass(frozen=True, slots=True)
class Image:
    """One image: its identity, and the digests an engine may show for it.

    Args:
        config: digest of the config, the ID on classic stores and podman.
        platform: ``linux/amd64``, ``linux/arm/v7``.
        manifest: digest of the manifest whose layers are zstd blobs.
        manifest_plain: digest of the manifest whose layers are uncompressed.
        layers: from the lowest to the highest; the same layer may occur twice.
    """

    config: str
    platform: str
    manifest: str
    manifest_plain: str
    layers: tuple[Layer, ...]

    @property
    def diff_ids(self) -> tuple[str, ...]:
        """The ordered diffIDs, as RootFS.Layers shows them."""
        return tuple(layer.diff_id for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON values; ``from_json`` reads it back."""
        record = asdict(self)
        record["layers"] = [asdict(layer) for layer in self.layers]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Image:
        """The image of a record; keys that are not the image's own are ignored.

        Raises:
            LockError: a key is missing, or a value is no full digest, no size or no text.
        """
        return cls(
            config=_digest(record, "config"),
            platform=_typed(record, "platform", str),
            manifest=_digest(record, "manifest"),
            manifest_plain=_digest(record, "manifest_plain"),
            layers=tuple(_layer(layer) for layer in _typed(record, "layers", list)),
        )


def _layer(record: Mapping[str, Any]) -> Layer:
    if not isinstance(record, Mapping):
        raise _damaged("layers", record)
    return Layer(
        diff_id=_digest(record, "diff_id"),
        digest=_digest(record, "digest"),
        size=_typed(record, "size", int),
        plain_size=_typed(record, "plain_size", int),
        base=_typed(record, "base", bool),
        created_by=_typed(record, "created_by", str),
    )


def _typed(record: Mapping[str, Any], key: str, kind: type[T]) -> T:
    value = record.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _damaged(key, value)
    return value


def _digest(record: Mapping[str, Any], key: str) -> str:
    value = _typed(record, key, str)
    if not is_digest(value):
        raise _damaged(key, value)
    return value


def _damaged(key: str, value: object) -> LockError:
    return LockError(
        f"the image record is damaged: {key} is {value!r}",
        hint="restore buildmatrix.lock.json from version control, or build the variant again",
    )
