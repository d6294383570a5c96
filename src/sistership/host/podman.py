"""Podman, rootful and rootless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sistership.errors import IdentityError
from sistership.host.answers import document
from sistership.host.commands import EngineFacts
from sistership.host.engines import no_engine
from sistership.host.held import HeldImage, held_images
from sistership.host.shell import engine_functions
from sistership.matrix.model import Host

_LOCAL: Final = "localhost/"


@dataclass(frozen=True)
class Podman:
    """Podman's CLI; whose engine it is says the user who runs it.

    Attributes:
        cli: quoted shell words.
    """

    cli: str
    kind: str = "podman"

    @property
    def functions(self) -> str:
        """See Commands."""
        return engine_functions("podman.sh", self.cli)

    def answers(self, host: Host, said: Mapping[str, str], errors: str) -> EngineFacts:
        """See Commands. There is no daemon; what identifies an engine is its store, on one machine."""
        info = document(said.get("info", ""))
        if info is None or said.get("info_status") != "0":
            raise no_engine(host.name, said.get("info") or errors, kind=self.kind)
        listed = said.get("images_status", "").splitlines() or ["missing"]
        if listed[0] != "0":
            raise IdentityError(
                "the engine answers only in part; what it holds is not known",
                where=host.name,
                why=" ".join(listed[1:])[:200] or None,
                hint="see what `podman image ls` says there",
            )
        machine, store = info.get("host") or {}, info.get("store") or {}
        root, place = str(store.get("graphRoot") or ""), said.get("place", "")
        return EngineFacts(
            version=str((info.get("version") or {}).get("Version") or "0"),
            store="podman",
            daemon=f"{root}@{place}" if root and place else "",
            platform=_platform(machine),
            disk=said.get("disk", ""),
            images=tuple(map(_as_written, held_images(said.get("images", "")))),
            spool=said.get("spool", ""),
        )


def _platform(machine: Mapping[str, Any]) -> str:
    parts = (machine.get("os") or "linux", machine.get("arch") or "unknown", machine.get("variant"))
    return "/".join(str(part) for part in parts if part)


def _as_written(image: HeldImage) -> HeldImage:
    """An image with the names that people write: without a registry Podman puts `localhost/` before them."""
    return replace(
        image,
        id=f"sha256:{image.id.removeprefix('sha256:')}",
        tags=tuple(tag.removeprefix(_LOCAL) for tag in image.tags),
        digests=tuple(name.removeprefix(_LOCAL) for name in image.digests),
    )
