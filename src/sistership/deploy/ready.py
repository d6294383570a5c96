"""Waiting for a worker to be ready, or to be certain that it will not be. Pure but for the clock.

Its port opens long before its devices are ready, and its output is buffered without a terminal, so neither an open
port nor a line of a log counts: its container has to run without a restart, and its protocol has to answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from sistership.deploy.hello import Answer, State, Version

#: Seconds between two looks.
_PAUSE: Final = 1.0


@dataclass(frozen=True)
class Container:
    """A container as its engine tells of it.

    Attributes:
        state: the engine's word; "missing" where there is none of that name.
        exit_code: of its last end, when it ended.
        restarts: how often its restart policy started it again.
    """

    state: Literal["created", "running", "paused", "restarting", "removing", "exited", "dead", "missing"]
    exit_code: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of waiting.

    Attributes:
        version: of the worker's protocol; None: it is not ready.
        why: one sentence, when it is not.
        final: it will not become ready by waiting longer.
        seconds: how long was waited.
    """

    version: Version | None
    why: str = ""
    final: bool = False
    seconds: float = 0.0

    @property
    def ready(self) -> bool:
        """Whether a server may connect."""
        return self.version is not None


_WAITING: Final = {
    State.REFUSED: "its port is not open",
    State.CLOSED: "its port is open, and it hangs up before it answers",
    State.SILENT: "its port is open, and it does not answer: it is not ready, or serves another client",
}


def judge(container: Container, answer: Answer | None) -> Outcome:
    """What one look says.

    Args:
        answer: of the worker's port; None when it was not asked, since its container does not run.
    """
    if ended := _ended(container):
        return Outcome(None, ended, final=True)
    if container.state != "running" or answer is None:
        return Outcome(None, f"its container is {container.state}")
    if answer.state is State.FOREIGN:
        words = f" ({answer.why})" if answer.why else ""
        return Outcome(None, f"something else listens on its port{words}", final=True)
    return Outcome(answer.version, _WAITING.get(answer.state, ""))


def _ended(container: Container) -> str:
    """Why its container does not stay; "" when it may."""
    if container.state == "missing":
        return "its container is gone"
    if container.restarts or container.state == "restarting":
        times = f"{container.restarts} time{'s' if container.restarts != 1 else ''}"
        return f"it was started again {times}, after exit code {container.exit_code}"
    if container.state in {"exited", "dead", "removing"}:
        return f"it ended with exit code {container.exit_code}"
    return ""


def wait(
    look: Callable[[], Container],
    question: Callable[[], Answer],
    *,
    seconds: float,
    pause: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Look and ask until the worker is ready, cannot become ready, or the time is over.

    It is looked at before and after it answered: one that ended meanwhile may have answered with its last breath, and
    a restart policy may have put another one in its place.

    Args:
        look: asks the engine for the container.
        question: asks the worker's port, with a limit of its own.
        seconds: for all of it.
    """
    began = clock()
    while True:
        container = look()
        outcome = judge(container, question() if container.state == "running" and not container.restarts else None)
        if outcome.ready:
            after = judge(look(), Answer(State.READY, outcome.version))
            outcome = outcome if after.ready else after
        passed = clock() - began
        if outcome.ready or outcome.final or passed >= seconds:
            return Outcome(outcome.version, outcome.why, outcome.final, passed)
        pause(min(_PAUSE, seconds - passed))
