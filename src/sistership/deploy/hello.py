"""Whether an RPC worker is ready, by its own protocol: HELLO, the one question that leaves it as it is.

That a port accepts proves nothing: ssh and Docker's proxy accept before anyone listens behind them, and a worker opens
its port long before its devices are ready. What answers HELLO is a worker that serves.
It serves one client at a time, so it is asked before a server is connected, and with a limit: a second client waits
until the first one leaves (ggml-org/llama.cpp#28908).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sistership.host.lines import Line

_HELLO: Final = 14
#: The request: command, size, body. Since protocol 4.0 the body is 24 bytes of abilities, before it there was none.
_FORMS: Final = tuple(bytes([_HELLO]) + size.to_bytes(8, "little") + bytes(size) for size in (24, 0))
#: Bytes of an answer: three numbers, and since protocol 4.0 padding and abilities behind them.
_SIZES: Final = range(3, 65)
_HEAD: Final = 8


#: Opens a connection to a worker's port.
#:
#: Raises:
#:     OSError: it is refused, or cannot be made.
Dial = Callable[[], AbstractContextManager[Line]]


class State(StrEnum):
    """What a port answers when it is asked for a worker."""

    READY = "ready"
    REFUSED = "nothing listens there"
    CLOSED = "it accepts and hangs up"
    SILENT = "it accepts and does not answer"
    FOREIGN = "something else listens there"


@dataclass(frozen=True, order=True)
class Version:
    """A version of the RPC protocol."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def serves(self, client: Version) -> bool:
        """Whether a worker of this version takes a client of that one, as llama.cpp's client decides it.

        That says nothing of the build: two with equal versions may number their operations otherwise, and compute
        something else without a word. Equal images are proof, equal versions are not.
        """
        return self.major == client.major and self.minor <= client.minor


@dataclass(frozen=True)
class Answer:
    """What came of asking.

    Attributes:
        version: the worker's, when it is ready.
        why: the system's words where there are any.
    """

    state: State
    version: Version | None = None
    why: str = ""


def ask(dial: Dial, *, seconds: float = 15.0) -> Answer:
    """Say HELLO once.

    A worker of before protocol 4.0 hangs up on the later form of the question, so that it is asked again in its own.

    Args:
        dial: opens a connection; used twice at most.
        seconds: for each answer; over ssh that is the time to log in as well, which ssh limits to 10 seconds.
    """
    answer = Answer(State.CLOSED)
    for form in _FORMS:
        try:
            with dial() as line:
                answer = _asked(line, form, time.monotonic() + seconds)
        except ConnectionRefusedError as error:
            return Answer(State.REFUSED, why=_words(error))
        except TimeoutError:
            return Answer(State.SILENT)
        except (ConnectionError, BrokenPipeError):
            answer = Answer(State.CLOSED)
        except OSError as error:
            return Answer(State.REFUSED, why=_words(error))
        if answer.state is not State.CLOSED or answer.why:
            break
    return answer


def _asked(line: Line, form: bytes, end: float) -> Answer:
    line.settimeout(max(0.01, end - time.monotonic()))
    line.sendall(form)
    head = _read(line, _HEAD, end)
    if len(head) < _HEAD:
        return Answer(State.FOREIGN if head else State.CLOSED)
    size = int.from_bytes(head, "little")
    if size not in _SIZES:
        return Answer(State.FOREIGN, why=f"it says {head!r}")
    body = _read(line, size, end)
    if len(body) < size:
        return Answer(State.CLOSED, why="in the middle of its answer")
    return Answer(State.READY, Version(*body[:3]))


def _read(line: Line, size: int, end: float) -> bytes:
    """So many bytes, or fewer where it hangs up before.

    Raises:
        TimeoutError: they did not come in time.
    """
    got = b""
    while len(got) < size:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        line.settimeout(left)
        chunk = line.recv(size - len(got))
        if not chunk:
            break
        got += chunk
    return got


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
