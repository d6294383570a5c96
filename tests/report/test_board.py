"""The live board on a terminal that is a pty."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

import pytest

from sistership.report import events
from sistership.report.board import Board, possible

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


@dataclass
class Terminal:
    """A pty: what is written to `stream` is read into `seen`."""

    stream: TextIO
    seen: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """Everything that was written."""
        time.sleep(0.05)
        return self.seen.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    outer, inner = pty.openpty()
    made = Terminal(os.fdopen(inner, "w", encoding="utf-8"))

    def read() -> None:
        try:
            while chunk := os.read(outer, 65536):
                made.seen.extend(chunk)
        except OSError:
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    yield made
    made.stream.close()
    reader.join(2)
    os.close(outer)


def plain(text: str) -> str:
    """Without colours and cursor movements."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_board_is_gone_before_results(terminal: Terminal) -> None:
    """The last frame is erased, the cursor is back, and nothing follows."""
    board = Board(terminal.stream)
    board.tell(events.Begin("sample:v1", "sample", hosts=("gpu-a",)))
    board.tell(events.Step("gpu-a", "loading"))
    time.sleep(0.3)
    board.tell(events.HostDone("gpu-a", "sample:v1", "ok", 0))
    board.tell(events.Summary(0, 1.0))
    text = terminal.text
    assert "gpu-a" in text
    assert text.count(HIDE) == text.count(SHOW) == 1
    assert text.rindex(SHOW) > text.rindex("gpu-a")
    assert "\x1b[2K" in text[text.rindex("gpu-a") :]


def test_interrupt_leaves_how_far_each_host_was(terminal: Terminal) -> None:
    """Closed midway, the last frame stays, the cursor is back, and late events draw nothing more."""
    board = Board(terminal.stream)
    board.tell(events.Begin("sample:v1", "sample", hosts=("gpu-a",)))
    board.tell(events.Progress("gpu-a", "sent", 1 << 20, 4 << 20))
    board.close()
    board.tell(events.Step("gpu-a", "failed: cut"))
    text = terminal.text
    assert "1.0 of 4.0 MiB" in plain(text).splitlines()[-1]
    assert text.count(HIDE) == text.count(SHOW) == 1
    assert "failed" not in text


def test_results_elsewhere_keep_the_last_frame(terminal: Terminal) -> None:
    """With standard output in a file, the verdicts stay on the terminal."""
    board = Board(terminal.stream, keep=True)
    board.tell(events.HostDone("gpu-a", "sample:v1", "ok", 0))
    board.tell(events.Summary(0, 1.0))
    assert plain(terminal.text).splitlines()[-1].startswith("✓ gpu-a  ok")


def test_no_colours_when_asked(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR: no colour code, while the board still moves."""
    monkeypatch.setenv("NO_COLOR", "1")
    board = Board(terminal.stream)
    board.tell(events.HostDone("gpu-a", "x", "missing", 22))
    board.close()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.text)


def test_many_threads_and_pauses_end(terminal: Terminal) -> None:
    """Threads that tell while the board is paused and redrawn never block one another."""
    board = Board(terminal.stream, verbose=True)

    def work(host: str) -> None:
        for done in range(200):
            board.progress(host, "sent", done, 200)
            if done % 50 == 0:
                board.detail(f"{host} at {done}")
                board.pause()

    threads = [threading.Thread(target=work, args=(f"gpu-{number}",), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    board.close()
    assert terminal.text.count(HIDE) == terminal.text.count(SHOW)


def test_board_needs_a_terminal_that_moves_its_cursor(terminal: Terminal) -> None:
    """A pipe, TERM=dumb and an ASCII terminal get lines instead."""
    assert possible(terminal.stream, {"TERM": "xterm"})
    assert not possible(terminal.stream, {"TERM": "dumb"})
    assert not possible(terminal.stream, {})
    assert not possible(io.StringIO(), {"TERM": "xterm"})


def test_rich_is_not_imported_without_a_board() -> None:
    """What only terminals need does not slow down anything else."""
    import subprocess  # noqa: PLC0415

    code = (
        "import sys, sistership.report.choose as c; c.listeners(out=sys.stdout, err=sys.stderr); "
        "print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_is_said_once_stays(terminal: Terminal) -> None:
    """Notes and warnings are printed above the board and stay; this machine's own steps go."""
    board = Board(terminal.stream)
    board.step("", "resolving")
    board.tell(events.Note("sistership ship --plan FILE does exactly this"))
    board.tell(events.Failed(1, events.Trouble("no")))
    kept = terminal.text[terminal.text.rindex("\x1b[2K") :]
    assert "ship --plan FILE" in plain(terminal.text)
    assert "resolving" not in kept
