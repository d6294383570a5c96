"""Keys of the fleet, and the files that let ``ssh`` reach it with strict host keys."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sistership.fleet.paths import ProjectFiles, State, write_atomic
from sistership.fleet.process import need

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class KeyPair:
    """An ed25519 key pair as OpenSSH writes it."""

    private: bytes
    public: str


def key_pair(state: State, name: str) -> KeyPair:
    """The pair `name` of the fleet; made once, then kept, so that hosts stay known after ``down`` and ``up``."""
    path = state.keys / name
    public = path.with_suffix(".pub")
    if not (path.is_file() and public.is_file()):
        _make(path, public)
    return KeyPair(path.read_bytes(), " ".join(public.read_text().split()[:2]))


def _make(path: Path, public: Path) -> None:
    """The private key comes last, so a pair that was interrupted is made again."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    argv = [need("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-C", "sistership-practice"]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh = Path(folder) / "key"
        subprocess.run([*argv, "-f", str(fresh)], check=True, timeout=30, stdin=subprocess.DEVNULL)
        fresh.with_suffix(".pub").replace(public)
        fresh.replace(path)


def ensure(state: State, hosts: Iterable[str]) -> None:
    """Have the user key and one host key for each of `hosts`."""
    for name in ("user", *(f"host-{host}" for host in hosts)):
        key_pair(state, name)


def ssh_config(
    addresses: Mapping[str, str], files: ProjectFiles, users: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> str:
    """Text of the ssh_config: one block per login, nothing taken from agents or from the user's known hosts.

    Args:
        addresses: of the hosts by name.
        files: where the project keeps keys.
        users: who may log in beside root, by host; their aliases are HOST-USER.
    """
    logins = [
        (*login, address)
        for name, address in sorted(addresses.items())
        for login in ((name, "root", ""), *((f"{name}-{user}", user, name) for user in users.get(name, ())))
    ]
    blocks = [
        f"Host {alias}\n"
        f"    HostName {address}\n"
        f"    User {user}\n"
        f"{f'    HostKeyAlias {known}{chr(10)}' if known else ''}"
        f'    IdentityFile "{files.key}"\n'
        f"    IdentitiesOnly yes\n"
        f'    UserKnownHostsFile "{files.known_hosts}"\n'
        f"    GlobalKnownHostsFile /dev/null\n"
        f"    StrictHostKeyChecking yes\n"
        f"    ConnectTimeout 10\n"
        for alias, user, known, address in logins
    ]
    return "# Practice hosts; written by `fleet up`.\n" + "\n".join(blocks)


def known_hosts(addresses: Mapping[str, str], host_keys: Mapping[str, str]) -> str:
    """Text of the known_hosts file: each host's key under its name and its address."""
    return "".join(f"{name},{address} {host_keys[name]}\n" for name, address in sorted(addresses.items()))


def write(
    files: ProjectFiles,
    state: State,
    addresses: Mapping[str, str],
    users: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> None:
    """Write key, known_hosts and ssh_config of a project; addresses may have changed since the last time."""
    host_keys = {name: key_pair(state, f"host-{name}").public for name in addresses}
    write_atomic(files.key, key_pair(state, "user").private, mode=0o600)
    write_atomic(files.known_hosts, known_hosts(addresses, host_keys).encode())
    write_atomic(files.ssh_config, ssh_config(addresses, files, users).encode())


def paths_are_safe(folder: Path) -> bool:
    """Whether ssh can read file names below `folder` from its config (it expands % and ends names at a quote)."""
    return not set('%"\n$') & set(str(folder))
