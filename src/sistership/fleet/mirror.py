"""Which Debian mirror to take root filesystems from: the one this machine uses itself."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True)
class AptSource:
    """One archive that apt reads packages from."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def parse_list(text: str) -> Iterator[AptSource]:
    """Sources of a one-line-style file (sources.list(5))."""
    for line in text.splitlines():
        words = re.sub(r"\[[^\]]*\]", " ", line.split("#", 1)[0]).split()
        if len(words) > 2 and words[0] == "deb":  # noqa: PLR2004  type, URI and suite
            yield AptSource(words[1], (words[2],), tuple(words[3:]))


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Sources of a ``.sources`` file (deb822 style, sources.list(5)); disabled stanzas are left out."""
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", body):
        fields = {
            key.lower(): value.split()
            for key, value in re.findall(r"^([A-Za-z-]+):((?:.*(?:\n[ \t].*)*))", stanza, flags=re.MULTILINE)
        }
        if "deb" not in fields.get("types", []) or fields.get("enabled", ["yes"])[0].lower() in {"no", "false", "0"}:
            continue
        for uri in fields.get("uris", []):
            yield AptSource(uri, tuple(fields.get("suites", ())), tuple(fields.get("components", ())))


def choose(sources: Iterable[AptSource], os_release: Mapping[str, str]) -> str | None:
    """The mirror of Debian itself among apt's sources, or None where this machine is no Debian or has none.

    Third-party archives use Debian's suite names too; Debian's own is known by the component ``main`` under the
    plain suite, and preferred when its path ends in ``debian`` as every mirror's does.
    """
    if os_release.get("ID") != "debian":
        return None
    plain = {os_release.get("VERSION_CODENAME", ""), "stable", "testing", "unstable", "sid"}
    fitting = [
        source.uri.rstrip("/")
        for source in sources
        if plain & set(source.suites)
        and "main" in source.components
        and urlsplit(source.uri).scheme in {"http", "https"}
    ]
    named = [uri for uri in fitting if uri.endswith("/debian")]
    return next(iter(named or fitting), None)


def parse_os_release(text: str) -> dict[str, str]:
    """Fields of os-release(5), unquoted."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def find(etc: Path = Path("/etc"), environ: Mapping[str, str] = os.environ) -> str | None:
    """The mirror's URI: ``SISTERSHIP_MIRROR`` if set, else this machine's own, else None (mmdebstrap's default)."""
    if override := environ.get("SISTERSHIP_MIRROR"):
        return override.rstrip("/")
    release = etc / "os-release"
    if not release.is_file():
        return None
    sources: list[AptSource] = []
    for path in sorted((etc / "apt").glob("sources.list.d/*.sources")):
        sources += parse_deb822(path.read_text(errors="replace"))
    for path in [etc / "apt" / "sources.list", *sorted((etc / "apt").glob("sources.list.d/*.list"))]:
        if path.is_file():
            sources += parse_list(path.read_text(errors="replace"))
    return choose(sources, parse_os_release(release.read_text(errors="replace")))
