"""What the engine of a practice host says of itself, whichever kind it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from sistership.fleet.spec import Kind


@dataclass(frozen=True)
class Engine:
    """An engine: version, storage driver, store ("classic" or "containerd"; "" where there is no choice), name."""

    version: str
    driver: str
    store: str
    name: str = "Docker"

    def __str__(self) -> str:
        store = f", {self.store} store" if self.store else ""
        return f"{self.name} {self.version}{store} ({self.driver})"


def engine(info: Mapping[str, object]) -> Engine:
    """Read ``docker info``.

    The store is told by the driver type in DriverStatus, never by the version.
    """
    rows = info.get("DriverStatus")
    status = dict(row for row in rows if len(row) == 2) if isinstance(rows, list) else {}  # noqa: PLR2004  pairs
    contained = str(status.get("driver-type", "")).startswith("io.containerd.snapshotter")
    return Engine(str(info.get("ServerVersion")), str(info.get("Driver")), "containerd" if contained else "classic")


def _docker(text: str) -> Engine | str:
    info: Mapping[str, Any] = json.loads(text)
    errors = info.get("ServerErrors") or []
    return f"engine: {errors[0]}" if errors else engine(info)


def _podman(text: str) -> Engine | str:
    info: Mapping[str, Any] = json.loads(text)
    return Engine(str(info["version"]["Version"]), str(info["store"]["graphDriverName"]), "", "podman")


def _containerd(text: str) -> Engine | str:
    version = re.search(r"^Server:\n +Version: +(\S+)", text, re.MULTILINE)
    driver = re.search(r"^io\.containerd\.snapshotter\.v1 +overlayfs +\S+ +ok", text, re.MULTILINE)
    if version is None:
        return "ctr tells no version"
    return Engine(version[1], "overlayfs" if driver else "none", "", "containerd")


#: Shell commands that print what `read` reads, for root.
ASK: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "docker": "docker info --format '{{json .}}'",
        "podman": "podman info --format json",
        "containerd": "ctr version && ctr plugins ls",
    }
)
#: The same for a user with an engine of his own. His docker command would go to root's.
ASK_USER: Final[Mapping[Kind, str]] = MappingProxyType(
    {**ASK, "docker": """docker --host "unix:///run/user/$(id -u)/docker.sock" info --format '{{json .}}'"""}
)
_READERS: Final[Mapping[Kind, Callable[[str], Engine | str]]] = MappingProxyType(
    {"docker": _docker, "podman": _podman, "containerd": _containerd}
)


def read(kind: Kind, text: str) -> Engine | str:
    """The engine, or what does not work yet."""
    try:
        return _READERS[kind](text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"the engine's answer is {text[:80]!r}"


def unfit(found: Engine) -> str | None:
    """Why this engine is no picture of a real host: it keeps layers in a way that real hosts do not."""
    if found.driver not in {"overlay2", "overlayfs", "overlay"}:
        return f"the storage driver is {found.driver}, not overlay2, overlayfs or overlay"
    return None
