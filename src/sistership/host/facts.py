"""What a host is and holds, asked in one round trip."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sistership.errors import HostUnfitError
from sistership.host.answers import SECTION, free_bytes, parse_version, sections
from sistership.host.commands import Commands
from sistership.host.docker import ZSTD_SINCE
from sistership.host.held import HeldImage, familiar
from sistership.host.inventory import Peer
from sistership.host.transport import Completed, quote
from sistership.matrix.model import Host

#: The folder of everything a ship leaves on a host, below its user's cache.
STAGE = '"${XDG_CACHE_HOME:-$HOME/.cache}/sistership/stage"'
_TOOLS = ("zstd", "gzip", "sha256sum", "shasum", "openssl", "flock")


@dataclass(frozen=True)
class HostFacts:
    """A host as it was at one moment.

    Attributes:
        version: of the engine, for example `26.1.5`.
        store: `classic` (graphdriver), `containerd` (image store) or `podman`.
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
        engine: its kind, for example `docker`.
        spool_free: free bytes where it keeps what it is given until that is stored; None: no such place, or not known.
        spool_on: which others are on that file system: `engine`, `stage`.
        blobs: digests of the blobs that the engine has; None: it lists none.
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
    engine: str = "docker"
    spool_free: int | None = None
    spool_on: frozenset[str] = frozenset()
    blobs: frozenset[str] | None = None

    @property
    def reads_zstd(self) -> bool:
        """Whether the engine itself decompresses tar+zstd layers."""
        return self.engine != "docker" or parse_version(self.version) >= ZSTD_SINCE

    def tagged(self, reference: str) -> HeldImage | None:
        """The image under a reference, whichever way the engine writes it."""
        exact = next((image for image in self.images if reference in image.tags), None)
        wanted = familiar(reference)
        return exact or next((image for image in self.images if wanted in map(familiar, image.tags)), None)


def probe_script(engine: Commands, references: Sequence[str] = ()) -> str:
    """The script that asks for everything at once; each answer under a line of its own.

    Args:
        references: images to ask for by name or ID beyond those that are listed.
    """
    return f"""{engine.functions}
{SECTION}
sec machine; uname -m
sec boot; cat /proc/sys/kernel/random/boot_id 2>/dev/null
sec tools; for t in {quote(*_TOOLS)}; do command -v "$t" >/dev/null 2>&1 && echo "$t"; done
sec zstd; zstd --version 2>/dev/null
sec memory; grep '^MemAvailable:' /proc/meminfo 2>/dev/null
stage={STAGE}
sec staged; [ ! -d "$stage" ] || (cd "$stage" && for f in *; do [ ! -f "$f" ] || echo "$(wc -c < "$f") $f"; done)
while [ ! -d "$stage" ]; do stage=$(dirname "$stage"); done
sec stage; df -Pk "$stage" | tail -n 1
ask_engine {quote(*references)}
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
        IdentityError: see `Commands.answers`.
    """
    return facts_from(peer, peer.transport.run(probe_script(peer.engine, references), timeout=timeout))


def facts_from(peer: Peer, done: Completed) -> HostFacts:
    """What a host answered to a script that began as a probe.

    Raises:
        HostUnfitError, IdentityError: see probe.
    """
    facts = parse(peer.host, peer.engine, done)
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


def parse(host: Host, engine: Commands, done: Completed) -> HostFacts:
    """Facts from a probe's output.

    Raises:
        HostUnfitError, IdentityError: see `Commands.answers`.
    """
    said = sections(done.text)
    found = engine.answers(host, said, done.err)
    disks = {"engine": found.disk, "stage": said.get("stage", "")}
    return HostFacts(
        version=found.version,
        store=found.store,
        daemon=found.daemon,
        platform=found.platform,
        free=free_bytes(found.disk),
        stage_free=free_bytes(disks["stage"]),
        one_disk=_one_disk(found.disk, disks["stage"]),
        staged=_staged(said.get("staged", "")),
        tools=frozenset(said.get("tools", "").split()),
        images=found.images,
        boot=said.get("boot", ""),
        zstd=_zstd_version(said.get("zstd", "")),
        memory=_memory(said.get("memory", "")),
        engine=engine.kind,
        spool_free=free_bytes(found.spool),
        spool_on=frozenset(name for name, line in disks.items() if _one_disk(found.spool, line)),
        blobs=found.blobs,
    )


def _one_disk(one: str, other: str) -> bool:
    """Whether two lines of `df -Pk` are about one file system."""
    return bool(one.strip()) and one.split()[:1] == other.split()[:1]


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
