"""Everything `doctor` asks a host, in one script and one round trip; it changes nothing there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from sistership.host.engines import Engine
from sistership.host.facts import sections, store_of
from sistership.start.nvidia import Smi
from sistership.start.nvidia import parse as parse_smi

TOOLS: Final = ("zstd", "gzip", "sha256sum", "shasum", "openssl", "flock", "timeout")
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

    @property
    def platform(self) -> str:
        """The engine's platform, or the machine's where no engine answered; "" when neither is known."""
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


def script(docker: str) -> str:
    """The script.

    Args:
        docker: shell words that start the engine's CLI there.
    """
    # A function with this name cannot carry `timeout`: that is a program, and starts programs only.
    limited = f'if command -v timeout >/dev/null 2>&1; then timeout 15 {docker} "$@"; else {docker} "$@"; fi'
    head = f'tools="{" ".join(TOOLS)}"\ncli() {{ {limited}; }}\n'
    return head + files("sistership.start").joinpath("inquiry.sh").read_text()


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
