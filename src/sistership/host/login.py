"""A connection by paramiko: strict host keys, the keys that ssh would offer, jumps from host to host."""

from __future__ import annotations

import contextlib
import logging
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import paramiko

from sistership.errors import HostUnreachableError
from sistership.host import knownhosts
from sistership.host.ended import silent
from sistership.host.offers import offers
from sistership.host.settings import Settings, allowed, resolve

#: The fastest first (measured on loopback); the rest as paramiko has them.
_CIPHERS: Final = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
_RSA: Final = ("rsa-sha2-512", "rsa-sha2-256")
#: Seconds after which a dead link is noticed: a keepalive each 15, and what is sent must be acknowledged within 60.
_KEEPALIVE: Final = 15
_DEAD: Final = 60
_CHANNEL: Final = "sistership.paramiko"

# paramiko writes tracebacks to its log, which Python shows on stderr where nobody takes it.
logging.getLogger(_CHANNEL).addHandler(logging.NullHandler())
logging.getLogger(_CHANNEL).propagate = False
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Link:
    """An open, authenticated connection, and the one that it runs through."""

    transport: paramiko.Transport
    below: Link | None = None

    @property
    def alive(self) -> bool:
        """Whether a script can be started over it."""
        return self.transport.is_active() and (self.below is None or self.below.alive)

    def close(self) -> None:
        """End it, and what it runs through."""
        # Through a jump host that is gone, even closing writes and fails.
        with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
            self.transport.close()
        if self.below:
            self.below.close()


def open_link(settings: Settings, file: Path | None, *, below: Link | None = None, depth: int = 0) -> Link:
    """Connect and log in.

    Args:
        settings: of the destination.
        file: the ssh_config that jump hosts are looked up in too.
        below: go through this connection.
        depth: how many jump hosts lead here, to end circles.

    Raises:
        HostUnreachableError: no connection, an unknown or changed host key, or no key that it accepts.
        HostUnfitError: the configuration asks for something that cannot be honoured.
    """
    if depth > 8:  # noqa: PLR2004 - nobody jumps that far
        raise settings.config.refuse("a circle of ProxyJump", None)
    if below is None:
        for jump in settings.jumps:
            # The first jump may itself have a ProxyJump; those after it are reached through the one before.
            hop = resolve(settings.host, jump, file)
            below = open_link(hop, file, below=below, depth=depth + 1)
    try:
        transport = _negotiate(settings, _socket(settings, below))
        try:
            _check_host_key(settings, transport)
            _log_in(settings, transport)
        except BaseException:
            transport.close()
            raise
    except BaseException:
        if below:
            below.close()
        raise
    return Link(transport, below)


def _unreachable(settings: Settings, what: str, why: object, hint: str) -> HostUnreachableError:
    text = str(why) or type(why).__name__
    return HostUnreachableError(what, where=settings.host, why=f"{_shown(settings)}: {text}", hint=hint)


def _shown(settings: Settings) -> str:
    return f"{settings.user}@{knownhosts.entry(settings.hostname, settings.port)}"


def _socket(settings: Settings, below: Link | None) -> Any:
    if below:
        target = (settings.hostname, settings.port)
        try:
            return below.transport.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=settings.timeout)
        except paramiko.SSHException as error:
            hint = "does that host let connections through (AllowTcpForwarding), and does it reach this one?"
            raise _unreachable(settings, "its jump host does not get through to it", error, hint) from None
    try:
        return _dial(settings)
    except socket.gaierror as error:
        hint = "check `ssh:` of the host in the matrix, and HostName in ssh_config"
        raise _unreachable(settings, "the name is not known", error, hint) from None
    except ConnectionRefusedError as error:
        hint = "is sshd running there? is Port right in ssh_config?"
        raise _unreachable(settings, "nothing listens on its ssh port", error, hint) from None
    except OSError as error:
        raise silent(settings.host, f"{_shown(settings)}: {error}") from None


def _dial(settings: Settings) -> socket.socket:
    found = socket.getaddrinfo(settings.hostname, settings.port, settings.family, socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found, start=1):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(settings.timeout)
            connection.connect(address)
        except OSError:
            connection.close()
            if number == len(found):
                raise
            continue
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD * 1000)
        return connection
    raise OSError("no address")


def _negotiate(settings: Settings, connection: Any) -> paramiko.Transport:
    """Agree on algorithms over an open socket, which is closed when that fails."""
    try:
        transport = paramiko.Transport(connection)
        transport.set_log_channel(_CHANNEL)
        transport.banner_timeout = transport.auth_timeout = settings.timeout
        _choose_algorithms(settings, transport.get_security_options())
        transport.start_client(timeout=settings.timeout)
        transport.get_remote_server_key()  # start_client says nothing when its time is over; this does
        transport.set_keepalive(_KEEPALIVE)
    except BaseException as error:
        connection.close()
        if isinstance(error, (paramiko.SSHException, EOFError, OSError)):
            hint = "is it really an ssh server on that port, with algorithms of this decade?"
            raise _unreachable(settings, "no ssh connection came up", error, hint) from None
        raise
    return transport


def _choose_algorithms(settings: Settings, options: paramiko.SecurityOptions) -> None:
    known_types = [kind for kind, _, _ in _known(settings).keys]
    # A key of a kind that is known comes first; asking for another one would look like a changed key.
    wanted = [name for kind in known_types for name in (_RSA if kind == "ssh-rsa" else (kind,))]
    key_types = [*(name for name in wanted if name in options.key_types), *options.key_types]
    ciphers = [*(name for name in _CIPHERS if name in options.ciphers), *options.ciphers]
    ours = {"ciphers": ciphers, "digests": options.digests, "kex": options.kex, "key_types": key_types}
    for kind, names in ours.items():
        left = allowed(tuple(dict.fromkeys(names)), settings.algorithms.get(kind))
        if not left:
            raise settings.config.refuse(f"the list of {kind.replace('_', ' ')}", settings.algorithms[kind])
        setattr(options, kind, left)


def _name(settings: Settings) -> str:
    return settings.alias or knownhosts.entry(settings.hostname, settings.port)


def _known(settings: Settings) -> knownhosts.Known:
    return knownhosts.lookup(settings.known, _name(settings))


def _check_host_key(settings: Settings, transport: paramiko.Transport) -> None:
    shown = transport.get_remote_server_key().asbytes()
    known, name = _known(settings), _name(settings)
    print_shown = knownhosts.fingerprint(shown)
    if shown in known.revoked:
        what, why = "its host key is revoked; nothing was sent", f"{name} shows {print_shown}"
        raise HostUnreachableError(what, where=settings.host, why=why, hint="ask whoever runs that machine")
    if any(blob == shown for _, blob, _ in known.keys):
        return
    if known.keys:
        _, blob, where = next((key for key in known.keys if key[0] == _kind(shown)), known.keys[0])
        file = where.rpartition(":")[0]
        raise HostUnreachableError(
            "its host key changed; nothing was sent",
            where=settings.host,
            why=f"it shows {print_shown}, known is {knownhosts.fingerprint(blob)} ({where})",
            hint=f"was it installed anew? then forget the old key: ssh-keygen -f '{file}' -R '{name}'",
        )
    if known.authorities:
        line = f"{known.authorities[0]}: @cert-authority"
        raise settings.config.refuse("a host certificate", line)
    raise HostUnreachableError(
        "its host key is not known here",
        where=settings.host,
        why=f"{name} shows {print_shown}",
        hint=f"compare it on the machine, then add `{name} KEY` to {settings.known[0] if settings.known else 'a file'}",
    )


def _kind(blob: bytes) -> str:
    return blob[4 : 4 + int.from_bytes(blob[:4])].decode(errors="replace")


def _log_in(settings: Settings, transport: paramiko.Transport) -> None:
    tried: list[str] = []
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        for key in offers(settings, stack, notes):
            if not _acceptable(settings, key):
                continue
            tried.append(knownhosts.fingerprint(key.asbytes()))
            try:
                missing = transport.auth_publickey(settings.user, key)
            except paramiko.BadAuthenticationType as error:
                raise _refused(settings, f"it takes {', '.join(error.allowed_types)} only", notes) from None
            except paramiko.AuthenticationException:
                continue
            except (paramiko.SSHException, EOFError, OSError) as error:
                why = f"{str(error) or 'it closed the connection'} after {len(tried)} keys"
                raise _refused(settings, why, notes) from None
            if missing:
                raise _refused(settings, f"after the key it also wants {', '.join(missing)}", notes)
            return
    raise _refused(settings, f"it took none of {', '.join(tried)}" if tried else "there is no key to offer", notes)


def _acceptable(settings: Settings, key: paramiko.PKey) -> bool:
    """Whether PubkeyAcceptedAlgorithms leaves a way to sign with this key."""
    ways = _RSA if key.get_name() == "ssh-rsa" else (key.get_name(),)
    return bool(allowed(ways, settings.algorithms.get("pubkeys")))


def _refused(settings: Settings, why: str, notes: list[str]) -> HostUnreachableError:
    return _unreachable(
        settings,
        "it refuses our keys",
        "; ".join([why, *notes]),
        "load the right key into the agent, or name it by IdentityFile in ssh_config; is User right?",
    )
