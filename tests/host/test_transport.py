"""The frame around a script's output."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sistership.host.transport import Frame, Unframe

FRAME = Frame("0123456789abcdef0123456789abcdef")
OPEN = b"\n0123456789abcdef0123456789abcdef\n"


def unframed(chunks: list[bytes]) -> tuple[int | None, bytes, bytes]:
    """Status, content and preface of a stream."""
    kept: list[bytes] = []
    unframe = Unframe(FRAME, kept.append)
    for chunk in chunks:
        unframe.feed(chunk)
    return unframe.finish(), b"".join(kept), unframe.preface


def closing(status: int) -> bytes:
    """The closing line for an exit status."""
    return b"\n0123456789abcdef0123456789abcdef %d\n" % status


@given(st.binary(max_size=600), st.binary(max_size=200), st.integers(0, 255), st.integers(1, 50))
def test_content_comes_through_whatever_the_chunks(content: bytes, banner: bytes, status: int, size: int) -> None:
    """Any bytes in any cuts come out as they went in, and login text in front never gets into them (case C33)."""
    stream = banner + OPEN + content + closing(status)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert unframed(chunks)[:2] == (status, content)


def test_cut_stream_has_no_status() -> None:
    """A connection that was cut is not a success: without the closing line there is no status."""
    assert unframed([OPEN + b"half of it"])[0] is None
    assert unframed([b"just a banner"])[0] is None
    assert unframed([OPEN + b"x" + closing(0)[:-3]])[0] is None


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_text_after_the_end_is_not_content(size: int) -> None:
    """A logout message behind the closing line, however long, is no part of the answer and spoils no status."""
    stream = OPEN + b"x" + closing(0) + b"bye 7\n" * 50
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert unframed(chunks)[:2] == (0, b"x")


def test_memory_is_bounded_before_the_opening_line() -> None:
    """An endless banner is dropped, but its start is kept for the error message."""
    status, content, preface = unframed([b"*** welcome ***\n" * 100_000])
    assert status is None
    assert content == b""
    assert preface.startswith(b"*** welcome ***")
    assert len(preface) <= 4096


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_command_survives_a_login_shell(shell: str) -> None:
    """Quotes, newlines, `!` and dollars reach the script's own shell unchanged, standard input too."""
    frame = Frame.fresh()
    script = "printf '%s|' \"it's\" 'a!b' '$HOME' \"\nx\"; cat; exit 3"
    done = subprocess.run([shell, "-c", frame.command(script)], input=b"data", capture_output=True, check=False)
    kept: list[bytes] = []
    unframe = Unframe(frame, kept.append)
    unframe.feed(b"banner\n" + done.stdout)
    assert unframe.finish() == 3
    assert b"".join(kept) == b"it's|a!b|$HOME|\nx|data"


def test_words_fit_every_shell() -> None:
    """No word of the command line is as long as a BSD csh would refuse, however long the script; no parameters leak."""
    frame = Frame.fresh()
    command = frame.command("echo $#; : " + "x" * 60_000)
    assert max(map(len, command.split())) < 1000
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
    kept: list[bytes] = []
    Unframe(frame, kept.append).feed(done.stdout)
    assert b"".join(kept) == b"0\n"
