"""What makes a plain root filesystem into a practice host: programs that start it, keys, configuration."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final

from sistership.fleet.keys import key_pair
from sistership.fleet.spec import REGISTRY, HostSpec

if TYPE_CHECKING:
    from sistership.fleet.paths import State

#: Where the registry of a host keeps its files.
STORAGE: Final = "/var/lib/practice-registry"


@dataclass(frozen=True)
class File:
    """A file for a host: absolute path there, text, mode."""

    path: str
    text: str
    mode: int = 0o644


def files_of(spec: HostSpec, state: State) -> tuple[File, ...]:
    """What makes a plain root filesystem into this host."""
    scripts = resources.files(__package__).joinpath("host")
    host_key = key_pair(state, f"host-{spec.name}")
    # Hosts of later kinds also let in whom tests give a key of their own.
    keys = "/etc/practice/authorized_keys" + (" .ssh/authorized_keys" if spec.without else "")
    sshd = ["HostKey /etc/practice/host_key", f"AuthorizedKeysFile {keys}", *spec.sshd]
    # What PAM tells a session of a real host.
    sshd += [f"Match User {user}\n    SetEnv XDG_RUNTIME_DIR=/run/user/{uid}" for uid, user in _uids(spec)]
    files = [
        *(
            File(f"/usr/local/sbin/{name}", scripts.joinpath(file).read_text(), 0o755)
            for name, file in _scripts(spec).items()
        ),
        File("/etc/docker/daemon.json", json.dumps(dict(spec.daemon), sort_keys=True) + "\n"),
        File("/etc/practice/host_key", host_key.private.decode(), 0o600),
        # Read with the rights of who logs in.
        File("/etc/practice/authorized_keys", key_pair(state, "user").public + "\n", 0o644 if spec.users else 0o600),
        File("/etc/ssh/sshd_config.d/practice.conf", "\n".join(sshd) + "\n"),
    ]
    if spec.registry:
        files.append(File("/etc/practice/registry.yml", _registry_config()))
    if spec.users:
        files.append(File("/etc/practice/users", "".join(f"{uid} {user}\n" for uid, user in _uids(spec))))
    if spec.without:
        files.append(File("/etc/practice/without", "".join(f"{name}\n" for name in spec.without)))
    if spec.kind == "podman":
        files.append(File("/etc/containers/containers.conf", _PODMAN))
    return tuple(files)


def _uids(spec: HostSpec) -> list[tuple[int, str]]:
    return list(enumerate(spec.users, 1000))


#: crun refuses a machine that has cgroups of both versions; runc runs on every kind.
_PODMAN = '[engine]\nruntime = "runc"\n'


def _scripts(spec: HostSpec) -> dict[str, str]:
    """Program on the host → our file of it; hosts of old kinds keep theirs, so that none is made anew."""
    names = {name: name for name in ("practice-host", "practice-engine", "practice-sshd")}
    if spec.kind != "docker" or spec.users:
        names["practice-engine"] = f"practice-engine-{'rootless' if spec.kind == 'docker' else spec.kind}"
        names["practice-prepare"] = "practice-prepare"
    return names


def _registry_config() -> str:
    """The registry only hands out: its storage belongs to the fleet."""
    return (
        "version: 0.1\nlog: {level: warn}\n"
        f"storage:\n  filesystem: {{rootdirectory: {STORAGE}}}\n  maintenance: {{readonly: {{enabled: true}}}}\n"
        f"http: {{addr: '{REGISTRY}'}}\n"
    )


def archive(files: tuple[File, ...]) -> bytes:
    """A tar of `files` for ``put_archive`` at ``/``."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for file in files:
            data = file.text.encode()
            info = tarfile.TarInfo(file.path.lstrip("/"))
            info.size, info.mode = len(data), file.mode
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()
