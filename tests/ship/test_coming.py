"""A file read while it arrives: the shell runs for real, the writing is done here, step by step."""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sistership.host.transport import quote
from sistership.ship.coming import _PATIENCE, FUNCTIONS

DATA = bytes(range(256)) * 2000


class Reader:
    """`coming x` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "promise").touch()
        script = f"promise=promise{FUNCTIONS}\ncoming {quote('x')}"
        self._program = subprocess.Popen(["sh", "-c", script], cwd=folder, stdout=subprocess.PIPE)
        self.got = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._program.stdout is not None
        while chunk := self._program.stdout.read1():
            self.got += chunk

    def has(self, size: int) -> None:
        """Wait until it printed that many bytes."""
        until(lambda: len(self.got) >= size)

    def ended(self) -> int:
        """Its status, once it ended."""
        status = self._program.wait(20)
        self._thread.join()
        return status

    def close(self) -> None:
        """End it."""
        self._program.kill()
        self._program.wait()
        self._thread.join()
        if self._program.stdout:
            self._program.stdout.close()


def until(true: Callable[[], bool]) -> None:
    """Wait for a condition, 20 seconds at most."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader of a file that is not there yet."""
    found = Reader(tmp_path)
    yield found
    found.close()


def test_reads_on_while_the_file_grows_and_gets_its_name(reader: Reader, tmp_path: Path) -> None:
    """Each part is printed when it is there; the end comes with the name, not before."""
    part = tmp_path / "x.part"
    part.write_bytes(DATA[:100_000])
    reader.has(100_000)
    with part.open("ab") as file:
        file.write(DATA[100_000:])
    reader.has(len(DATA))
    assert reader._program.poll() is None
    part.rename(tmp_path / "x")
    assert reader.ended() == 0
    assert hashlib.sha256(reader.got).digest() == hashlib.sha256(DATA).digest()


def test_whole_file_is_read_once(reader: Reader, tmp_path: Path) -> None:
    """A file that appears under its name at once, as one that the host made itself."""
    (tmp_path / "y").write_bytes(DATA)
    (tmp_path / "y").rename(tmp_path / "x")
    assert reader.ended() == 0
    assert reader.got == DATA


def test_last_bytes_and_the_name_at_once(reader: Reader, tmp_path: Path) -> None:
    """What is written between two looks, just before the name is given, is not lost."""
    part = tmp_path / "x.part"
    with part.open("wb") as file:
        file.write(DATA[:10])
        file.flush()
        reader.has(10)
        file.write(DATA[10:])
        file.flush()
        part.rename(tmp_path / "x")
    assert reader.ended() == 0
    assert reader.got == DATA


@pytest.mark.parametrize("begun", [True, False])
def test_broken_promise_ends_it(reader: Reader, tmp_path: Path, begun: bool) -> None:
    """A layer that will not come, or is sent anew because it was wrong: what was printed of it is never a whole one."""
    if begun:
        (tmp_path / "x.part").write_bytes(DATA[:10])
        reader.has(10)
    (tmp_path / "promise").unlink()
    assert reader.ended() != 0
    assert reader.got == (DATA[:10] if begun else b"")


def test_patience_counts_whatever_moves(tmp_path: Path) -> None:
    """While another layer arrives, what waits for a later one goes on waiting; when nothing moves, it gives up."""
    (tmp_path / "promise").touch()
    limit = "5"  # tenths of a second
    script = f"promise=promise{FUNCTIONS}\ncoming x".replace(str(_PATIENCE), limit)
    program = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE)
    began = time.monotonic()
    with (tmp_path / "other.part").open("ab", buffering=0) as other:
        while time.monotonic() - began < 2:
            other.write(b"x")
            time.sleep(0.05)  # the other layer's bytes come now and then
    assert program.poll() is None
    assert program.wait(20) != 0
    assert program.communicate()[0] == b""
