"""The system's ssh: the user's whole ssh_config, agents, jump hosts and hardware keys work as they do by hand."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from sistership.errors import HostUnreachableError, SistershipError
from sistership.host.process import Processes
from sistership.host.transport import Completed, Frame, Sink, Unframe

#: A socket's path has 104 bytes on BSD and macOS, 108 on Linux, and ssh appends up to 17 while it makes one.
_SOCKET_LIMIT = 103 - 17
#: ssh's own exit status when it, and not the command, failed.
_SSH_FAILED = 255
_HASH = 40  # %C is a SHA-1 in hex: host, port, user and jump host


def control_path(folder: str) -> str | None:
    """ControlPath below `folder`, or None when a socket there would have too long a name.

    `%C` is as long for every host, so a long host or user name never breaks a ship.
    """
    return f"{folder}/%C" if len(os.fsencode(folder)) + 1 + _HASH <= _SOCKET_LIMIT else None


def argv(destination: str, command: str, *, config: Path | None, control: str | None) -> list[str]:
    """The ssh command line for one script.

    Strict host keys always; no question is ever asked (BatchMode), since nobody sits there to answer;
    a dead peer is noticed within about a minute.
    """
    words = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10"]
    words += ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]
    words += ["-o", "ClearAllForwardings=yes", "-o", "RequestTTY=no", "-o", "RemoteCommand=none"]
    if config:
        words += ["-F", str(config)]
    if control:
        words += ["-o", "ControlMaster=auto", "-o", f"ControlPath={control}", "-o", "ControlPersist=120"]
    else:
        words += ["-o", "ControlPath=none"]
    return [*words, "--", destination, command]


class OpenSSH:
    """A host behind ssh.

    Args:
        host: its name in the inventory.
        destination: what ssh is given: an alias of ssh_config, `user@host` or a name.
        config: an ssh_config to use instead of the user's own.
    """

    def __init__(self, host: str, destination: str, config: Path | None = None) -> None:
        self.host = host
        self._destination = destination
        self._config = config
        self._processes = Processes()
        self._folder = _socket_folder()
        self._control = control_path(self._folder)

    def run(
        self,
        script: str,
        *,
        stdin: bytes | Iterable[bytes] | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """See Transport.run."""
        if self._config and not self._config.is_file():
            raise HostUnreachableError(
                f"its ssh_config {self._config} does not exist",
                where=self.host,
                hint="correct `ssh_config:` in the matrix; the practice fleet writes its own by `sistership fleet.up`",
            )
        frame = Frame.fresh()
        kept: list[bytes] = []
        unframe = Unframe(frame, sink or kept.append)
        command = argv(self._destination, frame.command(script), config=self._config, control=self._control)
        try:
            ended = self._processes.run(command, stdin=stdin, sink=unframe.feed, timeout=timeout)
        except FileNotFoundError:
            raise SistershipError(
                "there is no ssh program on this machine", where=self.host, hint="apt-get install openssh-client"
            ) from None
        status = unframe.finish()
        if status is None:
            if ended.timed_out:
                raise HostUnreachableError(
                    f"no end after {timeout:g} s",
                    where=self.host,
                    hint=f"see what hangs there: ssh {self._destination}",
                )
            if ended.status != _SSH_FAILED and unframe.preface:
                raise HostUnreachableError(
                    "its shell printed text and ended before the script ran",
                    where=self.host,
                    why=unframe.preface.decode(errors="replace").strip()[:200],
                    hint="keep that text for interactive shells in the login files there",
                )
            raise refusal(self.host, self._destination, ended.err)
        return Completed(status, b"".join(kept), ended.err)

    def close(self) -> None:
        """End what still runs, the shared connection too."""
        self._processes.close()
        if self._control:
            words = ["ssh", "-O", "exit", "-o", f"ControlPath={self._control}"]
            words += ["-F", str(self._config)] if self._config else []
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([*words, "--", self._destination], capture_output=True, timeout=5, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


def _socket_folder() -> str:
    """A private folder with a short name: $TMPDIR when it is short enough, else /tmp."""
    for base in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes it private
        folder = tempfile.mkdtemp(prefix="sship-", dir=base)
        if control_path(folder):
            return folder
        Path(folder).rmdir()
    return tempfile.mkdtemp(prefix="sship-")


_CAUSES: Sequence[tuple[str, str, str]] = (
    (
        r"Permission denied \(",
        "it refuses our keys",
        "try `ssh {dest}` by hand; load the key: ssh-add, or set IdentityFile in ssh_config",
    ),
    (
        r"Could not resolve hostname",
        "the name is not known",
        "check `ssh:` of the host in the matrix, and HostName in ssh_config",
    ),
    (r"Connection refused", "nothing listens on its ssh port", "is sshd running there? is Port right in ssh_config?"),
    (r"timed out|No route to host|unreachable", "it does not answer", "is the machine on? does `ssh {dest}` work?"),
    (
        r"No \S+ host key is known|Host key verification failed",
        "its host key is not known here",
        "compare the fingerprint on the machine, then log in once by hand: ssh {dest}",
    ),
    (
        r"closed by|Broken pipe|reset by peer|not responding",
        "the connection was cut",
        "run the command again; what has arrived is kept",
    ),
)


def refusal(host: str, destination: str, err: str) -> HostUnreachableError:
    """Why ssh gave up, in the user's words, from what it printed."""
    changed = re.search(r"REMOTE HOST IDENTIFICATION HAS CHANGED", err)
    if changed:
        return _host_key_changed(host, err)
    for pattern, what, hint in _CAUSES:
        if re.search(pattern, err):
            line = next((text.strip() for text in err.splitlines() if re.search(pattern, text)), "")
            return HostUnreachableError(what, where=host, why=line, hint=hint.format(dest=destination))
    last = err.strip().splitlines()[-1:] or ["ssh ended without a word"]
    return HostUnreachableError("no connection", where=host, why=last[0], hint=f"try it by hand: ssh {destination}")


def _host_key_changed(host: str, err: str) -> HostUnreachableError:
    sent = re.search(r"SHA256:\S+", err)
    offending = re.search(r"Offending (\S+) key in (.+?):(\d+)", err)
    known = _fingerprint(offending.group(2), int(offending.group(3))) if offending else None
    fix = f"ssh-keygen -R HOST -f {offending.group(2)}" if offending else "ssh-keygen -R HOST"
    return HostUnreachableError(
        "its host key changed; nothing was sent",
        where=host,
        why=f"it shows {sent.group(0).rstrip('.') if sent else 'another key'}, known is {known or 'another'}",
        hint=f"was it installed anew? then forget the old key: {fix}",
    )


def _fingerprint(file: str, line: int) -> str | None:
    """Fingerprint of the key in line `line` (from 1) of a known_hosts file, by ssh-keygen."""
    try:
        text = Path(file).read_text().splitlines()[line - 1]
        shown = subprocess.run(
            ["ssh-keygen", "-lf", "-"], input=text, capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, IndexError, subprocess.SubprocessError):
        return None
    found = re.search(r"SHA256:\S+", shown.stdout)
    return found.group(0) if found else None
