"""An ssh server in this process, for tests of the transport that needs no ssh program."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import paramiko


@dataclass
class Server:
    """A server on loopback that runs what it is told with `sh -c`.

    Attributes:
        accepted: public blobs that may log in.
        offered: blobs that were tried, in order.
        behave: what becomes of a command: "run", "cut" (the connection ends in the middle),
            "stall" (input is never read), "refuse" (no session), "mute" (no answer to a session).
        logins: connections that came up.
    """

    port: int
    host_key: paramiko.PKey
    accepted: set[bytes] = field(default_factory=set)
    offered: list[bytes] = field(default_factory=list)
    behave: str = "run"
    logins: int = 0
    transports: list[paramiko.Transport] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sessions: list[threading.Thread] = field(default_factory=list)

    @property
    def known(self) -> str:
        """Its line of known_hosts."""
        return f"[127.0.0.1]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"


class _Session(paramiko.ServerInterface):
    def __init__(self, server: Server, transport: paramiko.Transport) -> None:
        self._server = server
        self._transport = transport

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        blob = key.asbytes()
        if blob not in self._server.offered:
            self._server.offered.append(blob)
        return paramiko.AUTH_SUCCESSFUL if blob in self._server.accepted else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if self._server.behave == "mute":
            self._server.over.wait(10)
        if self._server.behave == "refuse":
            return paramiko.OPEN_FAILED_RESOURCE_SHORTAGE
        return paramiko.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        if self._server.behave == "prohibit":
            return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        try:
            onward = socket.create_connection(destination, 5)
        except ConnectionRefusedError:
            return paramiko.OPEN_FAILED_CONNECT_FAILED
        threading.Thread(target=_forward, args=(self._transport, chanid, onward), daemon=True).start()
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        thread = threading.Thread(target=self._run, args=(channel, command), daemon=True)
        self._server.sessions.append(thread)
        thread.start()
        return True

    def _run(self, channel: paramiko.Channel, command: bytes) -> None:
        if self._server.behave == "stall":
            return
        process = subprocess.Popen(
            ["sh", "-c", command],
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._server.processes.append(process)
        assert process.stdin
        assert process.stdout
        assert process.stderr
        threads = [
            threading.Thread(target=_pump_in, args=(channel, process.stdin), daemon=True),
            threading.Thread(target=_pump, args=(process.stderr.fileno(), channel.sendall_stderr), daemon=True),
        ]
        for thread in threads:
            thread.start()
        _pump(process.stdout.fileno(), self._cutting(channel) if self._server.behave == "cut" else channel.sendall)
        threads[1].join()
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(process.wait() % 256)
            channel.close()

    def _cutting(self, channel: paramiko.Channel):
        def send(data: bytes) -> None:
            channel.sendall(data[:60])
            self._transport.close()
            raise OSError("cut")

        return send


def _pump(descriptor: int, send) -> None:
    # A client that is gone shows as either, in whichever thread sends next.
    with contextlib.suppress(OSError, EOFError):
        while data := os.read(descriptor, 32_768):
            send(data)


def _pump_in(channel: paramiko.Channel, pipe) -> None:
    with contextlib.suppress(OSError, EOFError):
        while data := channel.recv(32_768):
            pipe.write(data)
    with contextlib.suppress(OSError):
        pipe.close()


def _forward(transport: paramiko.Transport, chanid: int, onward: socket.socket) -> None:
    channel = transport.accept(5)
    assert channel

    def back() -> None:
        with contextlib.suppress(OSError):
            while data := onward.recv(32_768):
                channel.sendall(data)
        channel.close()

    threading.Thread(target=back, daemon=True).start()
    with contextlib.suppress(OSError, EOFError):
        while data := channel.recv(32_768):
            onward.sendall(data)
    onward.close()


def new_key(path: Path) -> paramiko.PKey:
    """A fresh ed25519 key in a file, with its `.pub`."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return paramiko.PKey.from_path(path)


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A running server with a fresh host key."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener.getsockname()[1], new_key(folder / "host_key"))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                transport = paramiko.Transport(connection)
                transport.set_log_channel("sistership.paramiko")
                transport.add_server_key(server.host_key)
                server.transports.append(transport)
                server.logins += 1
                with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                    transport.start_server(server=_Session(server, transport))

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for transport in server.transports:
            transport.close()
        for process in server.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)
        for session in server.sessions:
            session.join(5)
        for process in server.processes:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        thread.join(5)
