"""Waiting until a host really works: a login over ssh, an engine that answers, a registry that answers."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from sistership.errors import HostUnfitError
from sistership.fleet.containers import log_tail
from sistership.fleet.engines import ASK, ASK_USER, Engine, read, unfit
from sistership.fleet.process import Stopped, need
from sistership.fleet.spec import REGISTRY_PORT, HostSpec

if TYPE_CHECKING:
    import threading

    from docker.models.containers import Container

    from sistership.fleet.paths import ProjectFiles

#: Seconds from the start of its container until a host must work.
PATIENCE = 90.0
#: Seconds in which a host that has been running for long must answer, even with a build keeping its processors busy.
MENDING = 30.0

_REGISTRY = (
    f"exec 3<>/dev/tcp/127.0.0.1/{REGISTRY_PORT} && printf 'GET /v2/ HTTP/1.0\\r\\n\\r\\n' >&3 "
    "&& head -n 1 <&3 | grep -q 200"
)


def ssh(files: ProjectFiles, name: str, command: str, seconds: float = 10.0) -> subprocess.CompletedProcess[str]:
    """Run `command` on host `name` over ssh; a call that hangs ends as exit code 255."""
    argv = [need("ssh", "openssh-client"), "-F", str(files.ssh_config), "-o", "BatchMode=yes", "-o", "ConnectTimeout=3"]
    try:
        return subprocess.run(
            [*argv, name, command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 255, "", f"no answer within {seconds:.0f} s")


def _attempt(spec: HostSpec, files: ProjectFiles) -> tuple[Engine | None, str]:
    """One look at a host: root's engine once those of its users answer too, or what does not work yet."""
    root: Engine | None = None
    for alias, user in spec.logins.items():
        command = ASK[spec.kind] if user == "root" else ASK_USER[spec.kind]
        if spec.registry:
            command = f"bash -c {_quoted(_REGISTRY)} && {command}"
        done = ssh(files, alias, command)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            return None, f"exit {done.returncode}: {lines[-1] if lines else 'registry does not answer'}"
        found = read(spec.kind, done.stdout)
        if isinstance(found, str):
            return None, found
        root = root or found
    return root, ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def until_ready(
    spec: HostSpec, container: Container, files: ProjectFiles, stop: threading.Event, seconds: float = PATIENCE
) -> Engine:
    """Wait until `spec` answers as a host should.

    Raises:
        HostUnfitError: the container ended, or `seconds` passed; carries the last lines of its log.
    """
    deadline = time.monotonic() + seconds
    while True:
        found, problem = _attempt(spec, files)
        if found:
            if fault := unfit(found):
                raise HostUnfitError(fault, where=spec.name, hint="the cache of Docker must lie on ext4 or xfs")
            return found
        container.reload()
        if container.status != "running" or time.monotonic() > deadline:
            state = "did not answer in time" if container.status == "running" else f"is {container.status}"
            raise HostUnfitError(
                f"practice host {spec.name} {state} ({problem})",
                where=spec.name,
                why=f"its last log lines:\n{log_tail(container)}",
                hint=f"docker logs {spec.container}; fleet.down and fleet.up make it anew",
            )
        if stop.wait(0.3):
            raise Stopped
