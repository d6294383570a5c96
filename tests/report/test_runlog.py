"""The log of a run."""

from __future__ import annotations

import base64
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sistership import trace
from sistership.report import events
from sistership.report.runlog import KEPT, RunLog, masked, name, prune, readable


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RunLog]:
    """A log that can be written."""
    made = RunLog.open(tmp_path, "ship", {"argv": "sistership ship"})
    assert made is not None
    yield made
    made.close()


def test_name_sorts_by_time() -> None:
    """UTC time, verb, process."""
    assert name("fleet.up", datetime(2026, 5, 1, 10, 2, 3, tzinfo=UTC), 7) == "run-20260501T100203Z-fleet.up-7.log"


def test_log_is_for_its_user_alone(log: RunLog) -> None:
    """The file is 0600 and begins with the command line."""
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert "argv: sistership ship" in log.path.read_text()


def test_everything_is_in_it(log: RunLog) -> None:
    """Events, programs, scripts, exit statuses, times and standard error, each with host and time."""
    with trace.observed(log.observe):
        with trace.script("gpu-a", "docker info\ndf -P") as span:
            inner = trace.program(["ssh", "gpu-a"])
            inner.end(255, "Connection reset\nby peer")
            span.end(3, "")
        trace.program(["git", "fetch"]).end(0)
    log.step("gpu-a", "loading")
    log.tell(events.Failed(20, events.Trouble("it does not answer", "gpu-a", "timed out", "is it on?")))
    text = log.path.read_text()
    for part in ("script: docker info", "df -P", "argv: ssh gpu-a", "status 255 after", "Connection reset", "by peer",
                 "status 3 after", "argv: git fetch", "loading", "exit 20", "is it on?"):  # fmt: skip
        assert part in text
    hosts = [line.split()[1] for line in text.splitlines() if "argv:" in line]
    assert hosts[-2:] == ["gpu-a", "-"]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("git fetch https://user:hunter2@example.invalid/x", "hunter2"),
        ("git fetch https://ghp_0123456789abcdefABCD@example.invalid/x", "ghp_0123456789"),
        ("env HF_TOKEN=hunter2 docker run", "hunter2"),
        ("MY_PASSWORD='hunter2 x' cmd", "hunter2"),
        ("docker login --password hunter2 reg", "hunter2"),
        ("Authorization: Bearer hunter2", "hunter2"),
    ],
)
def test_credentials_are_masked(log: RunLog, text: str, secret: str) -> None:
    """What looks like a credential in a command, a message or a remote's words never reaches the file."""
    log.detail(text)
    with trace.observed(log.observe):
        trace.program(text.split()).end(1, text)
    assert secret not in log.path.read_text()
    assert "***" in log.path.read_text()


def test_ordinary_words_stay() -> None:
    """Masking spares digests, ssh destinations, options and paths."""
    for text in ("ssh -o BatchMode=yes git@host cmd", "image@sha256:abc", "https://example.invalid/x", "key=value"):
        assert masked(text) == text


def test_scripts_in_base64_are_not_written_twice() -> None:
    """The command line of a script shows that it carries one; the script is in the log as text."""
    encoded = base64.b64encode(b"docker info").decode()
    words = ["ssh", "h", f"exec sh -c 'eval \"$(echo {encoded} | base64 -d)\"'"]
    assert encoded not in readable(words)
    assert readable(["/bin/sh", "-c", "a\nb"]) == "/bin/sh -c '<the script>'"


def test_newest_are_kept(tmp_path: Path) -> None:
    """The newest logs of runs stay; logs of builds and other files are never touched."""
    for number in range(KEPT + 5):
        (tmp_path / f"run-20260501T10{number:04}Z-ship-1.log").touch()
    (tmp_path / "build-sample-abc.log").touch()
    prune(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == KEPT + 1
    assert names[:2] == ["build-sample-abc.log", "run-20260501T100005Z-ship-1.log"]


def test_no_log_is_no_failure(tmp_path: Path) -> None:
    """Where no log can be written the run goes on without one."""
    (tmp_path / "file").touch()
    assert RunLog.open(tmp_path / "file" / "logs", "ship", {}) is None


def test_late_events_are_dropped(log: RunLog) -> None:
    """A thread that ends after the log was closed harms nothing."""
    log.close()
    log.step("gpu-a", "late")
    assert "late" not in log.path.read_text()
