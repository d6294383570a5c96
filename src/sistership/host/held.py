"""An image as a host's engine shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sistership.host.answers import document


@dataclass(frozen=True)
class HeldImage:
    """An image as a host's engine shows it.

    Attributes:
        id: the config digest on the classic store and with Podman, a manifest or index digest on the containerd store.
        tags: its references, as the engine writes them.
        diff_ids: `.RootFS.Layers`; empty on newer containerd engines when a blob is missing.
        platform: for example `linux/amd64`.
        config: the runtime fields (Env, Cmd, Labels …).
        created: as written in the config.
        size: bytes, as the engine counts them; 0: not told.
        tagged: when it last got a name there, ISO-8601; "" where the engine does not tell (podman).
        digests: its references by digest, `repository@sha256:…`.
    """

    id: str
    tags: tuple[str, ...]
    diff_ids: tuple[str, ...]
    platform: str
    config: Mapping[str, Any]
    created: str
    size: int = 0
    tagged: str = ""
    digests: tuple[str, ...] = ()


def held_image(said: Mapping[str, Any]) -> HeldImage:
    """An image from the engine's inspect document."""
    variant = said.get("Variant")
    platform = f"{said.get('Os', '')}/{said.get('Architecture', '')}"
    return HeldImage(
        id=str(said.get("Id", "")),
        tags=tuple(said.get("RepoTags") or ()),
        diff_ids=tuple((said.get("RootFS") or {}).get("Layers") or ()),
        platform=f"{platform}/{variant}" if variant else platform,
        config=said.get("Config") or {},
        created=str(said.get("Created", "")),
        size=int(said.get("Size") or 0),
        tagged=str((said.get("Metadata") or {}).get("LastTagTime") or ""),
        digests=tuple(said.get("RepoDigests") or ()),
    )


def held_images(text: str) -> tuple[HeldImage, ...]:
    """The images of inspect documents, one a line; one that comes twice counts once."""
    return once(held_image(said) for line in text.splitlines() if (said := document(line)) is not None)


def once(images: Iterable[HeldImage]) -> tuple[HeldImage, ...]:
    """Each image once, by its ID."""
    return tuple({image.id: image for image in images}.values())


def familiar(reference: str) -> str:
    """A reference in Docker's short form: `docker.io/library/x:1` and `x:1` are one image."""
    for prefix in ("docker.io/library/", "docker.io/"):
        if reference.startswith(prefix):
            return reference.removeprefix(prefix)
    return reference
