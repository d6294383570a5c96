"""containerd without Docker, by its own ctr: as Kubernetes nodes have it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sistership.errors import HostUnfitError, IdentityError
from sistership.host.answers import document
from sistership.host.commands import EngineFacts
from sistership.host.docker import ARCH
from sistership.host.held import HeldImage
from sistership.host.shell import engine_functions
from sistership.host.transport import quote
from sistership.matrix.model import Host

#: The namespace of the kubelet's images; what lies in another one no pod can use.
KUBERNETES: Final = "k8s.io"
#: Our label on a name that we gave: when. ctr does not tell.
_TAGGED: Final = "dev.sistership.tagged"
#: What a blob names is kept with it: its layers, its config, the manifests of an index.
_CONTENT: Final = "containerd.io/gc.ref.content."
_CONFIG: Final = f"{_CONTENT}config"
_LAYER: Final = f"{_CONTENT}l."
_CHILD: Final = f"{_CONTENT}m."
_SNAPSHOT: Final = "containerd.io/gc.ref.snapshot."
_UNITS: Final = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


@dataclass(frozen=True)
class Containerd:
    """ctr.

    Attributes:
        cli: quoted shell words, the namespace among them.
        namespace: the images of another one are another store.
        sudo: ctr needs it, so reading an image's files may need it too.
    """

    cli: str
    namespace: str = KUBERNETES
    sudo: bool = False
    kind: str = "containerd"

    @property
    def functions(self) -> str:
        """See Commands."""
        return engine_functions("containerd.sh", self.cli, f'as_root() {{ {"sudo -n " if self.sudo else ""}"$@"; }}')

    def answers(self, host: Host, said: Mapping[str, str], errors: str) -> EngineFacts:
        """See Commands."""
        server = re.search(r"^Server:\n((?: .*\n?)+)", said.get("version", ""), re.MULTILINE)
        about = dict(re.findall(r"^ +(\w+): +(\S+)", server[1], re.MULTILINE)) if server else {}
        if "Version" not in about:
            raise no_containerd(host, said.get("version") or errors)
        for section in ("images", "content"):
            status, *words = said.get(f"{section}_status", "").splitlines() or ["missing"]
            if status != "0":
                raise IdentityError(
                    "containerd answers only in part; what it holds is not known",
                    where=host.name,
                    why=" ".join(words)[:200] or None,
                    hint=f"see what `{self.cli} {section} ls` says there",
                )
        blobs = dict(_blobs(said.get("content", "")))
        images = tuple(_images(said.get("images", ""), blobs, _configs(said.get("configs", ""))))
        return EngineFacts(
            version=about["Version"],
            store="containerd",
            daemon=f"{about['UUID']}/{self.namespace}" if "UUID" in about else "",
            platform=f"linux/{ARCH.get(said.get('machine', ''), 'unknown')}",
            disk=said.get("disk", ""),
            images=images,
            blobs=_kept([image.id for image in images], blobs),
        )


def containerd_words(host: Host) -> str:
    """ctr on `host` as quoted shell words. Its `sudo -n` never asks for a password."""
    found = ["sudo", "-n"] if host.sudo else []
    found.append(host.docker)
    if host.docker_host:
        found += ["--address", host.docker_host.removeprefix("unix://")]
    return quote(*found, "--namespace", host.namespace or KUBERNETES)


#: Labels of a blob or a name.
Labels = Mapping[str, str]


def _labels(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (each.partition("=") for each in text.split(",")) if value}


def _blobs(text: str) -> Iterator[tuple[str, Labels]]:
    """Digest → labels, of `ctr content ls`."""
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0].startswith("sha256:"):
            yield fields[0], _labels(fields[-1])


def _kept(images: Iterable[str], blobs: Mapping[str, Labels]) -> frozenset[str]:
    """What images hold; any other blob may be gone the next moment."""
    found: set[str] = set()
    open_ = list(images)
    while open_:
        digest = open_.pop()
        if digest in blobs and digest not in found:
            found.add(digest)
            open_ += [value for name, value in blobs[digest].items() if name.startswith(_CONTENT)]
    return frozenset(found)


def _configs(text: str) -> dict[str, dict[str, Any]]:
    """Digest → config; one that cannot be read is left out."""
    pairs = (line.partition(" ") for line in text.splitlines())
    found = {digest: document(rest) for digest, _, rest in pairs if digest.startswith("sha256:")}
    return {digest: config for digest, config in found.items() if config is not None}


def _images(text: str, blobs: Mapping[str, Labels], configs: Mapping[str, Mapping[str, Any]]) -> Iterator[HeldImage]:
    """What `ctr images ls` shows: one image for each digest, whatever names it has."""
    names: dict[str, dict[str, Labels]] = {}
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 6 or not fields[2].startswith("sha256:"):  # noqa: PLR2004 - size and its unit are two
            continue
        names.setdefault(fields[2], {})[fields[0]] = _labels(fields[-1])
        sizes[fields[2]] = _bytes(fields[3], fields[4])
    for digest, labelled in names.items():
        # The CRI plugin's own name, `sha256:…`, is nobody's.
        shown = [name for name in labelled if not name.startswith("sha256:")]
        config, complete = _content(digest, blobs)
        found = configs.get(config, {})
        variant = found.get("variant")
        platform = f"{found.get('os', '')}/{found.get('architecture', '')}"
        yield HeldImage(
            id=digest,
            tags=tuple(name for name in shown if "@" not in name),
            diff_ids=tuple((found.get("rootfs") or {}).get("diff_ids") or ()) if complete else (),
            platform=f"{platform}/{variant}" if variant else platform,
            config=found.get("config") or {},
            created=str(found.get("created", "")),
            size=sizes[digest],
            tagged=max((labels.get(_TAGGED, "") for labels in labelled.values()), default=""),
            digests=tuple(name for name in shown if "@" in name),
        )


def _content(digest: str, blobs: Mapping[str, Labels]) -> tuple[str, bool]:
    """The config of an image, and whether all of it is there: its blobs, or what was unpacked of them.

    Nodes may be set up to throw away the blobs of what is unpacked. Of an index the one manifest that is there counts.
    """
    labels = blobs.get(digest, {})
    children = [value for name, value in labels.items() if name.startswith(_CHILD) and _CONFIG in blobs.get(value, {})]
    if children:
        labels = blobs[children[0]]
    config = labels.get(_CONFIG, "")
    unpacked = any(name.startswith(_SNAPSHOT) for name in blobs.get(config, {}))
    layers = [value for name, value in labels.items() if name.startswith(_LAYER)]
    return config, config in blobs and (unpacked or all(layer in blobs for layer in layers))


def _bytes(number: str, unit: str) -> int:
    """`59.3 MiB` as bytes, about."""
    try:
        return int(float(number) * 1024 ** _UNITS[unit])
    except (ValueError, KeyError):
        return 0


_CAUSES: Final = (
    (
        r"sudo: .*(password|terminal|tty)|a password is required|not allowed to execute|not in the sudoers|may not run",
        "sudo does not start ctr there without being asked",
        "allow ctr in sudoers without a password (NOPASSWD), or log in as root",
    ),
    (r"sudo: (command )?not found", "there is no sudo there", "log in as root and drop `sudo:`, or install sudo"),
    (
        r"[Pp]ermission denied",
        "no right to use containerd there",
        "set `sudo: true` for this host in the matrix, or log in as root",
    ),
    (
        r"(^|[ /])ctr\S*: (command )?not found|ctr: No such file",
        "there is no ctr there",
        "set `docker: /path/to/ctr` for this host in the matrix; k3s and RKE2 have it among their own programs",
    ),
    (
        r"no such file or directory|connection refused|deadline exceeded|timeout",
        "containerd does not answer at that address",
        "start it there, or say where it is: `docker_host: unix:///run/k3s/containerd/containerd.sock`",
    ),
)


def no_containerd(host: Host, output: str) -> HostUnfitError:
    """What is wrong when containerd did not answer.

    Args:
        output: what ctr printed.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for pattern, what, hint in _CAUSES:
        why = next((line for line in lines if re.search(pattern, line)), None)
        if why:
            return HostUnfitError(what, where=host.name, why=why[:300], hint=hint)
    return HostUnfitError(
        "containerd does not answer",
        where=host.name,
        why=lines[-1][:300] if lines else "ctr printed nothing",
        hint="see `systemctl status containerd` there",
    )
