"""What a matrix means once it is read, checked and completed: values that the other rooms work with.

Every value is immutable. Mappings are plain dictionaries behind a read-only type, so that
`dataclasses.asdict` works; they take no part in hashing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from sistership.errors import Problem

Backend = Literal["cuda", "cpu"]
Way = Literal["openssh", "paramiko"]
EngineKind = Literal["docker", "podman", "containerd"]

TEMPLATE: Final = "llamacpp.Dockerfile.j2"

#: Debian packages that every build needs and CUDA's devel images lack; ccache makes a second build quick.
BUILD_PACKAGES: Final = ("build-essential", "ccache", "cmake", "ninja-build")

#: The CPU baseline of a platform's architecture where a variant names none.
BASELINES: Final[Mapping[str, str]] = {"amd64": "x86-64-v3", "arm64": "armv8-a"}


def architecture(platform: str) -> str:
    """The architecture in a platform: "arm64" of "linux/arm64/v8"."""
    return platform.split("/")[1]


@dataclass(frozen=True)
class Options:
    """The few named switches of a variant.

    Attributes:
        rpc: build the RPC backend and its worker.
        vmm: let ggml use CUDA's virtual memory management (needs the driver at link time).
        native: compile for the CPU and GPU of the machine that builds.
        ui: build the web UI into the server.
        cpu: the oldest CPU that must run the image, as `-march` names it.
    """

    rpc: bool = True
    vmm: bool = False
    native: bool = False
    ui: bool = False
    cpu: str = BASELINES["amd64"]

    def baseline(self, platform: str) -> str:
        """The CPU baseline for `platform`: `cpu` where it is of that architecture, else the architecture's default."""
        arch = architecture(platform)
        if fits(self.cpu, arch):
            return self.cpu
        return BASELINES.get(arch, "")


def fits(cpu: str, arch: str) -> bool:
    """Whether the CPU baseline `cpu` is one of the architecture `arch` ("amd64", "arm64")."""
    prefix = {"amd64": "x86-64", "arm64": "armv"}.get(arch)
    return prefix is not None and cpu.startswith(prefix)


@dataclass(frozen=True)
class Fork:
    """A git source.

    Attributes:
        git: what git can fetch from; a path is absolute.
        written: the same as the matrix says it. Hashes and labels use this one: `git` may hold a path of this machine.
    """

    name: str
    git: str
    written: str = ""

    def __post_init__(self) -> None:
        if not self.written:
            object.__setattr__(self, "written", self.git)


@dataclass(frozen=True)
class Cuda:
    """Toolkit version, literally ("12.8.1", "12.10"), and the canonical arch list ("75-virtual", "89", "120f")."""

    toolkit: str
    archs: tuple[str, ...]


@dataclass(frozen=True)
class Base:
    """Image references of the stage that compiles and of the image that runs; with or without `@sha256:…`."""

    build: str
    runtime: str


@dataclass(frozen=True)
class PatchRef:
    """A file of `patches/<fork>/`, and why it is there."""

    file: str
    why: str


@dataclass(frozen=True)
class Registry:
    """A repository of a registry that a variant is shipped by.

    Attributes:
        repository: `HOST/REPOSITORY`, without a tag.
        insecure: it may be spoken to by plain HTTP.
        pull: the name under which hosts reach the same content; "": the same.
    """

    repository: str
    insecure: bool = False
    pull: str = ""


@dataclass(frozen=True)
class Variant:
    """A named row of the matrix, complete: defaults are merged in.

    Attributes:
        commit: as written: 40 hex digits, a short hash, a tag or a branch.
        cuda: None for the backend "cpu".
        cmake: what the user adds; flags that options decide are not among them.
        packages: Debian packages of the stage that compiles.
        snapshot: the moment as of which their archive is read: "20260501T000000Z", "auto" (the lock decides),
            "none", or "" where it floats because the base's archive keeps no moments.
        builders: platform → name of the host that builds for it; empty: this machine builds.
        registry: that it is shipped by; None: straight to the hosts.
        where: `file:line:column` of the row.
    """

    name: str
    fork: str
    commit: str
    image: str
    tag: str
    backend: Backend
    cuda: Cuda | None
    base: Base
    patches: tuple[PatchRef, ...] = ()
    options: Options = Options()
    cmake: Mapping[str, str] = field(default_factory=dict, hash=False)
    packages: tuple[str, ...] = ()
    snapshot: str = ""
    platforms: tuple[str, ...] = ("linux/amd64",)
    template: str = TEMPLATE
    builders: Mapping[str, str] = field(default_factory=dict, hash=False)
    registry: Registry | None = None
    where: str = ""


@dataclass(frozen=True)
class Host:
    """A machine of the inventory.

    Attributes:
        ssh: what `ssh` is called with (an alias or user@address); None for this machine.
        ssh_config: absolute path; the host's own or the matrix-wide one.
        docker: the engine's command there ("docker", "podman", a path).
        engine: what kind of engine it speaks to.
        docker_host: where that command finds its engine ("unix:///run/user/1000/docker.sock").
        context: a context of that command, in its place.
        namespace: of containerd; None with other engines.
        sudo: the command needs sudo.
        platform: what its engine must be ("linux/arm64"); None: whatever it is.
        gpu: compute capabilities of its cards ("8.9").
        transport: the way to it; None: the system's ssh where there is one.
    """

    name: str
    local: bool = False
    ssh: str | None = None
    ssh_config: Path | None = None
    docker: str = "docker"
    docker_host: str | None = None
    context: str | None = None
    namespace: str | None = None
    sudo: bool = False
    platform: str | None = None
    gpu: tuple[str, ...] = ()
    transport: Way | None = None
    engine: EngineKind = "docker"


@dataclass(frozen=True)
class Matrix:
    """Everything buildmatrix.yaml says, names in the order of the file.

    Attributes:
        project: absolute folder of the file; relative paths start there.
        groups: group → host names, groups of groups already expanded.
        builders: platform → host name, matrix-wide; empty: this machine builds.
        warnings: what is legal but probably not meant.
    """

    path: Path
    project: Path
    forks: Mapping[str, Fork] = field(hash=False)
    variants: Mapping[str, Variant] = field(hash=False)
    hosts: Mapping[str, Host] = field(hash=False)
    groups: Mapping[str, tuple[str, ...]] = field(hash=False)
    builders: Mapping[str, str] = field(default_factory=dict, hash=False)
    warnings: tuple[Problem, ...] = ()
