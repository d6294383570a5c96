"""The way from a server's host to a worker's: the system's ssh there, loopback at both ends, one control socket each.

It is opened, asked for and closed by scripts on the server's host, with that host's own ssh configuration and keys.
Its socket says whose it is: a port that something else holds is never taken for ours, and never closed by us.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sistership.errors import HostUnfitError, HostUnreachableError, SistershipError
from sistership.host.inventory import Peer
from sistership.host.transport import quote

#: Exit statuses of the scripts.
_FAILED, _FOREIGN = 7, 8
#: Seconds for ssh to connect and to open the port.
_PATIENCE = 40
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


class State(StrEnum):
    """Whether a tunnel is there, and whose it is."""

    UP = "up"
    DOWN = "down"
    STALE = "a tunnel of an earlier run is left over, and dead"
    FOREIGN = "its port is held by something else"


@dataclass(frozen=True)
class Tunnel:
    """A port of the server's host that leads to a worker.

    Args:
        name: begins its socket's name; small letters, digits, `.`, `_` and `-`, 40 at most. Where it leads is in that
            name too, so that one that leads elsewhere is never taken for it.
        destination: the worker's host as ssh on the server's host is given it.
        local: port on the server's host.
        remote: the worker's port on its own host.

    Raises:
        ValueError: the name is none.
    """

    name: str
    destination: str
    local: int
    remote: int

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot name a tunnel")

    @property
    def socket(self) -> str:
        """Its socket's name."""
        way = f"{self.local} {self.destination} {self.remote}"
        return f"{self.name[:20]}.{hashlib.sha256(way.encode()).hexdigest()[:12]}"


#: `$socket` and `control`. The folder outlives a login, as $XDG_RUNTIME_DIR does not; a socket's path is short.
_BEGIN: Final = """\
name={name}
folder=${{XDG_CACHE_HOME:-$HOME/.cache}}/sistership/tunnels
[ ${{#folder}} -le 40 ] || folder=/tmp/sistership-$(id -u)
mkdir -p "$folder" && chmod 700 "$folder" || exit {failed}
socket=$folder/$name
control() {{ ssh -o BatchMode=yes -S "$socket" -O "$1" -- {destination} 2>/dev/null </dev/null; }}
listens() {{
  grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf '%04X' {local}) [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null
}}
look() {{
  if [ -S "$socket" ] && control check; then echo up
  elif listens; then echo foreign
  elif [ -e "$socket" ]; then echo stale
  else echo down; fi
}}
"""
_OPEN: Final = """\
state=$(look)
[ "$state" != up ] || exit 0
[ "$state" != foreign ] || exit {foreign}
rm -f "$socket"
# What ssh -f leaves behind keeps its output: here that would keep our own connection open.
ssh -f -N -M -S "$socket" -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=10 \
  -o ExitOnForwardFailure=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3 -o ControlPersist=no \
  -o ClearAllForwardings=no -o PermitLocalCommand=no -o Compression=no \
  -L 127.0.0.1:{local}:127.0.0.1:{remote} -- {destination} </dev/null >/dev/null 2>"$socket.log" ||
  {{ cat "$socket.log"; rm -f "$socket.log"; exit {failed}; }}
"""
_CLOSE: Final = """\
if [ -S "$socket" ] && control check; then control exit; fi
rm -f "$socket" "$socket.log"
rmdir "$folder" 2>/dev/null
true
"""


def script(tunnel: Tunnel, body: str) -> str:
    """One of the bodies above for a tunnel."""
    values = {
        "name": quote(tunnel.socket),
        "destination": quote(tunnel.destination),
        "local": tunnel.local,
        "remote": tunnel.remote,
        "failed": _FAILED,
        "foreign": _FOREIGN,
    }
    return (_BEGIN + body).format(**values)


def state(peer: Peer, tunnel: Tunnel) -> State:
    """Whether it is there.

    Args:
        peer: the server's host.

    Raises:
        HostUnreachableError: that host does not answer.
        HostUnfitError: it has no folder for the socket.
    """
    done = peer.transport.run(script(tunnel, "look\n"), timeout=_PATIENCE)
    if done.status != 0:
        raise HostUnfitError("it has no folder for a tunnel's socket", where=peer.name, why=done.err.strip()[-200:])
    return State[done.text.strip().upper()]


def open_tunnel(peer: Peer, tunnel: Tunnel) -> None:
    """Open it; one of ours that is up stays, and one that is dead is made anew.

    That it leads to a worker is not said: ssh accepts a connection before anyone listens at its other end.

    Raises:
        HostUnreachableError: the server's host does not answer, or does not get to the worker's.
        HostUnfitError: its port is held by something else, or a forwarding is refused.
    """
    done = peer.transport.run(script(tunnel, _OPEN), timeout=_PATIENCE)
    if done.status == _FOREIGN:
        raise HostUnfitError(
            f"port {tunnel.local} of its loopback is held by something else",
            where=peer.name,
            hint=f"`ss -ltnp 'sport = :{tunnel.local}'` there names it; end it, or give the worker another port",
        )
    if done.status != 0:
        raise _not_opened(peer, tunnel, done.text.strip() or done.err.strip())


def close_tunnel(peer: Peer, tunnel: Tunnel) -> None:
    """Close it and leave nothing behind; what is not ours stays as it is.

    Raises:
        HostUnreachableError: the server's host does not answer.
    """
    peer.transport.run(script(tunnel, _CLOSE), timeout=_PATIENCE)


def _not_opened(peer: Peer, tunnel: Tunnel, said: str) -> SistershipError:
    last = said.splitlines()[-1][:200] if said else None
    what = f"no tunnel to {tunnel.destination} can be opened there"
    if re.search(r"cannot listen to port|Address already in use|forwarding failed|Could not request", said):
        return HostUnfitError(what, where=peer.name, why=last, hint="give the worker another port")
    return HostUnreachableError(
        what,
        where=peer.name,
        why=last,
        hint=f"on {peer.name}, `ssh {tunnel.destination} true` has to work without a question: key, known host, name",
    )
