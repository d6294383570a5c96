"""A repository of a registry, and the names that engines and people give it. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from sistership.image.identity import Image
from sistership.image.release import short
from sistership.matrix.model import Registry

#: Docker Hub is named one way and reached another (github.com/distribution/reference, docker/cli).
_HUB: Final = "docker.io"
_HUB_HOST: Final = "registry-1.docker.io"
#: Under which its logins are kept.
_HUB_LOGIN: Final = "https://index.docker.io/v1/"


@dataclass(frozen=True)
class Place:
    """Where images go.

    Attributes:
        host: as people write it: `registry.lan:5000`, `docker.io`.
        repository: `team/llamacpp`.
        insecure: plain HTTP is allowed, because the matrix says so.
        pull: `HOST/REPOSITORY` under which hosts reach the same content; a mirror may have another name.
    """

    host: str
    repository: str
    insecure: bool = False
    pull: str = ""

    @classmethod
    def of(cls, registry: Registry) -> Place:
        """The place that a variant's `registry:` names."""
        host, _, repository = registry.repository.partition("/")
        return cls(host, repository, registry.insecure, registry.pull)

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}"

    @property
    def server(self) -> str:
        """Host and port that are connected to."""
        return _HUB_HOST if self.host == _HUB else self.host

    @property
    def login(self) -> str:
        """The name under which Docker keeps the login."""
        return _HUB_LOGIN if self.host == _HUB else self.host

    @property
    def plain_allowed(self) -> bool:
        """Whether plain HTTP will do: on this machine's own loopback, or where the matrix allows it."""
        return self.insecure or is_loopback(self.host)

    def source(self, image: Image) -> str:
        """What hosts pull: never a tag, always the digest of the manifest over zstd layers."""
        return f"{self.pull or self}@{image.manifest}"


def tag_of(image: Image) -> str:
    """The tag an image has in a registry: 12 hex digits of its config digest, so that it never moves."""
    return short(image.config)


def is_loopback(host: str) -> bool:
    """Whether a registry's host (with or without a port) is this machine's loopback, by name or address."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
