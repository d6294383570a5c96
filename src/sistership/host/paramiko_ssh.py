"""Hosts behind ssh for machines without an ssh program: one connection by paramiko, a channel for each script."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import paramiko

from sistership.errors import HostUnreachableError, SistershipError
from sistership.host.ended import CUT_HINT, cut, forwards_nothing, shell_ended, silent, stopped
from sistership.host.filepart import FilePart, OpenPart
from sistership.host.lines import Line
from sistership.host.login import Link, open_link
from sistership.host.process import CHUNK, PIECE, pieces
from sistership.host.settings import resolve
from sistership.host.transport import STALL, Completed, Frame, Input, Sink, Unframe
from sistership.host.watch import Tail, Watch, over_limit

#: Seconds for a session to come up over a connection that is open already.
_PATIENCE = 30
#: What paramiko keeps free in each packet for what is not data.
_PACKET_HEAD = 64
_PROHIBITED = 1  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED (RFC 4254, 5.1)
_NO_STATUS = -1  # paramiko's word for a channel that closed without one


class ParamikoSSH:
    """A host behind ssh, reached without an ssh program.

    What the user's ssh_config asks for and this cannot do is refused, never guessed (see sshconfig).

    Args:
        host: its name in the inventory.
        destination: an alias of ssh_config, `user@host` or a name.
        config: an ssh_config to use instead of the user's own.
    """

    def __init__(self, host: str, destination: str, config: Path | None = None) -> None:
        self.host = host
        self._destination = destination
        self._config = config
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._closed = threading.Event()

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
        with stdin.opened() if isinstance(stdin, FilePart) else contextlib.nullcontext(stdin) as data:
            return self._run(script, data, sink, timeout, stall)

    def _run(
        self,
        script: str,
        data: bytes | Iterable[bytes] | OpenPart | None,
        sink: Sink | None,
        timeout: float | None,
        stall: float | None,
    ) -> Completed:
        frame, tail, errors = Frame.fresh(), Tail(), list[BaseException]()
        kept: list[bytes] = []
        unframe = Unframe(frame, sink or kept.append)
        channel = self._channel()
        watch = Watch(partial(_end, channel), timeout=timeout, stall=None if data is None else stall)
        try:
            with watch:
                channel.exec_command(frame.command(script))
                listener = threading.Thread(target=_listen, args=(channel, tail), daemon=True)
                listener.start()
                # Nobody waits for this one, as in Processes.run.
                threading.Thread(target=_feed, args=(channel, data, watch, errors), daemon=True).start()
                while chunk := channel.recv(CHUNK):
                    watch.moved()
                    unframe.feed(chunk)
                listener.join()
                status = channel.recv_exit_status()
        except (paramiko.SSHException, EOFError) as error:
            if watch.cause:
                raise over_limit(self.host, watch.cause, timeout, stall) from None
            raise stopped(self.host) if self._closed.is_set() else cut(self.host, str(error)) from None
        finally:
            _end(channel)
        if errors:
            raise errors[0]
        if (answer := unframe.finish()) is not None:
            return Completed(answer, b"".join(kept), tail.text)
        if watch.cause:
            raise over_limit(self.host, watch.cause, timeout, stall)
        raise self._unfinished(status, unframe, tail.text)

    def _unfinished(self, status: int, unframe: Unframe, err: str) -> SistershipError:
        """Why there is no exit status, though no limit was passed."""
        if self._closed.is_set():
            return stopped(self.host)
        return cut(self.host, err) if status == _NO_STATUS else shell_ended(self.host, status, unframe, err)

    def _channel(self) -> paramiko.Channel:
        link = self._connected()
        try:
            return link.transport.open_session(timeout=_PATIENCE)
        except paramiko.ChannelException as error:
            hint = f"MaxSessions of its sshd? {CUT_HINT}"
            raise HostUnreachableError(
                "it takes no further session", where=self.host, why=str(error), hint=hint
            ) from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            link.close()
            raise silent(self.host, str(error) or "the connection is gone") from None

    def _connected(self) -> Link:
        """The connection; a new one when there is none, or the last one was cut."""
        with self._lock:
            if self._closed.is_set():
                raise stopped(self.host)
            if self._link is None or not self._link.alive:
                self._link = open_link(resolve(self.host, self._destination, self._config), self._config)
            if self._closed.is_set():
                self._link.close()
            return self._link

    @contextlib.contextmanager
    def dial(self, port: int) -> Iterator[Line]:
        """See Transport.dial."""
        here = ("127.0.0.1", 0)
        try:
            channel = self._connected().transport.open_channel(
                "direct-tcpip", ("127.0.0.1", port), here, timeout=_PATIENCE
            )
        except paramiko.ChannelException as error:
            if error.code == _PROHIBITED:
                raise forwards_nothing(self.host) from None
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused") from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise silent(self.host, str(error) or "the connection is gone") from None
        with contextlib.closing(channel):
            yield _Channel(channel)

    def close(self) -> None:
        """End what still runs and the connection; later scripts are refused."""
        self._closed.set()
        # Not under the lock: who holds it may be waiting for a host that does not answer.
        if link := self._link:
            link.close()


class _Channel:
    """A channel as a line: what it was closed for is an end, as with a socket."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self.recv = channel.recv
        self.settimeout = channel.settimeout

    def sendall(self, data: bytes, /) -> None:
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise
        except OSError as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None


def _listen(channel: paramiko.Channel, tail: Tail) -> None:
    while chunk := channel.recv_stderr(PIECE):
        tail.add(chunk)


def _feed(
    channel: paramiko.Channel,
    data: bytes | Iterable[bytes] | OpenPart | None,
    watch: Watch,
    errors: list[BaseException],
) -> None:
    # A packet's worth at a time: of a larger piece paramiko copies what is left each time it has sent a packet of it,
    # and the odd end of each costs as much as a whole packet.
    size = min(channel.out_max_packet_size - _PACKET_HEAD, PIECE)
    try:
        for piece in data.pieces(size) if isinstance(data, OpenPart) else pieces(data or b"", size):
            watch.offer()
            channel.sendall(bytes(piece))
            watch.taken()
        channel.shutdown_write()
    except (OSError, EOFError):
        pass  # the channel is gone: its status and words say why
    except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, which raises it
        errors.append(error)
        _end(channel)


def _end(channel: paramiko.Channel) -> None:
    """Close a channel; over a connection that is gone even that fails."""
    with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
        channel.close()
