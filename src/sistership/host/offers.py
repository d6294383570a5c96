"""Which keys are offered to a host, in ssh's order: from an agent, from files."""

from __future__ import annotations

import base64
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from sistership.host.settings import Settings


class _Agent(AgentSSH):
    """An agent at a socket of its own; paramiko's looks at one variable only (paramiko/paramiko#2315)."""

    def __init__(self, path: str) -> None:
        super().__init__()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
            self._connect(connection)  # type: ignore[attr-defined]
        except (OSError, paramiko.SSHException):
            connection.close()
            raise

    def close(self) -> None:
        """Give the socket back."""
        self._close()  # type: ignore[attr-defined]


def offers(settings: Settings, stack: contextlib.ExitStack, notes: list[str]) -> Iterator[paramiko.PKey]:
    """Keys in ssh's order: those of the agent that a file names, the agent's others, then files alone.

    With IdentitiesOnly the agent signs for keys that a file names, and for no other.
    """
    held: dict[bytes, paramiko.PKey] = {}
    if settings.agent:
        try:
            agent = _Agent(settings.agent)
        except (OSError, paramiko.SSHException) as error:
            notes.append(f"the agent at {settings.agent} does not answer ({error})")
        else:
            stack.callback(agent.close)
            held = {key.asbytes(): key for key in agent.get_keys()}
    public = {file: blob for file in settings.keys if (blob := public_blob(file))}
    yield from (held[blob] for blob in dict.fromkeys(public.values()) if blob in held)
    if not settings.only:
        yield from (key for blob, key in held.items() if blob not in public.values())
    for file in settings.keys:
        if public.get(file) not in held and file.is_file():
            key = _load(file, notes)
            if key is not None and key.asbytes() not in held:
                yield key


def public_blob(file: Path) -> bytes | None:
    """The public half of a key file, from the `.pub` beside it or from the file itself; None when neither has it."""
    for path in (file, file.with_name(f"{file.name}.pub")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = path.read_text().split()
            if words[0].startswith(("ssh-", "ecdsa-", "sk-")):
                return base64.b64decode(words[1])
    return None


def _load(file: Path, notes: list[str]) -> paramiko.PKey | None:
    try:
        return paramiko.PKey.from_path(file)
    except (paramiko.PasswordRequiredException, TypeError):
        # Nobody sits there to type a passphrase.
        notes.append(f"{file} has a passphrase; load it into an agent: ssh-add")
    except (paramiko.SSHException, UnknownKeyType, ValueError, OSError) as error:
        notes.append(f"{file} cannot be used ({type(error).__name__}: {error})")
    return None
