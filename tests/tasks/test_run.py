"""A run: how it ends, whoever listens."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from invoke.exceptions import Exit

from sistership.errors import HostUnreachableError, UsageError
from sistership.tasks.run import Interrupts, Run
from sistership.tasks.verb import conduct, finish


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs of these runs go to a folder of the test."""
    monkeypatch.setenv("SISTERSHIP_LOGS", str(tmp_path))
    return tmp_path


def ended(*, error: Exception | None = None, code: int = 0) -> tuple[int, str]:
    """Exit code and last words of a run that raises `error`, or finishes with `code`."""

    def work() -> None:
        if error:
            raise error
        finish(code)

    with Run.under_way("ship", quiet=True, verbose=False, json=None) as run:
        try:
            conduct(run, work)
        except Exit as end:
            return end.code, end.message or ""
    return 0, ""


def test_end_is_in_the_log(logs: Path) -> None:
    """A good run says nothing and logs its end; no other run is current afterwards."""
    assert ended() == (0, "")
    assert Run.current() is None
    (log,) = logs.iterdir()
    assert "end: exit 0" in log.read_text()


def test_results_alone_can_fail_a_run(logs: Path) -> None:
    """A run that ends by its results names the log too."""
    (code, words), (log,) = ended(code=23), logs.iterdir()
    assert (code, words) == (23, f"log: {log}")


def test_error_is_what_why_next_log(logs: Path) -> None:
    """At most four lines, then the log."""
    error = HostUnreachableError("it does not answer", where="gpu-a", why="timed out", hint="is it on?")
    (code, words), (log,) = ended(error=error), logs.iterdir()
    assert code == 20
    assert words.splitlines() == [
        "error: gpu-a: it does not answer",
        "  why:  timed out",
        "  next: is it on?",
        f"log: {log}",
    ]


def test_a_fault_of_ours_has_its_traceback_in_the_log(logs: Path) -> None:
    """People see one sentence and where the rest is."""
    (code, words), (log,) = ended(error=ZeroDivisionError("division by zero")), logs.iterdir()
    assert code == 1
    assert "Traceback" not in words
    assert "division by zero" in words
    assert "Traceback" in log.read_text()


def test_system_errors_name_the_file() -> None:
    """A full disk or a missing right is told with the path."""
    code, words = ended(error=PermissionError(13, "Permission denied", "/store/x"))
    assert code == 1
    assert words.startswith("error: /store/x: Permission denied")


def test_failed_query_prints_its_error_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json standard output holds the error, and stays valid JSON."""
    import json  # noqa: PLC0415

    with Run.under_way("verify", quiet=False, verbose=False, json="document") as run, pytest.raises(Exit):
        conduct(run, lambda: (_ for _ in ()).throw(UsageError("no host", hint="hosts")))
    found = json.loads(capsys.readouterr().out)
    assert (found["type"], found["exit"], found["error"]["next"]) == ("error", 2, "hosts")


def test_second_interrupt_waits_and_third_leaves(capfd: pytest.CaptureFixture[str]) -> None:
    """The first ends the run, the second says that the end is under way, the third ends that too."""
    with Interrupts():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert "once more" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_what_was_ignored_stays_ignored() -> None:
    """Under nohup a closed terminal ends nothing."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
