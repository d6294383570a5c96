"""What the practice fleet consists of: hosts, root filesystems, bases. Values only."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from sistership.errors import UsageError


def fleet_name(environ: Mapping[str, str] = os.environ) -> str:
    """Which fleet of this machine is meant: ``SISTERSHIP_FLEET`` if set, else ``practice``.

    Raises:
        UsageError: the name does not fit into those of containers and networks.
    """
    name = environ.get("SISTERSHIP_FLEET") or "practice"
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name):
        raise UsageError(
            f'"{name}" cannot name a fleet',
            where="SISTERSHIP_FLEET",
            hint="write lower-case letters, digits and -, 20 at most",
        )
    return name


#: Everything the fleet makes carries this label, and nothing without it is ever touched.
#: Its value is the fleet's name; what all fleets of a machine share (images) has the default one.
LABEL: Final = "dev.sistership.fleet"
LABEL_VALUE: Final = fleet_name()
SHARED: Final = "practice"
LABELS: Final[Mapping[str, str]] = MappingProxyType({LABEL: LABEL_VALUE})
#: Says which host a container is, and which specification it was made from.
HOST_LABEL: Final = "dev.sistership.fleet.host"
SPEC_LABEL: Final = "dev.sistership.fleet.spec"

NETWORK: Final = f"sistership-{LABEL_VALUE}"
REPOSITORY: Final = "sistership-practice"
REGISTRY_PORT: Final = 5000
REGISTRY: Final = f"127.0.0.1:{REGISTRY_PORT}"

#: Unix time of every file made while a root filesystem is unpacked (2025-01-01): equal packages give equal bytes.
EPOCH: Final = 1_735_689_600

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CAPABILITIES = (
    "AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID IPC_LOCK "
    "IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST "
    "NET_RAW SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT "
    "SYS_PTRACE SYS_RAWIO SYS_TIME SYS_TTY_CONFIG WAKE_ALARM"
)
#: A dockerd inside a container needs nearly every capability.
#: Not CAP_SYS_RESOURCE (machines exist that cannot give it, so `--privileged` fails there),
#: and none that Engine 20.10 does not know (PERFMON, BPF, CHECKPOINT_RESTORE).
CAPABILITIES: Final = tuple(_CAPABILITIES.split())
SECURITY: Final = ("seccomp=unconfined", "apparmor=unconfined")


def digest_of(value: object) -> str:
    """Sha256 (64 hex digits) of a JSON value in its sorted compact form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Root:
    """A Debian root filesystem: the suite's minimal set plus `packages`."""

    suite: str
    packages: tuple[str, ...]

    @property
    def key(self) -> str:
        """Twelve hex digits that change with the suite, the packages and the way they are unpacked."""
        return digest_of({"v": 1, "epoch": EPOCH, "suite": self.suite, "packages": sorted(self.packages)})[:12]

    @property
    def name(self) -> str:
        """File stem in the cache, for example ``trixie-0123456789ab``."""
        return f"{self.suite}-{self.key}"

    @property
    def image(self) -> str:
        """Tag in the machine's own engine, for example ``sistership-practice/trixie:0123456789ab``."""
        return f"{REPOSITORY}/{self.suite}:{self.key}"


#: Which engine a host runs: dockerd, podman (which has no daemon), or containerd with ctr alone.
Kind = Literal["docker", "podman", "containerd"]
#: Folders that lie on a real disk, as they do on a real host: overlay2 does not stack on overlay, and what is staged
#: would pass through the file system of this machine's engine, which may be one in user space (fuse-overlayfs takes a
#: quarter of a processor for a layer at 1 Gbit/s).
DISK: Final = ("/var/lib/docker", "/var/lib/containerd", "/root/.cache")

#: Fields that came later, with the values that leave the key of a host as it was before.
_LATER: Final[Mapping[str, object]] = MappingProxyType({"kind": "docker", "users": (), "volumes": (), "without": ()})


@dataclass(frozen=True)
class HostSpec:
    """A practice host: its root filesystem, its engine's daemon.json, and whether the registry runs beside it.

    Attributes:
        on_request: started only when it is named: few need it, or its packages come from a suite that still moves.
        kind: the engine that root has.
        users: people with an engine of their own, rootless and of the same kind; each logs in as NAME-USER.
        volumes: folders on a real disk, beyond those that every host has.
        without: programs of the root filesystem that this host must not have.
    """

    name: str
    root: Root
    daemon: Mapping[str, object] = field(default_factory=dict)
    sshd: tuple[str, ...] = ()
    registry: bool = False
    why: str = ""
    on_request: bool = False
    kind: Kind = "docker"
    users: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def container(self) -> str:
        """Name of the host's container in the machine's own engine."""
        return f"{NETWORK}-{self.name}"

    @property
    def logins(self) -> Mapping[str, str]:
        """Ssh alias → user there."""
        return {self.name: "root", **{f"{self.name}-{user}": user for user in self.users}}

    def key(self, extra: Mapping[str, str]) -> str:
        """Digest of all that decides the container; `extra` holds file contents that come from elsewhere."""
        host = {name: value for name, value in asdict(self).items() if name not in _LATER or value != _LATER[name]}
        del host["on_request"]
        return digest_of({"v": 1, "host": host, "extra": dict(extra), "capabilities": CAPABILITIES, "disk": DISK})


#: What a base has of CUDA on top of Debian: "toolkit" compiles, "runtime" only runs what was compiled.
Cuda = Literal["toolkit", "runtime"]


@dataclass(frozen=True)
class BaseSpec:
    """A base image that the practice registry offers.

    Attributes:
        cuda: its second layer; None means that the base is Debian alone.
        env: the config's environment, ``NAME=value`` each.
    """

    repository: str
    tag: str
    root: Root
    cuda: Cuda | None = None
    env: tuple[str, ...] = (f"PATH={_PATH}",)

    @property
    def reference(self) -> str:
        """As a Dockerfile on the builder names it, for example ``127.0.0.1:5000/practice/build:bookworm``."""
        return f"{REGISTRY}/{self.repository}:{self.tag}"


_ENGINE = ("ca-certificates", "iproute2", "iptables", "openssh-server", "zstd", "docker.io")

BOOKWORM: Final = Root("bookworm", _ENGINE)
#: Login shells and sudo as people's machines have them, for users that tests make and remove again.
_PEOPLE = ("fish", "sudo", "tcsh")
#: One root filesystem for all hosts of this suite; only the builder starts the registry in it.
TRIXIE: Final = Root("trixie", (*_ENGINE, *_PEOPLE, "docker-cli", "docker-buildx", "docker-registry"))
#: Debian's next release: its engine is whatever was packaged last.
FORKY: Final = Root("forky", (*_ENGINE, "docker-cli", "docker-buildx"))
#: One for all hosts whose engine is not root's dockerd alone; what a host must not have of it is taken away there.
OTHERS: Final = Root(
    "trixie",
    (
        *(*_ENGINE, "docker-cli", "sudo"),
        *("podman", "crun", "netavark", "nftables", "passt"),
        *("fuse-overlayfs", "rootlesskit", "slirp4netns", "uidmap"),
    ),
)
_USER: Final = "rootless"
_DOCKER: Final = ("docker", "dockerd", "docker-proxy")

_SSHD = ("PasswordAuthentication no", "UsePAM no", "UseDNS no", "MaxStartups 100:30:200", "MaxSessions 100")
#: OpenSSH 9.8 and later shut out an address after a few refused logins; tests cause those on purpose.
_SSHD_NEW = (*_SSHD, "PerSourcePenalties no")

HOSTS: Final[Mapping[str, HostSpec]] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            HostSpec(
                "builder",
                TRIXIE,
                daemon={"storage-driver": "overlay2"},
                sshd=_SSHD_NEW,
                registry=True,
                why="BuildKit of Engine 26, and the registry with the practice bases",
            ),
            HostSpec(
                "classic20",
                BOOKWORM,
                daemon={"storage-driver": "overlay2"},
                sshd=_SSHD,
                why="Engine 20.10: no zstd in the engine",
            ),
            HostSpec(
                "classic26",
                TRIXIE,
                daemon={"storage-driver": "overlay2"},
                sshd=_SSHD_NEW,
                why="Engine 26 with the classic image store",
            ),
            HostSpec(
                "containerd26",
                TRIXIE,
                daemon={"features": {"containerd-snapshotter": True}},
                sshd=_SSHD_NEW,
                why="Engine 26 with the containerd image store",
            ),
            HostSpec(
                "docker28",
                FORKY,
                daemon={"storage-driver": "overlay2"},
                sshd=_SSHD_NEW,
                why="Engine 28, later than any release of Debian has, with the classic image store as it comes",
                on_request=True,
            ),
            HostSpec(
                "containerd28",
                FORKY,
                daemon={"features": {"containerd-snapshotter": True}},
                sshd=_SSHD_NEW,
                why="Engine 28 with the containerd image store",
                on_request=True,
            ),
            HostSpec(
                "podman",
                OTHERS,
                sshd=_SSHD_NEW,
                why="Podman 5.4, rootful as root and rootless as a user",
                on_request=True,
                kind="podman",
                users=(_USER,),
                volumes=("/var/lib/containers", f"/home/{_USER}"),
                without=(*_DOCKER, "containerd", "ctr"),
            ),
            HostSpec(
                "docker26",
                OTHERS,
                daemon={"storage-driver": "overlay2"},
                sshd=_SSHD_NEW,
                why="two engines on one host: Engine 26 of root, and a rootless one of a user",
                on_request=True,
                users=(_USER,),
                volumes=(f"/home/{_USER}",),
                without=("podman",),
            ),
            HostSpec(
                "containerd",
                OTHERS,
                sshd=_SSHD_NEW,
                why="containerd 1.7 and ctr alone, as Kubernetes nodes have it",
                on_request=True,
                kind="containerd",
                without=(*_DOCKER, "podman"),
            ),
            HostSpec(
                "containerd2",
                FORKY,
                sshd=_SSHD_NEW,
                why="containerd 2 and ctr alone, from the suite that still moves",
                on_request=True,
                kind="containerd",
                without=_DOCKER,
            ),
        )
    }
)

_BUILD: Final = Root("bookworm", ("build-essential", "ca-certificates", "ccache", "cmake", "git", "ninja-build"))
_RUNTIME: Final = Root("bookworm", ("ca-certificates", "libgomp1", "libstdc++6"))

BASES: Final = (
    BaseSpec("practice/build", "bookworm", _BUILD),
    BaseSpec("practice/runtime", "bookworm", _RUNTIME),
)

#: As NVIDIA's images have it, so that what is learnt here holds there.
_CUDA_ENV: Final = (
    f"PATH=/usr/local/cuda/bin:{_PATH}",
    "LD_LIBRARY_PATH=/usr/local/cuda/lib64",
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
)
#: Each stands on the base above that has the same root filesystem.
CUDA_BASES: Final = (
    BaseSpec("practice/cuda-build", "bookworm", _BUILD, "toolkit", _CUDA_ENV),
    BaseSpec("practice/cuda-runtime", "bookworm", _RUNTIME, "runtime", _CUDA_ENV),
)
