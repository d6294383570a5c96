"""Connections to a port of a host's loopback: carried by a program, by paramiko, or this machine's own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from sistership.errors import HostUnreachableError
from sistership.host.lines import through, to_local
from sistership.host.local import Local

REFUSED = "channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed"


@pytest.fixture
def port() -> Iterator[int]:
    """A port that answers one connection with what it is sent, in capitals."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            line, _ = listener.accept()
            with line:
                line.sendall(line.recv(100).upper())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def closed() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def failure(said: str) -> Exception:
    """What the way says of a program that failed."""
    return HostUnreachableError("no connection", why=said.strip())


def test_of_this_machine(port: int) -> None:
    """A socket, over the transport of a host that is this machine."""
    with Local("here").dial(port) as line:
        line.settimeout(5)
        line.sendall(b"abc")
        assert line.recv(10) == b"ABC"
    with pytest.raises(ConnectionRefusedError), to_local(closed()):
        pass


def test_carried_by_a_program(port: int) -> None:
    """What it reads and writes is the connection; it ends with the block although it would go on."""
    program = ["sh", "-c", "tr a-z A-Z; sleep 60"]
    with through(["sh", "-c", "head -c 3 | tr a-z A-Z"], failure) as line:
        line.settimeout(5)
        line.sendall(b"abc")
        assert line.recv(10) == b"ABC"
    with through(program, failure) as line:
        line.sendall(b"abc")
    with to_local(port) as line:
        line.sendall(b"x")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (REFUSED, ConnectionRefusedError),
        (f"{REFUSED}\nkex_exchange_identification: Connection closed by remote host", HostUnreachableError),
        ("ssh: Could not resolve hostname x", HostUnreachableError),
    ],
)
def test_program_that_gives_up(said: str, error: type[Exception]) -> None:
    """Its words tell a port where nobody listens from a host that is not reached."""
    with pytest.raises(error):
        assert _read(f"printf '%s\\n' '{said}' >&2; exit 255") == b""


@pytest.mark.parametrize(("said", "error"), [(REFUSED, ConnectionRefusedError), ("", ConnectionError)])
def test_what_breaks_off_is_told_in_the_programs_words(said: str, error: type[Exception]) -> None:
    """The far end was refused before the first byte was sent; a program that says nothing leaves the plain error."""
    with pytest.raises(error):
        _sent(f"exec <&- >&-; printf '%s' '{said}' >&2; exit {255 if said else 0}")


def test_program_of_the_program_is_ended_too() -> None:
    """A proxy command holds the output open for a minute; nobody waits for it."""
    began = time.monotonic()
    with through(["sh", "-c", "sleep 60 >&2 & echo begun; exec sleep 60"], failure) as line:
        line.settimeout(5)
        assert line.recv(10) == b"begun\n"
    assert time.monotonic() - began < 4


def _sent(script: str) -> None:
    """Send until it breaks."""
    with through(["sh", "-c", script], failure) as line:
        for _ in range(1000):
            line.sendall(bytes(1 << 16))


def _read(script: str) -> bytes:
    """What comes through a program of the shell."""
    with through(["sh", "-c", script], failure) as line:
        line.settimeout(5)
        return line.recv(10)


def test_program_that_is_not_there() -> None:
    """No ssh on this machine."""
    with pytest.raises(FileNotFoundError), through(["no-such-program"], failure):
        pass
