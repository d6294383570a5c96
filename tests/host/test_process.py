"""Programs and their pipes, on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sistership.errors import HostUnreachableError, StoppedError
from sistership.host.local import Local


@pytest.fixture
def local() -> Iterator[Local]:
    """This machine as a host."""
    transport = Local("here")
    yield transport
    transport.close()


def test_output_status_and_errors_come_back(local: Local) -> None:
    """Standard output, exit status and the end of standard error are told apart."""
    done = local.run("cat; echo oops >&2; exit 5", stdin=b"abc")
    assert (done.status, done.out, done.err) == (5, b"abc", "oops\n")


def test_large_streams_need_no_memory(local: Local) -> None:
    """A gigabyte through a sink comes in bounded chunks."""
    largest = total = 0

    def sink(chunk: bytes) -> None:
        nonlocal largest, total
        largest, total = max(largest, len(chunk)), total + len(chunk)

    assert local.run("head -c 300000000 /dev/zero", sink=sink).status == 0
    assert total == 300_000_000
    assert largest < 2_000_000


def test_chatty_stderr_does_not_block(local: Local) -> None:
    """A program that writes megabytes to standard error ends, and the last words are kept."""
    done = local.run("yes complaint | head -n 500000 >&2; echo the end >&2")
    assert done.status == 0
    assert done.err.endswith("the end\n")
    assert len(done.err) <= 16_384


def test_timeout_ends_the_whole_tree(local: Local) -> None:
    """After the limit everything that the script started is ended, and the error says so."""
    started = time.monotonic()
    with pytest.raises(HostUnreachableError) as caught:
        local.run("sleep 60 & sleep 60", timeout=0.3)
    assert time.monotonic() - started < 20
    assert "no end after 0.3 s" in str(caught.value)


def test_failing_input_is_raised_here(local: Local) -> None:
    """An error while input is made (a damaged blob) ends the program and is raised to the caller."""

    def chunks() -> Iterator[bytes]:
        yield b"some"
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        local.run("cat", stdin=chunks())


def test_reader_that_stops_early_is_no_error_of_ours(local: Local) -> None:
    """A script that ends before it has read its input reports its own status."""
    assert local.run("exit 4", stdin=(b"x" * 65_536 for _ in range(100))).status == 4


def test_close_ends_what_runs(local: Local) -> None:
    """Closing from another thread (Ctrl-C) ends a running script."""
    threading.Timer(0.2, local.close).start()
    with pytest.raises(StoppedError, match="interrupted"):
        local.run("sleep 60")


def test_given_up_is_not_waited_for(local: Local) -> None:
    """What still has a given-up program's output open, as a shared connection of ssh does, keeps nobody waiting."""

    def chunks() -> Iterator[bytes]:
        yield b"some"
        raise ValueError("damaged")

    def refuse(_: bytes) -> None:
        raise ValueError("full")

    elsewhere = "setsid sleep 20 & echo words >&2; echo out; sleep 20"
    started = time.monotonic()
    with pytest.raises(HostUnreachableError, match=r"no end after 0.5 s"):
        local.run(elsewhere, timeout=0.5)
    with pytest.raises(HostUnreachableError, match="stalled"):
        local.run(elsewhere, stdin=bytes(1 << 20), stall=0.5)
    with pytest.raises(ValueError, match="damaged"):
        local.run(elsewhere, stdin=chunks())
    with pytest.raises(ValueError, match="full"):
        local.run("setsid sleep 20 & head -c 100000 /dev/zero; sleep 20", sink=refuse)
    threading.Timer(0.3, local.close).start()
    with pytest.raises(StoppedError):
        local.run(elsewhere)
    assert time.monotonic() - started < 15


def test_what_comes_late_is_still_read(local: Local) -> None:
    """A program that ends by itself is read to the end, also what its children write after it."""
    assert local.run("(sleep 0.5; echo later >&2) & echo first >&2").err == "first\nlater\n"
