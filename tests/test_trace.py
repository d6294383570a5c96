"""What is started is told to the one who observes, and to nobody else."""

from __future__ import annotations

import sys
import threading

import pytest

from sistership import trace
from sistership.host.process import Processes
from sistership.recipe.git import GitError, git


def seen() -> tuple[list[trace.Started | trace.Ended], trace.Observer]:
    """A list, and the observer that fills it."""
    found: list[trace.Started | trace.Ended] = []
    return found, found.append


def test_nothing_is_told_without_an_observer() -> None:
    """Observing ends with its block."""
    found, observer = seen()
    with trace.observed(observer):
        pass
    trace.program(["x"]).end(0)
    assert found == []


def test_programs_are_told_with_status_and_words() -> None:
    """Processes.run tells argv, exit status and standard error, and never what went in or the environment."""
    found, observer = seen()
    code = "import sys; sys.stdin.read(); sys.stderr.write('no'); sys.exit(3)"
    with trace.observed(observer):
        Processes().run(
            [sys.executable, "-c", code], stdin=b"hunter2", sink=lambda _: None, env={"HF_TOKEN": "hunter3"}
        )
    started, ended = found
    assert isinstance(started, trace.Started)
    assert isinstance(ended, trace.Ended)
    assert started.argv == (sys.executable, "-c", code)
    assert (ended.number, ended.status, ended.err) == (started.number, 3, "no")
    assert "hunter" not in repr(found)


def test_git_is_told() -> None:
    """Git's command lines are told too."""
    found, observer = seen()
    with trace.observed(observer), pytest.raises(GitError):
        git("no-such-command")
    assert isinstance(found[0], trace.Started)
    assert "no-such-command" in found[0].argv
    assert isinstance(found[1], trace.Ended)
    assert found[1].status == 1


def test_programs_know_on_whose_behalf_they_run() -> None:
    """A program that a script's thread starts carries the host; other threads' programs do not."""
    found, observer = seen()
    with trace.observed(observer), trace.script("gpu-a", "true") as span:
        trace.program(["ssh"]).end(0)
        other = threading.Thread(target=lambda: trace.program(["git"]).end(0))
        other.start()
        other.join()
        span.end(0)
    assert [(each.host, each.argv) for each in found if isinstance(each, trace.Started)] == [
        ("gpu-a", ()),
        ("gpu-a", ("ssh",)),
        ("", ("git",)),
    ]


def test_a_script_that_raises_ends_too() -> None:
    """A cut connection is told with its reason and no status."""
    found, observer = seen()
    with trace.observed(observer), pytest.raises(OSError, match="cut"), trace.script("gpu-a", "true"):
        raise OSError("cut")
    (ended,) = (each for each in found if isinstance(each, trace.Ended))
    assert ended.status is None
    assert "cut" in ended.err
