"""The system's ssh: the user's whole ssh_config, agents, jump hosts and hardware keys work as they do by hand."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from sistership.errors import HostUnfitError, HostUnreachableError, SistershipError
from sistership.host.ciphers import preferred
from sistership.host.ended import CUT, CUT_HINT, cut, forwards_nothing, shell_ended, stopped
from sistership.host.lines import Line, through
from sistership.host.process import Ended, Processes
from sistership.host.settings import missing_config
from sistership.host.transport import STALL, Completed, Frame, Input, Sink, Unframe
from sistership.host.watch import over_limit

#: A socket's path has 104 bytes on BSD and macOS, 108 on Linux, and ssh appends up to 17 while it makes one.
_SOCKET_LIMIT = 103 - 17
#: ssh's own exit status when it, and not the command, failed.
_SSH_FAILED = 255
#: ssh itself was ended by a signal.
_KILLED = range(-64, 0)
_HASH = 40  # %C is a SHA-1 in hex: host, port, user and jump host


def control_path(folder: str) -> str | None:
    """ControlPath below `folder`, or None when a socket there would have too long a name.

    `%C` is as long for every host, so a long host or user name never breaks a ship.
    """
    return f"{folder}/%C" if len(os.fsencode(folder)) + 1 + _HASH <= _SOCKET_LIMIT else None


def argv(
    destination: str,
    command: str,
    *,
    config: Path | None,
    control: str | None,
    ciphers: Sequence[str] = (),
    forward: int | None = None,
) -> list[str]:
    """The ssh command line for one script.

    Strict host keys always; no question is ever asked (BatchMode), since nobody sits there to answer;
    a dead peer is noticed within about a minute. Never compressed: layers are packed already, and ssh's zlib
    would hold them to about 30 MB/s.

    Args:
        ciphers: a list instead of ssh's own or the user's.
        forward: a port of the host's loopback, which standard input and output lead to in place of a command's.
    """
    words = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10"]
    words += ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]
    words += ["-o", "ClearAllForwardings=yes", "-o", "RequestTTY=no", "-o", "RemoteCommand=none"]
    words += ["-o", "Compression=no"]
    if ciphers:
        words += ["-o", f"Ciphers={','.join(ciphers)}"]
    if config:
        words += ["-F", str(config)]
    if control:
        words += ["-o", "ControlMaster=auto", "-o", f"ControlPath={control}", "-o", "ControlPersist=120"]
    else:
        words += ["-o", "ControlPath=none"]
    if forward is not None:
        # At a lower level, which the user's file may set, ssh does not say that nobody listens.
        return [*words, "-o", "LogLevel=INFO", "-W", f"127.0.0.1:{forward}", "--", destination]
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
        self._reached = False

    def run(
        self,
        script: str,
        *,
        stdin: Input | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
        stall: float | None = STALL,
    ) -> Completed:
        """See Transport.run."""
        if self._config and not self._config.is_file():
            raise missing_config(self.host, self._config)
        frame = Frame.fresh()
        kept: list[bytes] = []
        unframe = Unframe(frame, sink or kept.append)
        try:
            command = argv(
                self._destination,
                frame.command(script),
                config=self._config,
                control=self._control,
                ciphers=self._ciphers,
            )
            ended = self._processes.run(command, stdin=stdin, sink=unframe.feed, timeout=timeout, stall=stall)
        except FileNotFoundError:
            raise HostUnfitError(
                "there is no ssh program on this machine",
                where=self.host,
                hint="apt-get install openssh-client, or write transport: paramiko for this host in the matrix",
            ) from None
        status = unframe.finish()
        if status is None and ended.cause:
            raise over_limit(self.host, ended.cause, timeout, stall)
        if status is None:
            raise stopped(self.host) if self._processes.closed else self._unfinished(ended, unframe)
        self._reached = True
        return Completed(status, b"".join(kept), ended.err)

    def dial(self, port: int) -> AbstractContextManager[Line]:
        """See Transport.dial.

        By a connection of its own: over the shared one, ssh does not tell a port where nobody listens from an sshd
        that forwards nothing.
        """
        command = argv(self._destination, "", config=self._config, control=None, forward=port)
        return through(command, self._not_forwarded)

    def _not_forwarded(self, said: str) -> SistershipError:
        if "administratively prohibited" in said:
            return forwards_nothing(self.host)
        return refusal(self.host, self._destination, said)

    @cached_property
    def _ciphers(self) -> tuple[str, ...]:
        """Asked for once; two threads that ask at once get the same answer."""
        return preferred(self._ask, self._destination, self._config)

    def _ask(self, command: Sequence[str]) -> str:
        kept: list[bytes] = []
        self._processes.run(command, stdin=None, sink=kept.append, timeout=5)
        return b"".join(kept).decode(errors="replace")

    def _unfinished(self, ended: Ended, unframe: Unframe) -> SistershipError:
        """Why there is no exit status, though no limit was passed."""
        own = ended.status in (_SSH_FAILED, *_KILLED)
        # A script that begins while the shared connection dies ends without a word.
        lost = self._reached and not ended.err.strip()
        if own and not unframe.opened and not lost:
            return refusal(self.host, self._destination, ended.err)
        return cut(self.host, ended.err) if own else shell_ended(self.host, ended.status, unframe, ended.err)

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
        r"^\S+: Permission denied \([\w,@.-]+\)",
        "it refuses our keys",
        "try `ssh {dest}` by hand; load the key: ssh-add, or set IdentityFile in ssh_config",
    ),
    (
        r"^ssh: Could not resolve hostname",
        "the name is not known",
        "check `ssh:` of the host in the matrix, and HostName in ssh_config",
    ),
    (
        r"^(ssh|channel)\b.*Connection refused",
        "nothing listens on its ssh port",
        "is sshd running there? is Port right in ssh_config?",
    ),
    (
        r"^(ssh|channel|Connection)\b.*(timed out|No route to host|unreachable)",
        "it does not answer",
        "is the machine on? does `ssh {dest}` work?",
    ),
    (
        r"^No \S+ host key is known|^Host key verification failed",
        "its host key is not known here",
        "compare the fingerprint on the machine, then log in once by hand: ssh {dest}",
    ),
    (
        r"^(Connection|client_loop|kex_|mux_|Read from|send|ssh_|Timeout).*(closed by|[Bb]roken|reset|not responding)",
        CUT,
        CUT_HINT,
    ),
)


def refusal(host: str, destination: str, err: str) -> HostUnreachableError:
    """Why ssh gave up, in the user's words, from what it printed."""
    if re.search(r"REMOTE HOST IDENTIFICATION HAS CHANGED", err):
        return _host_key_changed(host, err)
    # ssh speaks last; what stands before may be the host's own banner.
    lines = [line.strip() for line in err.splitlines() if line.strip()][-6:]
    for pattern, what, hint in _CAUSES:
        line = next((line for line in lines if re.search(pattern, line)), None)
        if line is not None:
            return HostUnreachableError(what, where=host, why=line, hint=hint.format(dest=destination))
    last = lines[-1] if lines else "ssh ended without a word"
    return HostUnreachableError("no connection", where=host, why=last, hint=f"try it by hand: ssh {destination}")


def _host_key_changed(host: str, err: str) -> HostUnreachableError:
    sent = re.search(r"SHA256:\S+", err)
    offending = re.search(r"Offending (\S+) key in (.+?):(\d+)", err)
    known = _fingerprint(offending.group(2), int(offending.group(3))) if offending else None
    # ssh itself says how to forget the key, with the name it is filed under ([10.0.0.7]:2222).
    own = re.search(r"ssh-keygen -f .+", err)
    fix = own.group(0).strip() if own else f"remove it from {offending.group(2) if offending else 'known_hosts'}"
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
