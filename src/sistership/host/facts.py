"""What a host is and holds, asked in one round trip."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from sistership.errors import HostUnfitError
from sistership.host.inventory import Peer
from sistership.host.transport import Completed, quote

#: The first engine that reads layers as tar+zstd (moby 23.0).
ZSTD_SINCE = Version("23.0")
_ARCH = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}
_SECTION = "@@"
#: The folder of everything a ship leaves on a host, below its user's cache.
STAGE = '"${XDG_CACHE_HOME:-$HOME/.cache}/sistership/stage"'
_TOOLS = ("zstd", "gzip", "sha256sum", "shasum", "openssl", "flock")


@dataclass(frozen=True)
class HeldImage:
    """An image as a host's engine shows it.

    Attributes:
        id: `.Id`: the config digest on the classic store, a manifest or index digest on the containerd store.
        tags: its references, as the engine writes them.
        diff_ids: `.RootFS.Layers`; empty on newer containerd engines when a blob is missing.
        platform: for example `linux/amd64`.
        config: the runtime fields (Env, Cmd, Labels …).
        created: as written in the config.
    """

    id: str
    tags: tuple[str, ...]
    diff_ids: tuple[str, ...]
    platform: str
    config: Mapping[str, Any]
    created: str


@dataclass(frozen=True)
class HostFacts:
    """A host as it was at one moment.

    Attributes:
        version: of the engine, for example `26.1.5`.
        store: `classic` (graphdriver) or `containerd` (image store).
        daemon: the engine's own ID; two names of one machine show the same.
        platform: of the engine, for example `linux/amd64`.
        free: free bytes where the engine keeps images.
        stage_free: free bytes where a ship stages.
        staged: name → bytes of what an earlier ship left there.
        tools: programs found there.
        images: every image the engine holds.
    """

    version: str
    store: str
    daemon: str
    platform: str
    free: int
    stage_free: int
    staged: Mapping[str, int]
    tools: frozenset[str]
    images: tuple[HeldImage, ...]

    @property
    def reads_zstd(self) -> bool:
        """Whether the engine itself decompresses tar+zstd layers."""
        return parse_version(self.version) >= ZSTD_SINCE

    def tagged(self, reference: str) -> HeldImage | None:
        """The image under a reference, whichever way the engine writes it."""
        wanted = familiar(reference)
        return next((image for image in self.images if wanted in map(familiar, image.tags)), None)


def familiar(reference: str) -> str:
    """A reference in Docker's short form: `docker.io/library/x:1` and `x:1` are one image."""
    for prefix in ("docker.io/library/", "docker.io/"):
        if reference.startswith(prefix):
            return reference.removeprefix(prefix)
    return reference


def parse_version(text: str) -> Version:
    """An engine's version; Debian's `20.10.24+dfsg1` counts as 20.10.24, nonsense as 0."""
    found = re.match(r"\d+(\.\d+)*", text)
    try:
        return Version(found.group(0)) if found else Version("0")
    except InvalidVersion:
        return Version("0")


def probe_script(docker: str, references: Sequence[str] = ()) -> str:
    """The script that asks for everything at once; each answer under a line of its own.

    Args:
        docker: shell words of the engine's CLI.
        references: images to ask for by name or ID beyond those that are listed:
            the containerd store of Engine 26.1 does not list an image that lacks a layer.
    """
    tools = quote(*_TOOLS)
    words = quote(*references)
    named = f"{docker} image inspect --format '{{{{json .}}}}' {words} 2>/dev/null" if references else ":"
    return f"""
sec() {{ printf '\\n{_SECTION}%s\\n' "$1"; }}
sec machine; uname -m
sec tools; for t in {tools}; do command -v "$t" >/dev/null 2>&1 && echo "$t"; done
sec stage; mkdir -p {STAGE} && chmod 700 {STAGE} && cd {STAGE} && df -Pk . | tail -n 1
sec staged; for f in *; do [ -f "$f" ] && echo "$(wc -c < "$f") $f"; done
cd /
sec version; {docker} version --format '{{{{json .Server}}}}' 2>&1
sec info; {docker} info --format '{{{{json .}}}}' 2>&1
root=$({docker} info --format '{{{{.DockerRootDir}}}}' 2>/dev/null)
sec disk; df -Pk "${{root:-/}}" 2>/dev/null | tail -n 1
sec disk2; [ -d /var/lib/containerd ] && df -Pk /var/lib/containerd 2>/dev/null | tail -n 1
sec images
ids=$({docker} image ls --all --quiet --no-trunc 2>/dev/null | sort -u)
[ -z "$ids" ] || {docker} image inspect --format '{{{{json .}}}}' $ids 2>/dev/null
{named}
true
"""


def probe(peer: Peer, references: Sequence[str] = (), *, timeout: float = 60) -> HostFacts:
    """Ask a host.

    Args:
        references: see probe_script.

    Raises:
        HostUnreachableError: no connection.
        HostUnfitError: no engine, or no right to use it.
    """
    return parse(peer.name, peer.transport.run(probe_script(peer.docker, references), timeout=timeout))


def sections(text: str) -> dict[str, str]:
    """The answers of a probe by name."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith(_SECTION):
            current = found.setdefault(line.removeprefix(_SECTION), [])
        else:
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def parse(host: str, done: Completed) -> HostFacts:
    """Facts from a probe's output.

    Raises:
        HostUnfitError: no engine, or no right to use it.
    """
    answer = sections(done.text)
    server = _json(answer.get("version", ""))
    if server is None:
        raise no_engine(host, answer.get("version", "") + "\n" + done.err)
    info = _json(answer.get("info", "")) or {}
    platform = f"{server.get('Os', 'linux')}/{server.get('Arch') or _ARCH.get(answer.get('machine', ''), 'unknown')}"
    store = store_of(info)
    disk = _free(answer.get("disk", ""))
    if store == "containerd" and answer.get("disk2"):
        disk = _free(answer["disk2"])
    return HostFacts(
        version=str(server.get("Version", "0")),
        store=store,
        daemon=str(info.get("ID", "")),
        platform=platform,
        free=disk,
        stage_free=_free(answer.get("stage", "")),
        staged=_staged(answer.get("staged", "")),
        tools=frozenset(answer.get("tools", "").split()),
        images=_images(answer.get("images", "")),
    )


def store_of(info: Mapping[str, Any]) -> str:
    """`containerd` or `classic`, by DriverStatus and never by version: upgraded engines keep the classic store."""
    status = info.get("DriverStatus") or []
    return "containerd" if ["driver-type", "io.containerd.snapshotter.v1"] in status else "classic"


def no_engine(host: str, output: str) -> HostUnfitError:
    """What is wrong when the engine did not answer, from what its CLI printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    why = next((line for line in lines if re.search(r"denied|not found|Cannot|password|sudo|refused", line)), None)
    why = why or (lines[-1] if lines else "its CLI printed nothing")
    if re.search(r"sudo: .*(password|terminal)|a password is required", output):
        return HostUnfitError(
            "sudo asks for a password there",
            where=host,
            why=why,
            hint="allow docker in sudoers without a password (NOPASSWD), or join the docker group and drop `sudo:`",
        )
    if "permission denied" in output.lower():
        return HostUnfitError(
            "no right to use the engine there",
            where=host,
            why=why,
            hint="add the user to the docker group, or set `sudo: true` for this host in the matrix",
        )
    if re.search(r"not found", output):
        return HostUnfitError(
            "there is no docker command there",
            where=host,
            why=why,
            hint="install Docker Engine, or set `docker: /path/to/docker` for this host in the matrix",
        )
    return HostUnfitError(
        "the engine does not answer", where=host, why=why, hint="start it there: systemctl start docker"
    )


def _json(text: str) -> dict[str, Any] | None:
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                return None
            return value if isinstance(value, dict) else None
    return None


def _free(line: str) -> int:
    """Free bytes from one line of `df -Pk`; 0 when it cannot be read."""
    fields = line.split()
    return int(fields[3]) * 1024 if len(fields) >= 6 and fields[3].isdigit() else 0  # noqa: PLR2004 - df's columns


def _staged(text: str) -> dict[str, int]:
    pairs = (line.split(None, 1) for line in text.splitlines())
    return {pair[1]: int(pair[0]) for pair in pairs if len(pair) == 2 and pair[0].isdigit()}  # noqa: PLR2004


def held_image(document: Mapping[str, Any]) -> HeldImage:
    """An image from the engine's inspect document."""
    variant = document.get("Variant")
    platform = f"{document.get('Os', '')}/{document.get('Architecture', '')}"
    return HeldImage(
        id=str(document.get("Id", "")),
        tags=tuple(document.get("RepoTags") or ()),
        diff_ids=tuple((document.get("RootFS") or {}).get("Layers") or ()),
        platform=f"{platform}/{variant}" if variant else platform,
        config=document.get("Config") or {},
        created=str(document.get("Created", "")),
    )


def _images(text: str) -> tuple[HeldImage, ...]:
    found: dict[str, HeldImage] = {}
    for line in text.splitlines():
        document = _json(line)
        if document is not None:
            image = held_image(document)
            found[image.id] = image
    return tuple(found.values())
