"""A file as standard input: read by the program itself, watched by its position."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sistership.errors import HostUnreachableError, SistershipError
from sistership.host.filepart import FilePart
from sistership.host.local import Local


@pytest.fixture
def local() -> Iterator[Local]:
    """This machine as a host."""
    transport = Local("here")
    yield transport
    transport.close()


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    """A file of 3 MB, no two parts of it alike."""
    path = tmp_path / "blob"
    path.write_bytes(os.urandom(3_000_000))
    return path


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at descriptors where Linux shows them")
def test_the_program_reads_the_file_itself(local: Local, blob: Path) -> None:
    """No pipe and no copy lies between: the program's standard input is the file."""
    assert local.run("readlink /proc/self/fd/0", stdin=FilePart(blob)).text.strip() == str(blob)


@pytest.mark.parametrize("offset", [0, 1, 2_999_999, 3_000_000, 3_000_001])
def test_from_an_offset_to_the_end(local: Local, blob: Path, offset: int) -> None:
    """What lies behind the offset arrives and is told, once; at and beyond the end that is nothing."""
    told: list[int] = []
    done = local.run("sha256sum", stdin=FilePart(blob, offset, told.append))
    assert done.text.split()[0] == hashlib.sha256(blob.read_bytes()[offset:]).hexdigest()
    assert sum(told) == max(3_000_000 - offset, 0)
    assert all(new > 0 for new in told)


def test_readers_at_once_have_positions_of_their_own(local: Local, blob: Path) -> None:
    """The same file open for another reader meanwhile does not move this one."""
    part = FilePart(blob, 1_000_000)
    with part.opened() as other:
        next(other.pieces(5000))
        assert local.run("wc -c", stdin=part).text.strip() == "2000000"


def test_progress_while_it_runs(local: Local, blob: Path) -> None:
    """The part that a slow reader has taken is told before it ends; what it left is not told."""
    told: list[tuple[float, int]] = []
    script = "dd bs=1000000 count=1 2>/dev/null | cat >/dev/null; sleep 1; dd bs=1000000 count=1 2>/dev/null >/dev/null"
    local.run(script, stdin=FilePart(blob, 0, lambda new: told.append((time.monotonic(), new))))
    assert [new for _, new in told] == [1_000_000, 1_000_000]
    assert told[1][0] - told[0][0] > 0.4


def test_reader_that_goes_back(local: Local, blob: Path) -> None:
    """A program that takes too much and sets the position back, as `head` does, is not counted twice."""
    told: list[int] = []
    back = "import os; os.read(0, 100_000); time.sleep(0.6); os.lseek(0, 10, 0); time.sleep(0.6)"
    local.run(f"python3 -c 'import time; {back}'; cat >/dev/null", stdin=FilePart(blob, 0, told.append))
    assert told[0] == 100_000
    assert sum(told) == 3_000_000


def test_missing_file_and_folder(local: Local, tmp_path: Path) -> None:
    """What cannot be read is an error with its place, and nothing is started."""
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("none", "No such file"), (".", "no regular file"), ("fifo", "no regular file")):
        path = tmp_path / name
        with pytest.raises(SistershipError, match="cannot be read") as caught:
            local.run(f"touch {tmp_path}/started", stdin=FilePart(path))
        assert caught.value.where == str(path)
        assert why in (caught.value.why or "")
        assert caught.value.hint
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("size", [1000, 3_000_001])
def test_file_that_changes(local: Local, blob: Path, size: int) -> None:
    """A file cut short or grown meanwhile is an error of this machine, even when the script says that all is well."""
    with pytest.raises(SistershipError, match="changed while it was sent") as caught:
        local.run(f"truncate -s {size} {blob}; cat >/dev/null", stdin=FilePart(blob))
    assert caught.value.where == str(blob)
    assert caught.value.why == f"it had 3000000 bytes, and has {size} now"
    assert caught.value.hint


def test_file_that_is_removed_or_replaced(local: Local, blob: Path) -> None:
    """What is open stays whole: a name given to another file, or taken away, changes nothing."""
    done = local.run(f"rm {blob}; echo new > {blob}; wc -c", stdin=FilePart(blob))
    assert done.text.strip() == "3000000"


def test_stalled_reader(local: Local, blob: Path) -> None:
    """A program that takes nothing more is ended after the limit, however much it took before."""
    for script in ("sleep 60", "dd bs=1000 count=1 >/dev/null 2>&1; sleep 60"):
        started = time.monotonic()
        with pytest.raises(HostUnreachableError, match="stalled"):
            local.run(script, stdin=FilePart(blob), stall=0.5)
        assert time.monotonic() - started < 10


def test_silence_and_slow_readers_are_no_stall(local: Local, blob: Path) -> None:
    """When all is read the script may work in silence, and while it reads it may be slow."""
    assert local.run("cat >/dev/null; sleep 1.5", stdin=FilePart(blob), stall=0.6).status == 0
    slow = "for i in 1 2 3 4 5 6; do dd bs=500000 count=1 >/dev/null 2>&1; sleep 0.3; done"
    assert local.run(slow, stdin=FilePart(blob), stall=1.2).status == 0


def test_failing_progress_ends_the_program(local: Local, blob: Path) -> None:
    """What the progress function raises, an interrupt among it, ends the program and reaches the caller."""

    def fail(_: int) -> None:
        raise ValueError("no board")

    started = time.monotonic()
    with pytest.raises(ValueError, match="no board"):
        local.run("dd bs=1000 count=1 >/dev/null 2>&1; sleep 60", stdin=FilePart(blob, 0, fail))
    assert time.monotonic() - started < 10


def test_reader_that_stops_early(local: Local, blob: Path) -> None:
    """A script that ends before it has read its input reports its own status."""
    assert local.run("exit 4", stdin=FilePart(blob)).status == 4
