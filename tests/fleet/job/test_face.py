"""What people and pipelines see of a ship to real hosts, and what an interrupt leaves behind."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from sistership.fleet import faults
from sistership.report.jsonlines import replay
from sistership.report.picture import board_svg

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project

SCHEMAS = Path(__file__).parents[3] / "schemas"
HOST = "classic20"
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def validate(name: str, document: Any) -> None:
    """Hold a document against a committed schema."""
    jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text())).validate(document)


class Terminal:
    """`sistership WORDS` on a terminal of its own."""

    def __init__(self, project: Project, columns: int, *words: str) -> None:
        self.text = ""
        outer, inner = pty.openpty()
        self._outer = outer
        environ = {**project.environ, "COLUMNS": str(columns), "LINES": "24", "TERM": "xterm-256color"}
        environ.pop("NO_COLOR", None)
        environ.pop("GITHUB_ACTIONS", None)
        command = [sys.executable, "-m", "sistership", *words]
        self.process = subprocess.Popen(
            command, cwd=project.folder, env=environ, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
        )
        os.close(inner)

    def until(self, pattern: str, seconds: float = 60) -> None:
        """Read until `pattern` was shown."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.plain):
            assert time.monotonic() < deadline, self.plain
            if not self._read():
                raise AssertionError(f"it ended: {self.plain}")

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        os.close(self._outer)
        return self.process.wait(60)

    def _read(self) -> bool:
        try:
            chunk = os.read(self._outer, 65536)
        except OSError:
            return False
        self.text += chunk.decode()
        return bool(chunk)

    @property
    def plain(self) -> str:
        """What was shown, without colours and movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)


@contextmanager
def slow(project: Project) -> Iterator[None]:
    """A host without the image, behind a slow link."""
    project.forget(HOST)
    with faults.shaped(HOST, "80mbit"):
        yield


def test_json_lines_of_a_ship(shipped: Project, tmp_path: Path) -> None:
    """Every line holds to the schema; hosts end with verdict, bytes and exit code; a picture is made of it."""
    shipped.forget(HOST)
    out = shipped.run("ship", "--variant", "sample", "--json").out
    lines = [json.loads(line) for line in out.splitlines()]
    for line in lines:
        validate("lines", line)
    kinds = [line["type"] for line in lines]
    assert (kinds[0], kinds[-1]) == ("version", "summary")
    hosts = {line["host"]: line for line in lines if line["type"] == "host"}
    assert {name: host["verdict"] for name, host in hosts.items()} == dict.fromkeys(
        ("builder", HOST, "containerd26"), "ok"
    )
    assert hosts[HOST]["sent"] == lines[-1]["sent"] > 1 << 20
    assert hosts["builder"]["sent"] == 0
    middle = next(line["at"] for line in lines if line["type"] == "progress" and line["done"])
    assert list(replay(out))
    picture = board_svg(out, middle, command="sistership ship")
    assert HOST in picture


def test_documents_of_queries(shipped: Project) -> None:
    """`plan --json` and `verify --json` hold to their schemas, whatever the hosts say."""
    shipped.forget(HOST)
    validate("plan", shipped.run("plan", "--json").json())
    document = shipped.verify(code=22).json()
    validate("verify", document)
    assert document["type"] == "verify"
    lines = shipped.run("ship", "--dry-run", "--json").out.splitlines()
    plans = [line for line in map(json.loads, lines) if line["type"] == "plan"]
    assert {plan["host"]: plan["action"] for plan in plans}[HOST] == "load"
    shipped.run("ship", "--variant", "sample")


@pytest.mark.parametrize("columns", [80, 200])
def test_board_on_a_terminal(shipped: Project, columns: int) -> None:
    """Bytes of bytes, rate and time left while it sends; afterwards one table, and the cursor is back."""
    with slow(shipped):
        terminal = Terminal(shipped, columns, "ship", "--variant", "sample")
        terminal.until(rf"{HOST} +sending .*of [\d.]+ MiB +[\d.]+ MiB/s +\d:\d\d left")
        assert terminal.end() == 0
    assert terminal.text.count(HIDE) == terminal.text.count(SHOW) > 0
    assert "━" in terminal.plain or columns == 80
    rest = terminal.text[terminal.text.rindex(SHOW) :]
    assert rest.count(HOST) == 1
    for line in terminal.plain.splitlines():
        assert len(line.rsplit("\r", 1)[-1]) <= columns


def test_interrupt_leaves_nothing_behind(shipped: Project, tmp_path: Path) -> None:
    """Ctrl-C: 130, no process of ours, no socket, no lock on the host; how far it was stays to be read."""
    shipped.environ["TMPDIR"] = str(tmp_path)
    try:
        with slow(shipped):
            terminal = Terminal(shipped, 80, "ship", "--variant", "sample")
            terminal.until(rf"{HOST} +sending")
            time.sleep(1)
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.end() == 130
            assert terminal.text.count(HIDE) == terminal.text.count(SHOW) > 0
            assert HOST in terminal.plain[terminal.plain.rindex("interrupted") - 600 :]
            assert "was cut" not in terminal.plain
            assert terminal.plain.strip().splitlines()[-1].startswith("log: ")
            assert list(tmp_path.iterdir()) == []
            ours = subprocess.run(["pgrep", "-af", str(tmp_path)], capture_output=True, text=True, check=False).stdout
            assert "ssh" not in ours, ours
        shipped.run("ship", "--variant", "sample", "--hosts", HOST)
    finally:
        del shipped.environ["TMPDIR"]


def test_log_holds_everything(shipped: Project) -> None:
    """Command line, ssh's argv, each script with host, status and time, what the host said, every event."""
    with faults.without_engine(HOST):
        err = shipped.run("ship", "--variant", "sample", "--hosts", HOST, code=21).err
    last = err.splitlines()[-1]
    assert last.startswith("log: ")
    text = Path(last.removeprefix("log: ")).read_text()
    for part in ("argv: ", "ship --variant sample", "argv: ssh -T", "script: ", "status ", "outcome: exit 21", "end:"):
        assert part in text
    assert re.search(rf"{HOST} .*(Cannot connect|docker daemon)|Cannot connect to the Docker daemon", text)


def test_errors_of_several_hosts_are_blocks(shipped: Project) -> None:
    """Two hosts with one trouble share what, why and next; the next command is for both."""
    for host in (HOST, "containerd26"):
        shipped.forget(host)
    out = shipped.run("verify", "--variant", "sample", code=22).out
    assert f"{HOST}, containerd26: missing" in out
    assert f"next: sistership ship --variant sample --hosts {HOST},containerd26" in out
    shipped.run("ship", "--variant", "sample")
