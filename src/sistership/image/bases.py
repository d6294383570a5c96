"""Archived bases: what a pinned base was made of, kept so that it can be built upon when its registry has it no more.

The pin is a manifest's digest. From it everything is proven without anybody's word: the manifest as the registry gave
it has that digest and names the config's, the config has that one and names the diffIDs, and the layers have those.
Layers lie in the store as every other: packed once, and shared with the images built on them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sistership.errors import BuildError, LockError, SistershipError
from sistership.image.blobs import Packed
from sistership.image.documents import image_of, platform_of
from sistership.image.identity import Image, digest_of, is_digest
from sistership.image.meter import Meter
from sistership.image.pack import layer_of, pack
from sistership.image.saved import open_saved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from sistership.image.identity import Layer
    from sistership.image.layout import Store


@dataclass(frozen=True, slots=True)
class Base:
    """A pinned base and the platform that is taken of it.

    Args:
        reference: as the lock has it, ``name:tag@sha256:…``.
        platform: ``linux/amd64``.
    """

    reference: str
    platform: str

    @property
    def digest(self) -> str:
        """Of the manifest, or of an index of manifests for several platforms."""
        return self.reference.rpartition("@")[2]

    @property
    def repository(self) -> str:
        """The name without tag and digest."""
        name = self.reference.partition("@")[0]
        path, colon, tag = name.rpartition(":")
        return path if colon and "/" not in tag else name

    def __str__(self) -> str:
        return f"{self.reference} ({self.platform})"


@dataclass(frozen=True, slots=True)
class Kept:
    """A base that is in the store.

    Args:
        base: which one.
        image: its config as it came, its layers as the store has them.
        new: bytes that were added to the store for it.
    """

    base: Base
    image: Image
    new: int


def manifest_digest(document: bytes, base: Base) -> str:
    """The digest of the manifest that counts for a base's platform, where ``document`` is what the pin names.

    Args:
        document: a manifest, or an index of manifests.
        base: whose pin it is.

    Raises:
        BuildError: it has nothing for that platform, or is neither.
    """
    value = _json(document, base)
    if isinstance(value.get("config"), dict):
        return digest_of(document)
    found: dict[str, str] = {}
    for line in value.get("manifests") or []:
        platform = line.get("platform") or {}
        # Attestations carry the platform unknown/unknown.
        if platform.get("os") and platform.get("architecture") and is_digest(line.get("digest")):
            found.setdefault(platform_of(platform), line["digest"])
    if base.platform not in found:
        known = ", ".join(sorted(name for name in found if not name.startswith("unknown/")))
        raise BuildError(
            f"the base has no image for {base.platform}",
            where=base.reference,
            why=f"it has {known}" if known else "what its pin names is no image",
            hint="take another base, or another platform, in the matrix",
        )
    return found[base.platform]


def config_digest(base: Base, documents: Mapping[str, bytes]) -> str:
    """The digest of the config that a pin leads to.

    Args:
        base: whose pin it is.
        documents: manifests by their digests.

    Raises:
        BuildError: they do not lead there.
    """
    try:
        digest = _json(documents[manifest_digest(documents[base.digest], base)], base)["config"]["digest"]
    except (KeyError, TypeError) as error:
        raise _no_image(base, f"{error} is missing") from None
    if not is_digest(digest):
        raise _no_image(base, "it names no config")
    return str(digest)


def keep(
    saved: Path,
    base: Base,
    documents: Sequence[bytes],
    store: Store,
    tell: Callable[[int, int], object] | None = None,
) -> Kept:
    """Put a base into the store, once it is proven to be the pinned one.

    Args:
        saved: what ``docker save`` or a builder wrote of it, any engine's form.
        base: what it has to be.
        documents: what the registry has under the pin, and the platform's manifest where that is an index; the
            config too, where the saved one is spelt in another way.
        store: gets the documents, the config, and each layer that it has not got.
        tell: takes bytes done and bytes in all.

    Raises:
        BuildError: it is another image, or damaged, or lacks layers.
        SistershipError: the store cannot be written.
    """
    by_digest = {digest_of(document): document for document in documents}
    pinned = config_digest(base, by_digest)
    with open_saved(saved, store.scratch) as save:
        by_digest.setdefault(digest_of(save.config_bytes), save.config_bytes)
        config = by_digest.get(pinned)
        if config is None or tuple(_json(config, base)["rootfs"]["diff_ids"]) != save.diff_ids:
            raise BuildError(
                "the builder's engine gave another image than the one that is pinned",
                where=base.reference,
                why=f"its config is {digest_of(save.config_bytes)}, pinned is {pinned}",
                hint="remove that image from the builder's engine, and run it again",
            )
        new, packed, meter = 0, list[Packed](), Meter(save.blobs, tell)
        for number, diff_id in enumerate(save.diff_ids):
            known = store.blob_of(diff_id)
            span = save.layer(number)
            packed.append(pack(store, diff_id, span.size, meter.over(number, span)))
            meter.through(number)
            new += 0 if known else packed[-1].size
        image, *forms = image_of(config, _layers(packed))
        for document in (*documents, config, *forms):
            store.add(document)
    store.keep_base(base.reference, base.platform, image, [digest_of(document) for document in documents])
    return Kept(base, image, new)


def kept(base: Base, store: Store, *, deep: bool = True) -> Image | None:
    """The archived base, whole and proven from its pin on; None when something of it is missing or damaged.

    Args:
        base: which one.
        store: where it is.
        deep: hash the layers, too; else only their sizes are compared.
    """
    try:
        document = store.read(base.digest)
        inner = manifest_digest(document, base)
        documents = {base.digest: document, inner: document if inner == base.digest else store.read(inner)}
        config = store.read(config_digest(base, documents))
        packed = [store.blob_of(diff_id) for diff_id in json.loads(config)["rootfs"]["diff_ids"]]
    except (SistershipError, KeyError, TypeError, ValueError):
        return None
    found = [each for each in packed if each is not None]
    if len(found) != len(packed):
        return None
    image, *forms = image_of(config, _layers(found))
    if not all(map(store.has, (image.manifest, image.manifest_plain))):
        # A layer was packed anew since, by another zstd library: the same base under another manifest.
        for form in forms:
            store.add(form)
        store.keep_base(base.reference, base.platform, image, list(documents))
    return None if store.image_complete(image, deep=deep) else image


def require(bases: Iterable[Base], store: Store, variant: str) -> dict[Base, Image]:
    """Every one of these bases from the store, each layer's checksum looked at.

    Raises:
        LockError: one was never archived, or is not whole.
    """
    found = {base: kept(base, store) for base in bases}
    lacking = [base for base, image in found.items() if image is None]
    if lacking:
        named = f"{lacking[0]} and {len(lacking) - 1} more" if len(lacking) > 1 else str(lacking[0])
        damaged = (lacking[0].reference, lacking[0].platform) in store.bases()
        raise LockError(
            f"the base {named} is damaged in the store" if damaged else f"the base {named} is not in the store",
            where=str(store.root),
            why="blobs of it are missing or do not have their checksum" if damaged else "it was never archived here",
            hint=f"where its registry answers: sistership lock --variant {variant} --archive-bases",
        )
    return {base: image for base, image in found.items() if image is not None}


def _json(document: bytes, base: Base) -> dict[str, Any]:
    try:
        value = json.loads(document)
    except ValueError as error:
        raise _no_image(base, str(error)) from None
    if not isinstance(value, dict):
        raise _no_image(base, "it is no object")
    return value


def _no_image(base: Base, why: str) -> BuildError:
    return BuildError(
        "what the pin names is no image manifest", where=base.reference, why=why, hint="take another base in the matrix"
    )


def _layers(packed: Iterable[Packed]) -> list[Layer]:
    return [layer_of(each, base=True, created_by=f"base layer {number}") for number, each in enumerate(packed, 1)]
