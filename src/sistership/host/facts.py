"""What a host is and holds, asked in one round trip."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from sistership.errors import HostUnfitError, IdentityError
from sistership.host.engines import engines, look_around_script, no_engine, refuse_elsewhere, refuse_several
from sistership.host.inventory import Peer, engine_chosen
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


@dataclass(frozen=True)
class HostFacts:
    """A host as it was at one moment.

    Attributes:
        version: of the engine, for example `26.1.5`.
        store: `classic` (graphdriver) or `containerd` (image store).
        daemon: the engine's own ID; two names of one machine show the same.
        platform: of the engine, for example `linux/amd64`.
        free: free bytes where the engine keeps images; None: not known.
        stage_free: free bytes where a ship stages; None: not known.
        one_disk: both are on the same file system.
        staged: name → bytes of what an earlier ship left there.
        tools: programs found there.
        images: every image the engine holds.
        boot: what tells this run of its kernel from every other; "" where it has none.
        zstd: version of its zstd program, for example `1.5.4`; "" where there is none.
        memory: bytes that programs may take there without swapping; None: not known.
    """

    version: str
    store: str
    daemon: str
    platform: str
    free: int | None
    stage_free: int | None
    one_disk: bool
    staged: Mapping[str, int]
    tools: frozenset[str]
    images: tuple[HeldImage, ...]
    boot: str = ""
    zstd: str = ""
    memory: int | None = None

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


def probe_script(docker: str, references: Sequence[str] = (), *, look_around: bool = False) -> str:
    """The script that asks for everything at once; each answer under a line of its own.

    Args:
        docker: shell words of the engine's CLI.
        references: images to ask for by name or ID beyond those that are listed:
            the containerd store of Engine 26.1 does not list an image that lacks a layer.
        look_around: look for further engines, since none was chosen.
    """
    tools = quote(*_TOOLS)
    words = quote(*references)
    named = f"{docker} image inspect --format '{{{{json .}}}}' {words} 2>/dev/null" if references else ":"
    return f"""
sec() {{ printf '\\n{_SECTION}%s\\n' "$1"; }}
sec machine; uname -m
sec boot; cat /proc/sys/kernel/random/boot_id 2>/dev/null
sec tools; for t in {tools}; do command -v "$t" >/dev/null 2>&1 && echo "$t"; done
sec zstd; zstd --version 2>/dev/null
sec memory; grep '^MemAvailable:' /proc/meminfo 2>/dev/null
stage={STAGE}
sec staged; [ ! -d "$stage" ] || (cd "$stage" && for f in *; do [ ! -f "$f" ] || echo "$(wc -c < "$f") $f"; done)
while [ ! -d "$stage" ]; do stage=$(dirname "$stage"); done
sec stage; df -Pk "$stage" | tail -n 1
sec endpoint; {docker} context inspect --format '{{{{.Endpoints.docker.Host}}}}' 2>/dev/null
sec engines; {look_around_script(docker) if look_around else ":"}
sec version; {docker} version --format '{{{{json .Server}}}}' 2>&1
sec info; {docker} info --format '{{{{json .}}}}' 2>&1; rc=$?
sec info_status; echo $rc
root=$({docker} info --format '{{{{.DockerRootDir}}}}' 2>/dev/null)
sec disk; df -Pk "${{root:-/}}" 2>/dev/null | tail -n 1
sec disk2; [ -d /var/lib/containerd ] && df -Pk /var/lib/containerd 2>/dev/null | tail -n 1
ids=$({docker} image ls --all --quiet --no-trunc 2>&1); rc=$?
sec images_status; echo "$rc"; [ $rc -eq 0 ] || {{ echo "$ids"; ids=; }}
ids=$(printf '%s\\n' "$ids" | sort -u)
sec images
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
        HostUnfitError: no engine, no right to use it, several and none chosen, or not of the platform that the matrix
            says.
    """
    look_around = not engine_chosen(peer.host)
    script = probe_script(peer.docker, references, look_around=look_around)
    done = peer.transport.run(script, timeout=timeout)
    if look_around:
        answer = sections(done.text)
        refuse_elsewhere(peer.name, answer.get("endpoint", ""), local=peer.host.local)
        refuse_several(peer.name, answer.get("endpoint", ""), engines(answer.get("engines", "")))
    facts = parse(peer.name, done)
    refuse_other_platform(peer.name, peer.host.platform, facts.platform)
    return facts


def refuse_other_platform(host: str, wanted: str | None, found: str) -> None:
    """The engine must be of the platform that the matrix says, variants of one architecture counting as one.

    Raises:
        HostUnfitError: it is not.
    """
    if wanted and wanted.split("/")[:2] != found.split("/")[:2]:
        raise HostUnfitError(
            f"the matrix says {wanted}, its engine is {found}",
            where=host,
            hint="correct `platform:` of this host in the matrix; is `ssh:` the machine you mean?",
        )


def same_daemons(facts: Mapping[str, HostFacts]) -> tuple[tuple[str, ...], ...]:
    """Names of hosts that are one engine: the same daemon ID under the same run of a kernel.

    The ID alone does not tell: machines cloned from one disk image share it.

    Args:
        facts: host → what it answered, in the order of the inventory.

    Returns:
        Groups of two names or more; the first of each is the one to work on.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for name, found in facts.items():
        if found.daemon:
            groups.setdefault((found.daemon, found.boot), []).append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)


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
        IdentityError: the engine answered only in part, so nothing can be said of what it holds.
    """
    answer = sections(done.text)
    server = _json(answer.get("version", ""))
    if server is None:
        # Its own words where there are some: standard error holds the host's banner too.
        raise no_engine(host, answer.get("version") or done.err, engines(answer.get("engines", "")))
    info = _json(answer.get("info", ""))
    listed = answer.get("images_status", "").splitlines() or ["missing"]
    if info is None or answer.get("info_status") != "0" or listed[0] != "0":
        raise IdentityError(
            "the engine answers only in part; what it holds is not known",
            where=host,
            why=" ".join(listed[1:])[:200] or answer.get("info", "")[:200] or None,
            hint="see what `docker info` and `docker image ls` say there",
        )
    platform = f"{server.get('Os', 'linux')}/{server.get('Arch') or _ARCH.get(answer.get('machine', ''), 'unknown')}"
    store = store_of(info)
    disk = answer["disk2"] if store == "containerd" and answer.get("disk2") else answer.get("disk", "")
    stage = answer.get("stage", "")
    return HostFacts(
        version=str(server.get("Version", "0")),
        store=store,
        daemon=str(info.get("ID", "")),
        platform=platform,
        free=_free(disk),
        stage_free=_free(stage),
        one_disk=disk.split()[:1] == stage.split()[:1],
        staged=_staged(answer.get("staged", "")),
        tools=frozenset(answer.get("tools", "").split()),
        images=_images(answer.get("images", "")),
        boot=answer.get("boot", ""),
        zstd=_zstd_version(answer.get("zstd", "")),
        memory=_memory(answer.get("memory", "")),
    )


def store_of(info: Mapping[str, Any]) -> str:
    """`containerd` or `classic`, by DriverStatus and never by version: upgraded engines keep the classic store."""
    status = info.get("DriverStatus") or []
    return "containerd" if ["driver-type", "io.containerd.snapshotter.v1"] in status else "classic"


def _json(text: str) -> dict[str, Any] | None:
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                return None
            return value if isinstance(value, dict) else None
    return None


def _free(line: str) -> int | None:
    """Free bytes from one line of `df -Pk`; None when it cannot be read."""
    fields = line.split()
    return int(fields[3]) * 1024 if len(fields) >= 6 and fields[3].isdigit() else None  # noqa: PLR2004 - df's columns


def _zstd_version(text: str) -> str:
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", text)
    return found.group(1) if found else ""


def _memory(line: str) -> int | None:
    """Bytes from the line `MemAvailable: N kB`; None where the kernel does not say."""
    fields = line.split()
    return int(fields[1]) * 1024 if len(fields) > 1 and fields[1].isdigit() else None


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
        size=int(document.get("Size") or 0),
        tagged=str((document.get("Metadata") or {}).get("LastTagTime") or ""),
        digests=tuple(document.get("RepoDigests") or ()),
    )


def _images(text: str) -> tuple[HeldImage, ...]:
    found: dict[str, HeldImage] = {}
    for line in text.splitlines():
        document = _json(line)
        if document is not None:
            image = held_image(document)
            found[image.id] = image
    return tuple(found.values())
