"""How to reach a destination without the ssh program: address, keys, known hosts, jumps, as its ssh_config says."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sistership.errors import HostUnreachableError
from sistership.host import sshconfig
from sistership.host.sshconfig import Config, Value

_PORT: Final = 22
#: The key files that ssh tries where none is named.
_KEYS: Final = ("id_rsa", "id_ecdsa", "id_ed25519")
_FAMILIES: Final = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}


@dataclass(frozen=True)
class Settings:
    """One destination, resolved.

    Attributes:
        host: its name in the inventory.
        destination: what ssh would be called with.
        known_as: its name in known_hosts, without a port where `alias` is set.
        keys: key files, in the order in which they are tried.
        only: offer no key of the agent that is not among `keys`.
        agent: the agent's socket; None: no agent.
        known: known_hosts files.
        jumps: destinations to go through, in order.
        timeout: seconds for a connection to come up.
        algorithms: paramiko's kind of algorithm → what the user's configuration says of it.
    """

    host: str
    destination: str
    hostname: str
    port: int
    user: str
    alias: str | None
    keys: tuple[Path, ...]
    only: bool
    agent: str | None
    known: tuple[Path, ...]
    jumps: tuple[str, ...]
    timeout: float
    family: socket.AddressFamily
    algorithms: Mapping[str, str]
    config: Config


def resolve(host: str, destination: str, file: Path | None, *, home: Path | None = None) -> Settings:
    """The settings for a destination.

    Args:
        host: the name in the inventory, for errors.
        destination: an alias, a name, `user@host`, `user@host:port` or `ssh://…`.
        file: an ssh_config in place of the user's and the system's.
        home: the user's home, where it is not this process's.

    Raises:
        HostUnfitError: the configuration asks for something that cannot be honoured.
        HostUnreachableError: `file` is not there.
    """
    home = home or Path.home()
    if file and not file.is_file():
        raise missing_config(host, file)
    files = [file] if file else [home / ".ssh" / "config", Path("/etc/ssh/ssh_config")]
    user, name, port = sshconfig.split_destination(destination)
    config = sshconfig.read(host, name, user, files, home=home, local_user=getpass.getuser())
    hostname = (config.get("hostname") or name).replace("%h", name).replace("%%", "%")
    user = user or config.get("user") or getpass.getuser()
    port = port or int(config.get("port") or _PORT)
    tokens = _tokens(name, hostname, port, user, home)

    def paths(values: Iterable[Value]) -> tuple[Path, ...]:
        texts = (sshconfig.expand(config, value, tokens, home) for value in values)
        return tuple(Path(text) for text in texts if text.lower() not in {"none", "/dev/null", ""})

    keys = config.many.get("identityfile", [])
    jump = config.values.get("proxyjump")
    return Settings(
        host=host,
        destination=destination,
        hostname=hostname,
        port=port,
        user=user,
        alias=config.get("hostkeyalias"),
        keys=paths(keys) if keys else tuple(home / ".ssh" / key for key in _KEYS),
        only=(config.get("identitiesonly") or "no").lower() == "yes",
        agent=_agent(config, tokens, home),
        known=paths(_known_hosts(config, home)),
        jumps=tuple(sshconfig.jumps(sshconfig.expand(config, jump, tokens, home))) if jump else (),
        timeout=float(config.get("connecttimeout") or 10),
        family=_FAMILIES.get((config.get("addressfamily") or "any").lower(), socket.AF_UNSPEC),
        algorithms=_algorithms(config),
        config=config,
    )


def missing_config(host: str, file: Path) -> HostUnreachableError:
    """The error for an ssh_config that is not there."""
    return HostUnreachableError(
        f"its ssh_config {file} does not exist",
        where=host,
        hint="correct `ssh_config:` in the matrix; the practice fleet writes its own by `sistership fleet.up`",
    )


def _tokens(name: str, hostname: str, port: int, user: str, home: Path) -> Mapping[str, str]:
    local = socket.gethostname()
    return {
        "d": str(home),
        "h": hostname,
        "i": str(os.getuid()) if hasattr(os, "getuid") else "",
        "L": local.split(".", maxsplit=1)[0],
        "l": local,
        "n": name,
        "p": str(port),
        "r": user,
        "u": getpass.getuser(),
    }


def _agent(config: Config, tokens: Mapping[str, str], home: Path) -> str | None:
    value = config.values.get("identityagent")
    if value is None or value.text == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if value.text.startswith("$") and not value.text.startswith("${"):
        return os.environ.get(value.text[1:]) or None
    return None if value.text.lower() == "none" else sshconfig.expand(config, value, tokens, home)


def _known_hosts(config: Config, home: Path) -> Sequence[Value]:
    users = config.values.get("userknownhostsfile")
    systems = config.values.get("globalknownhostsfile")
    defaults = (f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2")
    globally = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
    words = [(users.words if users else defaults, users), (systems.words if systems else globally, systems)]
    return [Value((word,), value.line if value else "") for texts, value in words for word in texts]


def _algorithms(config: Config) -> Mapping[str, str]:
    names = {
        "ciphers": "ciphers",
        "macs": "digests",
        "kexalgorithms": "kex",
        "hostkeyalgorithms": "key_types",
        "pubkeyacceptedalgorithms": "pubkeys",
        "pubkeyacceptedkeytypes": "pubkeys",
    }
    return {ours: text for theirs, ours in names.items() if (text := config.get(theirs)) is not None}


def allowed(ours: Sequence[str], text: str | None) -> tuple[str, ...]:
    """Which of our algorithms a list of ssh_config leaves: plain, or `+` added, `-` taken out, `^` first."""
    if not text or text[0] == "+":
        return tuple(ours)
    named = text.lstrip("-^").split(",")
    if text[0] == "-":
        return tuple(name for name in ours if not sshconfig.matches(named, name))
    first = tuple(name for pattern in named for name in ours if sshconfig.matches([pattern], name))
    return tuple(dict.fromkeys((*first, *ours) if text[0] == "^" else first))
