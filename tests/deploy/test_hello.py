"""A worker's port asked by its own protocol: real sockets, and everything that a port may do instead of answering."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from sistership.deploy.hello import Answer, State, Version, ask
from sistership.host.lines import to_local

ABILITIES = bytes(24)
SINCE_4 = b"\x0e" + (24).to_bytes(8, "little") + ABILITIES
BEFORE_4 = b"\x0e" + bytes(8)


@contextlib.contextmanager
def worker(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port whose every connection is served so, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    line, _ = listener.accept()
                    with line, contextlib.suppress(OSError):
                        serve(line)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def read(line: socket.socket, size: int) -> bytes:
    """So many bytes, or what comes before the end."""
    got = b""
    while len(got) < size and (chunk := line.recv(size - len(got))):
        got += chunk
    return got


def say(body: bytes) -> bytes:
    """An answer on the wire."""
    return len(body).to_bytes(8, "little") + body


def of_version_4(line: socket.socket) -> None:
    """Takes 24 bytes of abilities, and answers with its own."""
    if read(line, len(SINCE_4)) == SINCE_4:
        line.sendall(say(bytes([4, 0, 1, 0]) + ABILITIES))


def of_version_3(line: socket.socket) -> None:
    """Takes no body, and hangs up on one."""
    head = read(line, 9)
    if head == BEFORE_4:
        line.sendall(say(bytes([3, 6, 1])))


def test_worker_tells_its_version() -> None:
    """In the form of its time: the later one is asked first, the older one when it hangs up."""
    with worker(of_version_4) as port:
        assert ask(partial(to_local, port)) == Answer(State.READY, Version(4, 0, 1))
    with worker(of_version_3) as port:
        assert ask(partial(to_local, port)) == Answer(State.READY, Version(3, 6, 1))


def test_answer_in_pieces() -> None:
    """A byte at a time is an answer, too."""

    def slowly(line: socket.socket) -> None:
        read(line, len(SINCE_4))
        for byte in say(bytes([7, 1, 0, 0]) + ABILITIES):
            line.sendall(bytes([byte]))

    with worker(slowly) as port:
        assert ask(partial(to_local, port)).version == Version(7, 1, 0)


def test_nothing_listens() -> None:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answer = ask(partial(to_local, port))
    assert (answer.state, answer.why) == (State.REFUSED, "connection refused")


@pytest.mark.parametrize(
    ("serve", "state"),
    [
        (lambda line: line.recv(1), State.CLOSED),
        (lambda line: (read(line, 33), line.sendall(say(bytes(28))[:20])), State.CLOSED),
        (lambda line: (read(line, 33), line.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")), State.FOREIGN),
        (lambda line: (read(line, 33), line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")), State.FOREIGN),
        (lambda line: (read(line, 33), line.sendall(b"no\n")), State.FOREIGN),
        (lambda line: (read(line, 33), line.sendall((65).to_bytes(8, "little"))), State.FOREIGN),
    ],
)
def test_what_is_no_worker(serve: Callable[[socket.socket], object], state: State) -> None:
    """Hangs up, breaks off, greets in another protocol."""
    with worker(serve) as port:
        assert ask(partial(to_local, port)).state is state


def test_worker_that_is_busy_or_not_ready_is_not_waited_for() -> None:
    """It accepts, as the system does for it, and says nothing: the limit ends it, also after a part of an answer."""
    done = threading.Event()

    def silent(line: socket.socket) -> None:
        read(line, len(SINCE_4))
        line.sendall(b"\x1c")
        done.wait(20)

    with worker(silent) as port:
        assert ask(partial(to_local, port), seconds=0.3) == Answer(State.SILENT)
        done.set()


@pytest.mark.parametrize(
    ("worker_has", "client_has", "fits"),
    [("4.0.0", "4.0.0", True), ("4.0.9", "4.1.0", True), ("4.1.0", "4.0.0", False), ("3.6.1", "4.0.0", False)],
)
def test_versions_that_fit(worker_has: str, client_has: str, fits: bool) -> None:
    """The same major, and a worker no newer in its minor: the rule of llama.cpp's client."""
    first, second = (Version(*map(int, text.split("."))) for text in (worker_has, client_has))
    assert first.serves(second) is fits
    assert str(first) == worker_has
