"""What nvidia-smi says of a host's cards, and which driver a CUDA toolkit needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

#: CUDA major version → the oldest driver branch that runs it at all (NVIDIA's CUDA Compatibility guide, Linux).
_MINIMUM: Final = {11: 450, 12: 525, 13: 580}
#: Toolkit → the driver branch it came with, from its release notes: code that must be compiled on the host (PTX)
#: needs it, and container runtimes compare with it.
_OWN: Final = {
    "11.0": 450, "11.1": 455, "11.2": 460, "11.3": 465, "11.4": 470, "11.5": 495, "11.6": 510, "11.7": 515, "11.8": 520,
    "12.0": 525, "12.1": 530, "12.2": 535, "12.3": 545, "12.4": 550, "12.5": 555, "12.6": 560, "12.8": 570, "12.9": 575,
    "13.0": 580,
}  # fmt: skip
_STATUS: Final = re.compile(r"status (\d+)")
_UNKNOWN: Final = re.compile(
    r"\[?N/?A\]?|\[?Not Supported\]?|\[?Insufficient Permissions\]?|\[?Unknown Error\]?|", re.IGNORECASE
)


@dataclass(frozen=True)
class Gpu:
    """A card; what nvidia-smi would not tell is None.

    Attributes:
        capability: compute capability, such as "8.9".
        driver: version of the driver, such as "550.54.14".
    """

    name: str
    capability: str | None
    driver: str | None


@dataclass(frozen=True)
class Smi:
    """An answer of nvidia-smi.

    Attributes:
        trouble: what it said when it could not answer; None when it could.
    """

    gpus: tuple[Gpu, ...]
    trouble: str | None = None


def parse(text: str) -> Smi:
    """The answer to `--query-gpu=name,compute_cap,driver_version --format=csv,noheader`, and `status N` after it.

    A line that is no row of three fields is nobody's card: nvidia-smi writes its warnings and errors to the same place.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    gpus = tuple(gpu for gpu in map(_row, lines) if gpu)
    if gpus:
        return Smi(gpus)
    said = [line for line in lines if not _STATUS.fullmatch(line)]
    failed = any(found[1] != "0" for line in lines if (found := _STATUS.fullmatch(line)))
    if any("No devices were found" in line for line in said):
        return Smi((), None)
    return Smi((), (said[0] if said else "nvidia-smi failed without a word") if said or failed else None)


def _row(line: str) -> Gpu | None:
    """One card; its name may hold commas, the other two fields never do."""
    parts = line.rsplit(",", 2)
    if len(parts) != 3:  # noqa: PLR2004 - the three fields asked for
        return None
    name, capability, driver = (part.strip() for part in parts)
    known_capability = capability if re.fullmatch(r"\d{1,2}\.\d", capability) else None
    known_driver = driver if re.fullmatch(r"\d{3,4}(\.\d+){1,3}", driver) else None
    readable = (known_capability or _UNKNOWN.fullmatch(capability)) and (known_driver or _UNKNOWN.fullmatch(driver))
    return Gpu(name, known_capability, known_driver) if readable else None


def minimum_driver(toolkit: str) -> int | None:
    """The oldest driver branch that runs programs of a toolkit; None for one that is not known here."""
    return _MINIMUM.get(Version(toolkit).major)


def own_driver(toolkit: str) -> int | None:
    """The driver branch that a toolkit came with; None for one that is not known here."""
    version = Version(toolkit)
    return _OWN.get(f"{version.major}.{version.minor}")


def branch(driver: str) -> int:
    """The branch of a driver: 550 of "550.54.14"."""
    return int(driver.split(".", maxsplit=1)[0])
