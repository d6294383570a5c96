"""Where the fleet keeps its files: per user in the cache, per project under ``.sistership/fleet``."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Mapping


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Root of sistership's cache: ``SISTERSHIP_CACHE`` if set, else the user's cache folder (XDG)."""
    override = environ.get("SISTERSHIP_CACHE")
    return Path(override).expanduser().absolute() if override else Path(platformdirs.user_cache_dir("sistership"))


@dataclass(frozen=True)
class State:
    """What all projects of this user share: root filesystems, the registry's files, keys, logs."""

    root: Path

    @property
    def roots(self) -> Path:
        """Root filesystems, ``NAME.tar.zst``."""
        return self.root / "roots"

    @property
    def registry(self) -> Path:
        """The practice registry's storage."""
        return self.root / "registry"

    @property
    def wheels(self) -> Path:
        """Python packages that hold CUDA's compiler, ``NAME-VERSION.whl``."""
        return self.root / "wheels"

    @property
    def keys(self) -> Path:
        """The user key and one host key per host."""
        return self.root / "keys"

    @property
    def logs(self) -> Path:
        """What mmdebstrap and pip said."""
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        """Held while a fleet command runs."""
        return self.root / "lock"


def state(environ: Mapping[str, str] = os.environ) -> State:
    """The fleet's own folder in the cache."""
    return State(cache_root(environ) / "fleet")


@dataclass(frozen=True)
class ProjectFiles:
    """What one project gets: how to reach the hosts, and the sample's repository."""

    root: Path

    @property
    def ssh_config(self) -> Path:
        """For ``ssh -F``, and for ``ssh_config:`` in a matrix."""
        return self.root / "ssh_config"

    @property
    def key(self) -> Path:
        """The private key (mode 0600) that root on every practice host accepts."""
        return self.root / "key"

    @property
    def known_hosts(self) -> Path:
        """The hosts' keys under their names and present addresses."""
        return self.root / "known_hosts"

    @property
    def sample(self) -> Path:
        """Bare git repository of the sample fork."""
        return self.root / "sample.git"


def project_files(project: Path) -> ProjectFiles:
    """The fleet's folder in `project`, absolute (ssh resolves relative names against the caller's folder)."""
    return ProjectFiles(project.absolute() / ".sistership" / "fleet")


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> bool:
    """Put `data` into `path` in one step; False, and no write, when it is there already."""
    if path.is_file() and path.read_bytes() == data and path.stat().st_mode & 0o777 == mode:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True
