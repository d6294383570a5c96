"""What an export says of itself: `sistership.json`, the identity of one image with its names and its resolution."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sistership.errors import IdentityError, LockError, SistershipError
from sistership.image.documents import canonical_json, platform_of
from sistership.image.identity import Image
from sistership.image.release import Release

#: The file's name inside an export.
NAME: Final = "sistership.json"
KIND: Final = "sistership-image"
VERSION: Final = 1

_KEY: Final = re.compile(r"[0-9a-f]{64}")
_NAMES: Final = ("variant", "image", "tag", "created")
#: Label of the config → field of the record. The labels are inside the identity, the record beside it.
_LABELS: Final[Mapping[str, str]] = {
    "dev.sistership.variant": "variant",
    "org.opencontainers.image.title": "image",
    "org.opencontainers.image.version": "tag",
    "org.opencontainers.image.created": "created",
}


@dataclass(frozen=True)
class Exported:
    """One image as an export describes it.

    Attributes:
        key: recipe key, 64 hex digits.
        record: the entry of the lock's `images`.
        resolved: the entry of the lock's `variants` behind it; another project proves it by the recipe key.
    """

    key: str
    record: Mapping[str, Any] = field(hash=False)
    resolved: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def release(self) -> Release:
        """The image with its names."""
        return Release.from_record(self.key, self.record)

    @property
    def image(self) -> Image:
        """Identity and layers."""
        return Image.from_json(self.record)

    @property
    def created(self) -> str:
        """ISO date of the commit."""
        return str(self.record["created"])

    def to_bytes(self) -> bytes:
        """The file's bytes: the same image and lock always give the same."""
        document = {"kind": KIND, "version": VERSION, "recipe": self.key, "record": dict(self.record)}
        return canonical_json({**document, "resolved": dict(self.resolved) if self.resolved else None}) + b"\n"

    def check_config(self, config: bytes) -> None:
        """Compare the names and the recipe key with the image's own labels, which the config digest covers.

        Raises:
            IdentityError: the record was written for another image.
        """
        document = json.loads(config)
        labels = (document.get("config") or {}).get("Labels") or {}
        said = {"recipe": self.key, "archs": ";".join(self.record.get("archs", ()))}
        said |= {name: str(self.record[name]) for name in _NAMES}
        held = {name: labels.get(label) for label, name in _LABELS.items()}
        held |= {"recipe": labels.get("dev.sistership.recipe"), "archs": labels.get("dev.sistership.archs")}
        said["platform"], held["platform"] = self.image.platform, platform_of(document)
        for name, value in said.items():
            if held[name] != value:
                raise IdentityError(
                    f"the record says {name} {value}, the image itself {held[name] or 'nothing'}",
                    hint="take the file from whoever exported it",
                )


def parse(data: bytes, where: str) -> Exported:
    """The counterpart of `to_bytes`, from inside an export or a file of its own.

    Args:
        where: for messages.

    Raises:
        SistershipError: it is something else, damaged, or of a newer version.
    """
    try:
        value = json.loads(data)
    except ValueError as error:
        raise _refused(where, f"it is no JSON: {error}") from None
    return of_document(value, where)


def of_document(value: Any, where: str) -> Exported:
    """Like `parse`, from the JSON value.

    Raises:
        SistershipError: see `parse`.
    """
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise _refused(where, f"it is not of kind {KIND}")
    if value.get("version") != VERSION:
        why = f"it has version {value.get('version')}, this sistership reads version {VERSION}"
        raise SistershipError("the identity cannot be read", where=where, why=why, hint="use a newer sistership")
    record, resolved, key = value.get("record"), value.get("resolved"), value.get("recipe")
    if not isinstance(record, dict) or not isinstance(resolved, dict | None):
        raise _refused(where, "its record is missing")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise _refused(where, "its recipe key is no sha256")
    if missing := [name for name in _NAMES if not isinstance(record.get(name), str)]:
        raise _refused(where, f"its record has no {missing[0]}")
    if not _texts(record.get("archs", [])) or not _texts(list(record.get("files", {}).values())):
        raise _refused(where, "archs or files are no text")
    try:
        Image.from_json(record)
    except LockError as error:
        raise _refused(where, error.what) from None
    return Exported(key, record, resolved)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _refused(where: str, why: str) -> SistershipError:
    return SistershipError("the identity cannot be read", where=where, why=why, hint="export the image again")
