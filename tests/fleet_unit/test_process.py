"""Long programs and several jobs: bounded, and stopped together."""

from __future__ import annotations

import io
import os
import threading
import time

import pytest

from sistership.errors import HostUnfitError
from sistership.fleet.process import Stopped, need, stream, tail, together

ENV = dict(os.environ)


def _stream(tmp_path, script, *, seconds=20.0, stop=None):
    sink = io.BytesIO()
    code = stream(
        ["sh", "-c", script], sink, log=tmp_path / "log", seconds=seconds, stop=stop or threading.Event(), env=ENV
    )
    return code, sink.getvalue()


def test_output_log_and_code(tmp_path):
    """Standard output goes to the sink, standard error to the log, and the exit code comes back."""
    assert _stream(tmp_path, "echo out; echo why >&2; exit 3") == (3, b"out\n")
    assert (tmp_path / "log").read_text() == "why\n"


def test_too_slow_is_ended_with_its_children(tmp_path):
    """A program over its time is ended, its children too, and the error shows its last words."""
    mark = tmp_path / "alive"
    with pytest.raises(HostUnfitError, match="did not finish") as caught:
        _stream(tmp_path, f"echo last words >&2; (sleep 3; touch {mark}) & wait", seconds=0.5)
    assert "last words" in str(caught.value)
    time.sleep(3.2)
    assert not mark.exists()


def test_stop_ends_it(tmp_path):
    """A program that says nothing for long is ended soon after `stop` is set."""
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    start = time.monotonic()
    with pytest.raises(Stopped):
        _stream(tmp_path, "sleep 30", stop=stop)
    assert time.monotonic() - start < 5


def test_first_failure_stops_the_others():
    """When one job fails, the others see `stop`, those not begun never begin, and the real failure is raised."""
    stop = threading.Event()
    begun: list[str] = []

    def fails():
        raise HostUnfitError("no mirror")

    def waits():
        begun.append("waits")
        assert stop.wait(10)
        raise Stopped

    def late():
        begun.append("late")

    with pytest.raises(HostUnfitError, match="no mirror"):
        together([waits, fails, late, late], at_once=2, stop=stop)
    assert begun.count("late") < 2


def test_all_jobs_run():
    """Without a failure each job runs once, and `stop` stays unset."""
    stop = threading.Event()
    done: list[int] = []
    together([lambda n=n: done.append(n) for n in range(5)], at_once=2, stop=stop)
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert not stop.is_set()


def test_missing_program_names_its_package():
    """The error for a missing program says which Debian package has it."""
    with pytest.raises(HostUnfitError) as caught:
        need("mmdebstrap-of-another-world", "mmdebstrap")
    assert "apt-get install mmdebstrap" in str(caught.value)


def test_tail_keeps_the_end():
    """Only the last non-empty lines are shown."""
    assert tail("a\n\nb\nc\n", 2).split() == ["b", "c"]
