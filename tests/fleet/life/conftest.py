"""People's machines as they are: shells, banners, sudo and ssh configurations of all kinds, on one practice host.

The users and a second sshd (port 2222, its own key and banner) are made on `classic26` and removed again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sistership.fleet import faults

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

HOST = "classic26"
PORT = 2222
FOLDER = "/opt/life"
#: User → login shell, further groups, login file and its text.
USERS = {
    "plain": ("/bin/bash", "docker", "", ""),
    "tcsh": ("/bin/tcsh", "docker", ".cshrc", "echo '*** csh welcome ***'\nset prompt='! %'\n"),
    "fish": ("/usr/bin/fish", "docker", ".config/fish/config.fish", "echo '*** fish welcome ***'\n"),
    "noisy": ("/bin/bash", "docker", ".bashrc", "echo before; echo '{\"Version\":\"1\"}'; trap 'echo after' EXIT\n"),
    "leaves": ("/bin/bash", "docker", ".bashrc", "echo 'interactive only'; exit 0\n"),
    "barred": ("/usr/sbin/nologin", "docker", "", ""),
    "nodocker": ("/bin/bash", "", "", ""),
    "sudoer": ("/bin/bash", "", "", ""),
    "asked": ("/bin/bash", "", "", ""),
}
SUDOERS = "sudoer ALL=(root) NOPASSWD: /usr/bin/docker\nasked ALL=(root) ALL\n"
SSHD = f"""
Port {PORT}
ListenAddress 0.0.0.0
ListenAddress ::1
HostKey {FOLDER}/host_key
AuthorizedKeysFile {FOLDER}/authorized/%u
Banner {FOLDER}/banner
PidFile {FOLDER}/sshd.pid
PrintMotd yes
UsePAM no
PasswordAuthentication no
StrictModes no
PerSourcePenalties no
"""
BANNER = "*** Connections are closed by the admin, Permission denied (to strangers), timed out users beware ***\n"
SETUP = """
set -eu
mkdir -p {folder}/authorized && cd {folder}
sysctl -q -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0
ip addr add ::1/128 dev lo 2>/dev/null || true
ssh-keygen -q -t ed25519 -N '' -f host_key
printf %s "$BANNER" > banner; printf %s "$SSHD" > sshd_config
printf %s "$SUDOERS" > /etc/sudoers.d/life; chmod 440 /etc/sudoers.d/life
printf 'welcome, this is the motd\\n' > /etc/motd
{users}
mkdir -p /run/sshd
/usr/sbin/sshd -f {folder}/sshd_config
"""
TEARDOWN = """
cd /
[ ! -f {folder}/sshd.pid ] || kill "$(cat {folder}/sshd.pid)"
for user in {users}; do
  pkill -KILL -u "$user" 2>/dev/null; userdel -rf "$user" 2>/dev/null
done
rm -rf {folder} /etc/sudoers.d/life /etc/motd
sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 2>/dev/null
true
"""
ALIAS = """
Host {name}
    HostName {address}
    Port {port}
    User {user}
    IdentityFile {key}
    IdentitiesOnly yes
    UserKnownHostsFile {known}
    GlobalKnownHostsFile /dev/null
"""
MATRIX = """
version: 1
builder: builder
forks: {{sample: {{git: {sample}}}}}
variants:
  sample:
    fork: sample
    commit: main
    image: life-sample
    tag: v1
    backend: cpu
    base: {{build: "127.0.0.1:5000/practice/build:bookworm", runtime: "127.0.0.1:5000/practice/runtime:bookworm"}}
hosts:
  builder: {{ssh_config: {fleet}}}
"""


@dataclass(frozen=True)
class Life:
    """The second sshd and its users, and files of our own that reach them."""

    fleet: Fleet
    folder: Path
    address: str
    key: Path
    known: Path

    def alias(self, user: str, **changes: object) -> str:
        """An ssh_config block for a user, named like the user."""
        values: dict[str, object] = {"name": user, "address": self.address, "port": PORT, "user": user}
        return ALIAS.format(**{**values, "key": self.key, "known": self.known, **changes})

    def config(self, text: str = "", *, name: str = "config") -> Path:
        """An ssh_config with a block for every user, after `text`."""
        path = self.folder / name
        path.write_text(text + "".join(self.alias(user) for user in USERS))
        return path


@dataclass(frozen=True)
class Done:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    def hosts(self) -> dict[str, dict[str, Any]]:
        """Host → its part of `verify --json`."""
        return {host["host"]: host for host in json.loads(self.out)["hosts"]}


@dataclass
class Project:
    """A folder with a matrix, and the command line in it."""

    folder: Path
    fleet: Fleet
    environ: dict[str, str] = field(default_factory=dict)

    def hosts(self, rows: dict[str, str]) -> None:
        """Write the matrix with these hosts (name → row) beside the builder."""
        text = MATRIX.format(sample=self.fleet.files.sample, fleet=self.fleet.files.ssh_config)
        lines = "".join(f"  {name}: {row}\n" for name, row in rows.items())
        (self.folder / "buildmatrix.yaml").write_text(text + lines)

    def run(self, *words: str, code: int | None = 0, environ: dict[str, str] | None = None) -> Done:
        """Run `sistership WORDS`; the exit code must be `code` (None: any)."""
        done = subprocess.run(
            [sys.executable, "-m", "sistership", *words],
            cwd=self.folder,
            env={**self.environ, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert code is None or done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def forget(self, host: str) -> None:
        """Remove the sample's images from a host."""
        names = "docker images --format '{{.Repository}}:{{.Tag}}' | grep life-sample"
        self.fleet.ssh(host, f"{names} | xargs -r docker rmi -f")

    def verify(self, hosts: str, code: int | None = 0, environ: dict[str, str] | None = None) -> dict[str, Any]:
        """Host → verdict and more, from `verify --json`."""
        return self.run("verify", "--json", "--hosts", hosts, code=code, environ=environ).hosts()


def _make_users() -> str:
    lines = []
    for user, (shell, group, file, text) in USERS.items():
        groups = f"-G {group}" if group else ""
        lines.append(f"useradd -m -s {shell} {groups} {user}; usermod -p '*' {user}; cp $KEYS authorized/{user}")
        if file:
            lines.append(f"mkdir -p $(dirname /home/{user}/{file}); printf %s {_quote(text)} > /home/{user}/{file}")
        lines.append(f"chown -R {user}: /home/{user}")
    return "\n".join(lines)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def on_host(script: str, **variables: str) -> str:
    """Run a script as root inside the practice host."""
    values = [f"{name}={value}" for name, value in variables.items()]
    return faults.run(HOST, ["env", *values, "sh", "-c", script])


@contextmanager
def people(fleet: Fleet, folder: Path) -> Iterator[Life]:
    """The users and the second sshd, removed afterwards."""
    down = TEARDOWN.format(folder=FOLDER, users=" ".join(USERS))
    on_host(down)
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    on_host("cat > /tmp/life.keys <<E\n" + key.with_suffix(".pub").read_text() + "E\n")
    setup = SETUP.format(folder=FOLDER, users=_make_users())
    try:
        on_host(setup, BANNER=BANNER, SSHD=SSHD, SUDOERS=SUDOERS, KEYS="/tmp/life.keys")
        public = on_host(f"cut -d' ' -f1,2 {FOLDER}/host_key.pub").strip()
        address = fleet.states[HOST].address
        known = folder / "known_hosts"
        known.write_text(f"[{address}]:{PORT} {public}\n[::1]:{PORT} {public}\n")
        yield Life(fleet, folder, address, key, known)
    finally:
        on_host(down)


@pytest.fixture(scope="session")
def life(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """People's users on the practice host."""
    with people(fleet, tmp_path_factory.mktemp("life")) as made:
        yield made


@pytest.fixture(scope="session")
def project(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose sample is built."""
    folder = tmp_path_factory.mktemp("life-project")
    environ = {**os.environ, "SISTERSHIP_STORE": str(folder / "store"), "SISTERSHIP_LOGS": str(folder / "logs")}
    made = Project(folder, fleet, environ)
    made.hosts({})
    made.run("build", "--variant", "sample")
    yield made
    for host in ("builder", "classic20", "classic26", "containerd26"):
        made.forget(host)


@pytest.fixture(scope="session")
def shipped(project: Project) -> Project:
    """The project with its sample on the host where the users are."""
    project.hosts({HOST: f"{{ssh_config: {project.fleet.files.ssh_config}}}"})
    project.run("ship", "--variant", "sample", "--hosts", HOST)
    return project
