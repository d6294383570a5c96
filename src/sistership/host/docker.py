"""Docker Engine, classic store and containerd store, rootful and rootless."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from packaging.version import Version

from sistership.errors import IdentityError
from sistership.host.answers import document
from sistership.host.commands import EngineFacts
from sistership.host.engines import engines, no_docker, no_engine, refuse_elsewhere, refuse_several
from sistership.host.held import held_images
from sistership.host.shell import engine_functions
from sistership.matrix.model import Host

#: The first engine that reads layers as tar+zstd (moby 23.0).
ZSTD_SINCE: Final = Version("23.0")
ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}


@dataclass(frozen=True)
class Docker:
    """Docker's CLI.

    Attributes:
        cli: quoted shell words.
        chosen: whether the matrix says which of several engines is meant.
    """

    cli: str
    chosen: bool = False
    kind: str = "docker"

    @property
    def functions(self) -> str:
        """See Commands."""
        return engine_functions("docker.sh", self.cli, f"chosen={'yes' if self.chosen else ''}")

    def answers(self, host: Host, said: Mapping[str, str], errors: str) -> EngineFacts:
        """See Commands."""
        if not self.chosen:
            refuse_elsewhere(host.name, said.get("endpoint", ""), local=host.local)
            refuse_several(host.name, said.get("endpoint", ""), engines(said.get("engines", "")))
        server = document(said.get("version", ""))
        if server is None:
            # Its own words where there are some: standard error holds the host's banner too.
            words = said.get("version") or errors
            wrong = no_docker(host.name, words, said.get("podman", ""))
            raise wrong or no_engine(host.name, words, engines(said.get("engines", "")))
        info = document(said.get("info", ""))
        listed = said.get("images_status", "").splitlines() or ["missing"]
        if info is None or said.get("info_status") != "0" or listed[0] != "0":
            raise IdentityError(
                "the engine answers only in part; what it holds is not known",
                where=host.name,
                why=" ".join(listed[1:])[:200] or said.get("info", "")[:200] or None,
                hint="see what `docker info` and `docker image ls` say there",
            )
        store = store_of(info)
        arch = server.get("Arch") or ARCH.get(said.get("machine", ""), "unknown")
        return EngineFacts(
            version=str(server.get("Version", "0")),
            store=store,
            daemon=str(info.get("ID", "")),
            platform=f"{server.get('Os', 'linux')}/{arch}",
            disk=said["disk2"] if store == "containerd" and said.get("disk2") else said.get("disk", ""),
            images=held_images(said.get("images", "")),
        )


def store_of(info: Mapping[str, Any]) -> str:
    """`containerd` or `classic`, by DriverStatus and never by version: upgraded engines keep the classic store."""
    status = info.get("DriverStatus") or []
    return "containerd" if ["driver-type", "io.containerd.snapshotter.v1"] in status else "classic"
