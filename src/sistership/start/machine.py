"""This machine: what `build`, `ship` and `verify` need here."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from packaging.version import Version

from sistership import __version__
from sistership.matrix.model import Host
from sistership.start.findings import HERE, Finding, fine, problem, warning

#: `git fetch --no-write-fetch-head` came with it.
GIT_SINCE: Final = Version("2.29")
_GIB: Final = 1 << 30
_ROOM: Final = 20 * _GIB


@dataclass(frozen=True)
class Machine:
    """This machine at one moment; None: it is missing, or not known.

    Attributes:
        ssh, git: first line of what the program says of its version.
        zstandard: version of the Python module.
        store: where images are kept; `writable`: whether we may write there; `free`: bytes.
        synchronised: whether the system keeps its clock by the network.
    """

    ssh: str | None
    git: str | None
    zstandard: str | None
    store: Path
    writable: bool
    free: int | None
    synchronised: bool | None


def look(store: Path) -> Machine:
    """Ask this machine; a second at most, no network."""
    place = store
    while not place.exists() and place != place.parent:
        place = place.parent
    clock = _said("timedatectl", "show", "--property=NTPSynchronized", "--value")
    return Machine(
        ssh=_said("ssh", "-V"),
        git=_said("git", "--version"),
        zstandard=_module("zstandard"),
        store=store,
        writable=place.is_dir() and os.access(place, os.W_OK | os.X_OK),
        free=shutil.disk_usage(place).free,
        synchronised={"yes": True, "no": False}.get(clock or ""),
    )


def judge(machine: Machine, hosts: Sequence[Host]) -> list[Finding]:
    """Findings on this machine.

    Args:
        hosts: whom it has to reach.
    """
    found = [fine(HERE, "sistership", f"{__version__}, Python {platform.python_version()}")]
    return [*found, _ssh(machine, hosts), _git(machine), *_store(machine), *_modules(machine)]


def _ssh(machine: Machine, hosts: Sequence[Host]) -> Finding:
    if machine.ssh:
        return fine(HERE, "ssh", machine.ssh.partition(",")[0])
    cure = "apt-get install openssh-client"
    bound = [host.name for host in hosts if not host.local and host.transport == "openssh"]
    if bound:
        return problem(HERE, "ssh", f"there is no ssh program, and {', '.join(bound)} must be reached by it", cure)
    if any(not host.local for host in hosts):
        return warning(HERE, "ssh", "there is no ssh program: paramiko is used, which honours less of ssh_config", cure)
    return fine(HERE, "ssh", "there is no ssh program, and no host needs it")


def _git(machine: Machine) -> Finding:
    if not machine.git:
        return problem(HERE, "git", "there is no git", "apt-get install git")
    found = re.search(r"\d+(\.\d+)+", machine.git)
    if found and Version(found[0]) < GIT_SINCE:
        what = f"git {found[0]} is too old: {GIT_SINCE} or newer is needed"
        return problem(HERE, "git", what, "install a newer git, or put one first on PATH")
    return fine(HERE, "git", machine.git.removeprefix("git version "))


def _store(machine: Machine) -> list[Finding]:
    if not machine.writable:
        cure = "put the store elsewhere: SISTERSHIP_STORE=DIR"
        return [problem(HERE, "store", f"{machine.store} cannot be written", cure)]
    if machine.free is None:
        return []
    text = f"{machine.free / _GIB:.1f} GiB free for {machine.store}"
    if machine.free < _ROOM:
        cure = "make room, or put the store elsewhere: SISTERSHIP_STORE=DIR"
        return [warning(HERE, "store", f"{text}; a CUDA image takes several", cure)]
    return [fine(HERE, "store", text)]


def _modules(machine: Machine) -> list[Finding]:
    found = []
    if machine.zstandard:
        found.append(fine(HERE, "zstd", f"Python module zstandard {machine.zstandard}"))
    else:
        found.append(problem(HERE, "zstd", "the Python module zstandard is missing", "pip install zstandard"))
    if machine.synchronised is False:
        cure = "turn it on: sudo timedatectl set-ntp true"
        found.append(warning(HERE, "clock", "it is not synchronised by the network", cure))
    elif machine.synchronised:
        found.append(fine(HERE, "clock", "synchronised"))
    return found


def clock_finding(ahead: float, hosts: Sequence[str]) -> Finding:
    """Our clock against that of all hosts, when they agree with each other."""
    way = "ahead of" if ahead > 0 else "behind"
    what = f"about {abs(ahead):.0f} s {way} that of {', '.join(hosts)}, which agree with each other"
    return warning(HERE, "clock", what, "set it: sudo timedatectl set-ntp true")


def _said(*argv: str) -> str | None:
    """The first line that a program prints; None when it is not there, fails or hangs."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=5, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return lines[0] if lines and done.returncode == 0 else None


def _module(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
