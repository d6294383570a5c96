"""Everything `doctor` asks a host, in one script and one round trip; it changes nothing there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from sistership.errors import SistershipError
from sistership.host.answers import MARK, free_bytes, sections
from sistership.host.commands import Commands, EngineFacts
from sistership.host.docker import store_of
from sistership.host.engines import Engine
from sistership.matrix.model import Host
from sistership.start.nvidia import Smi
from sistership.start.nvidia import parse as parse_smi

TOOLS: Final = ("zstd", "gzip", "sha256sum", "shasum", "openssl", "flock", "timeout")
#: What the names of the sections begin with that a kind of engine other than Docker answers.
_OWN: Final = "engine "
_ARCH: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv7l": "arm"}


@dataclass(frozen=True)
class Answer:
    """What a host said; what it did not say is None or empty.

    Attributes:
        system: kernel and machine, as uname has them ("Linux x86_64").
        boot: which run of its kernel this is.
        clock: its time, seconds since 1970.
        user, uid: who we are there.
        tools: programs that a ship can use.
        programs: engine CLIs → where they are.
        elsewhere: docker commands that are not on PATH.
        cache: nearest existing folder of the staging place; `cache_writable`: whether we may write there.
        cache_free, free: free bytes there, and where the engine keeps images.
        sudo: whether `sudo -n` works; None: there is no sudo.
        cli: what the engine's command says of itself.
        context: name and endpoint of the client's context.
        server: the engine's version document; None: it did not answer, and `server_text` is what came instead.
        as_root: the same, asked by `sudo -n docker`, only when the plain way failed.
        info: the engine's info document.
        buildx: what `buildx version` said.
        sockets: of engines of any kind.
        daemons: socket of a Docker engine → its ID and version.
        podman: what `podman --version` said.
        cards: PCI addresses of NVIDIA cards, driver or not.
        smi: what nvidia-smi said; None: there is none.
        cdi: names of NVIDIA's CDI files.
        own: what an engine of another kind than Docker said, or why it said nothing; None: the matrix means Docker.
    """

    system: str = ""
    boot: str = ""
    clock: int | None = None
    user: str = ""
    uid: int | None = None
    tools: frozenset[str] = frozenset()
    programs: Mapping[str, str] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()
    cache: str = ""
    cache_writable: bool = False
    cache_free: int | None = None
    free: int | None = None
    sudo: bool | None = None
    cli: str = ""
    context: str = ""
    server: Mapping[str, Any] | None = None
    server_text: str = ""
    as_root: Mapping[str, Any] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    buildx: str = ""
    sockets: tuple[str, ...] = ()
    daemons: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    podman: str = ""
    cards: tuple[str, ...] = ()
    smi: Smi | None = None
    cdi: tuple[str, ...] = ()
    own: EngineFacts | SistershipError | None = None

    @property
    def engine(self) -> EngineFacts | None:
        """An engine of another kind than Docker, where it answered."""
        return self.own if isinstance(self.own, EngineFacts) else None

    @property
    def folder(self) -> str:
        """Where the engine keeps its images; of other kinds than Docker the disk is known alone. "" when unknown."""
        if self.engine:
            return (self.engine.disk.split() or [""])[-1]
        return str(self.info.get("DockerRootDir") or "")

    @property
    def room(self) -> int | None:
        """Free bytes there."""
        return free_bytes(self.engine.disk) if self.engine else self.free

    @property
    def platform(self) -> str:
        """The engine's platform, or the machine's where no engine answered; "" when neither is known."""
        if self.engine:
            return self.engine.platform
        machine = _ARCH.get(self.system.partition(" ")[2], "")
        server = self.server or self.as_root or {}
        arch = server.get("Arch") or machine
        return f"{server.get('Os', 'linux')}/{arch}" if arch else ""

    @property
    def store(self) -> str:
        """`classic` or `containerd`."""
        return store_of(self.info)

    @property
    def daemon(self) -> str:
        """The engine's own ID."""
        if self.engine:
            return self.engine.daemon
        return str(self.info.get("ID") or "")

    @property
    def endpoint(self) -> str:
        """Where the engine's command leads there."""
        return self.context.partition(" ")[2]

    @property
    def engines(self) -> tuple[Engine, ...]:
        """The Docker engines that answer there; one engine at two sockets counts once."""
        found = {daemon: Engine(f"unix://{socket}", daemon) for socket, (daemon, _) in self.daemons.items()}
        return tuple(found.values())

    @property
    def is_podman(self) -> bool:
        """Whether the engine's command is Podman, under whichever name."""
        return "podman" in self.cli.lower()

    @property
    def other_kind(self) -> tuple[str, ...]:
        """The keys of the matrix by which its engine can be used, where that is not Docker; () where it may be."""
        if self.is_podman or (self.podman and "docker" not in self.programs):
            return ("engine: podman",)
        sockets = [each for each in self.sockets if each.endswith("/containerd.sock")]
        if "docker" in self.programs or self.server or "ctr" not in self.programs or not sockets:
            return ()
        address = [] if "/run/containerd/containerd.sock" in sockets else [f'docker_host: "unix://{sockets[0]}"']
        return ("engine: containerd", *address, *([] if self.uid == 0 else ["sudo: true"]))


def script(docker: str, functions: str = "") -> str:
    """The script.

    Args:
        docker: shell words that start the engine's CLI there.
        functions: of a kind of engine other than Docker, which is asked in its own way too.
    """
    # A function with this name cannot carry `timeout`: that is a program, and starts programs only.
    limited = f'if command -v timeout >/dev/null 2>&1; then timeout 15 {docker} "$@"; else {docker} "$@"; fi'
    head = f'tools="{" ".join(TOOLS)}"\ncli() {{ {limited}; }}\n'
    text = head + files("sistership.start").joinpath("inquiry.sh").read_text()
    if not functions:
        return text
    mark = f"sec() {{ printf '\\n{MARK}{_OWN}%s\\n' \"$1\"; }}"
    return f"{text}\n{functions}\n{mark}\nsec machine; uname -m\nask_engine\ntrue\n"


def own_answer(engine: Commands, host: Host, text: str, errors: str) -> EngineFacts | SistershipError | None:
    """What an engine of another kind than Docker said, in what the script printed."""
    if engine.kind == "docker":
        return None
    said = sections(text)
    own = {name.removeprefix(_OWN): body for name, body in said.items() if name.startswith(_OWN)}
    try:
        return engine.answers(host, {**own, "boot": said.get("boot", "")}, errors)
    except SistershipError as error:
        return error


def parse(text: str) -> Answer:
    """The answer in what the script printed; a section that is missing or strange is an unknown, never an error."""
    said = {name: body.splitlines() for name, body in sections(text).items()}
    one = {name: lines[0].strip() if lines else "" for name, lines in said.items()}
    programs = [line.split(None, 1) for line in said.get("programs", []) if " " in line]
    cache, _, cache_folder = one.get("cache", "").partition(" ")
    info = _json(said.get("info", [])) or {}
    disk2 = store_of(info) == "containerd" and one.get("disk2")
    return Answer(
        system=one.get("machine", ""),
        boot=one.get("boot", ""),
        clock=_number(one.get("clock", "")),
        user=one.get("user", ""),
        uid=_number(said["user"][1]) if len(said.get("user", [])) > 1 else None,
        tools=frozenset(said.get("tools", [])),
        programs={name: path for name, path in programs if name != "elsewhere"},
        elsewhere=tuple(path for name, path in programs if name == "elsewhere"),
        cache=cache_folder,
        cache_writable=cache == "writable",
        cache_free=_free(said.get("cache", [])[1:]),
        free=_free(said.get("disk2" if disk2 else "disk", [])),
        sudo=_sudo(said.get("sudo", [])),
        cli=one.get("cli", ""),
        context=one.get("context", ""),
        server=_json(said.get("version", [])),
        server_text="\n".join(said.get("version", [])),
        as_root=_json(said.get("asroot", [])),
        info=info,
        buildx=one.get("buildx", ""),
        sockets=tuple(said.get("sockets", [])),
        daemons=_daemons(said.get("daemons", [])),
        podman=one.get("podman", ""),
        cards=tuple(said.get("cards", [])),
        smi=parse_smi("\n".join(said["gpu"])) if said.get("gpu") else None,
        cdi=tuple(said.get("cdi", [])),
    )


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None


def _json(lines: list[str]) -> dict[str, Any] | None:
    for line in lines:
        if line.lstrip().startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                return None
            return value if isinstance(value, dict) else None
    return None


def _free(lines: list[str]) -> int | None:
    """Free bytes from a line of `df -Pk`: … blocks used AVAILABLE capacity% mount point."""
    found = re.search(r"\s\d+\s+\d+\s+(\d+)\s+\d+%\s", lines[-1]) if lines else None
    return int(found[1]) * 1024 if found else None


def _sudo(lines: list[str]) -> bool | None:
    return "status 0" in lines if lines else None


def _daemons(lines: list[str]) -> dict[str, tuple[str, str]]:
    """Socket → ID and version, of the engines that answered there."""
    rows = [line.split() for line in lines]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}  # noqa: PLR2004 - socket, ID, version
