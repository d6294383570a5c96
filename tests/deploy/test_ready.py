"""Workers that become ready, and every way in which they do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sistership.deploy.hello import Answer, State, Version
from sistership.deploy.ready import Container, Outcome, judge, wait

RUNS = Container("running")
READY = Answer(State.READY, Version(4, 0, 0))


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now

    def wait(self, seconds: float) -> None:
        """They pass."""
        self.now += seconds


def waited(containers: list[Container], answers: list[Answer], seconds: float = 10) -> Outcome:
    """What comes of waiting where the engine and the port say this, one after the other; the last goes on."""
    clock = Clock()

    def each(values: list[object]) -> Iterator[object]:
        yield from values
        while True:
            yield values[-1]

    looks, says = each(list(containers)), each(list(answers))
    return wait(lambda: next(looks), lambda: next(says), seconds=seconds, pause=clock.wait, clock=clock)


def test_port_opens_long_before_it_is_ready() -> None:
    """Refused, silent, hanging up, then an answer: ready, with the version and the time."""
    said = [Answer(State.REFUSED), Answer(State.SILENT), Answer(State.CLOSED), READY]
    outcome = waited([Container("created"), RUNS], said)
    assert outcome == Outcome(Version(4, 0, 0), seconds=4.0)
    assert outcome.ready


@pytest.mark.parametrize(
    ("container", "why"),
    [
        (Container("exited", 1), "it ended with exit code 1"),
        (Container("dead", 137), "it ended with exit code 137"),
        (Container("missing"), "its container is gone"),
        (Container("restarting", 1, 1), "it was started again 1 time, after exit code 1"),
        (Container("running", 139, 3), "it was started again 3 times, after exit code 139"),
    ],
)
def test_container_that_does_not_stay_is_not_waited_for(container: Container, why: str) -> None:
    """Also when it answers in between: it is told at once, as what it is."""
    outcome = waited([RUNS, container], [Answer(State.REFUSED), READY])
    assert (outcome.ready, outcome.final, outcome.why) == (False, True, why)
    assert outcome.seconds < 3


def test_worker_that_ends_after_its_answer_is_not_ready() -> None:
    """The look after the answer counts."""
    outcome = waited([RUNS, Container("exited", 1)], [READY])
    assert (outcome.ready, outcome.why) == (False, "it ended with exit code 1")


def test_another_program_on_its_port() -> None:
    """Nothing to wait for."""
    outcome = waited([RUNS], [Answer(State.FOREIGN, why="it says b'SSH-2.0-'")])
    assert (outcome.final, outcome.why) == (True, "something else listens on its port (it says b'SSH-2.0-')")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (State.REFUSED, "its port is not open"),
        (State.SILENT, "its port is open, and it does not answer: it is not ready, or serves another client"),
        (State.CLOSED, "its port is open, and it hangs up before it answers"),
    ],
)
def test_the_time_is_over(state: State, why: str) -> None:
    """The last state is the reason, the limit is kept, and longer might help."""
    outcome = waited([RUNS], [Answer(state)], seconds=4.5)
    assert outcome == Outcome(None, why, final=False, seconds=4.5)


def test_container_that_is_not_started() -> None:
    """Its port is not asked; another program may answer there."""
    assert judge(Container("created"), None) == Outcome(None, "its container is created")
    assert judge(Container("paused"), None).final is False
