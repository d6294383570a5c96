"""What a cut, stalled or chatty connection looks like, with a stand-in for the ssh program."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sistership.errors import HostUnfitError, HostUnreachableError, StoppedError
from sistership.host.openssh import OpenSSH

Fake = Callable[[str], OpenSSH]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """Makes a transport whose ssh is a shell script; `$command` in it is what ssh was told to run."""
    made: list[OpenSSH] = []

    def make(script: str) -> OpenSSH:
        program = tmp_path / "ssh"
        program.write_text(
            f'#!/bin/bash\nfor command; do :; done\n[ "$1" != -G ] || exit 255\n[ "$2" = exit ] || {{ {script}\n}}\n'
        )
        program.chmod(0o755)
        made.append(OpenSSH("gpu-b", "gpu-b"))
        return made[-1]

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/local/bin:/usr/bin:/bin")
    yield make
    for transport in made:
        transport.close()


def test_runs_under_a_stand_in(fake: Fake) -> None:
    """The stand-in is good enough: script, input, output and status go through."""
    done = fake('sh -c "$command"').run("cat; exit 3", stdin=b"abc")
    assert (done.status, done.out) == (3, b"abc")


@pytest.mark.parametrize("end", ["exit 255", "kill -9 $$"])
def test_cut_in_the_middle(fake: Fake, end: str) -> None:
    """ssh that dies after the script began means a cut connection, whatever it said last; never success."""
    transport = fake(f'sh -c "$command" | head -c 100; echo "client_loop: send disconnect: Broken pipe" >&2; {end}')
    with pytest.raises(HostUnreachableError) as caught:
        transport.run("head -c 5000 /dev/zero")
    assert caught.value.what == "the connection was cut"
    assert "Broken pipe" in (caught.value.why or "")
    assert "run the command again" in (caught.value.hint or "")


def test_script_that_begins_while_the_shared_connection_dies(fake: Fake, tmp_path: Path) -> None:
    """ssh ends without a word then; where a script ran before, that is a cut link and no login that was refused."""
    once = f'[ -f "{tmp_path}/dead" ] && exit 255; touch "{tmp_path}/dead"; sh -c "$command"'
    transport = fake(once)
    assert transport.run("true").status == 0
    with pytest.raises(HostUnreachableError) as caught:
        transport.run("true")
    assert caught.value.what == "the connection was cut"
    with pytest.raises(HostUnreachableError, match="no connection"):
        fake("exit 255").run("true")


def test_shell_that_was_killed_there(fake: Fake) -> None:
    """A shell that ends in the middle while ssh lives is told apart from a cut link."""
    with pytest.raises(HostUnfitError, match=r"ended in the middle of the work \(exit status 137\)"):
        fake('sh -c "$command" | head -c 100; exit 137').run("head -c 5000 /dev/zero")


def test_shell_that_never_runs_the_script(fake: Fake) -> None:
    """A login shell that prints and leaves is named with what it printed; one without base64 with its complaint."""
    with pytest.raises(HostUnfitError, match="login shell ended before") as caught:
        fake("echo This account is not available.; exit 1").run("true")
    assert caught.value.why == "This account is not available."
    with pytest.raises(HostUnfitError, match="login shell ended before") as caught:
        fake('base64() { :; }; PATH=/nonexistent /bin/sh -c "$command"; exit 0').run("true")
    assert "base64" in str(caught.value)


def test_banner_is_no_reason(fake: Fake) -> None:
    """A banner whose words look like ssh's own does not decide what is wrong when ssh has spoken after it."""
    banner = "\\n".join(["Permission denied (to strangers), connections closed by the admin"] * 8)
    transport = fake(
        f"printf '{banner}\\n' >&2; echo 'ssh: connect to host h port 22: Connection refused' >&2; exit 255"
    )
    with pytest.raises(HostUnreachableError, match="nothing listens"):
        transport.run("true")


def test_text_around_and_chatter(fake: Fake) -> None:
    """Text before and after the frame is no answer, and megabytes on standard error do not block."""
    transport = fake('echo hello; sh -c "$command"; echo 0 bye; yes chatter | head -c 3000000 >&2')
    done = transport.run("echo answer; exit 4")
    assert (done.status, done.text) == (4, "answer\n")
    assert len(done.err) <= 16_384


def test_stalled_peer(fake: Fake) -> None:
    """A peer that takes nothing more is given up after the limit, and the error says stalled."""
    started = time.monotonic()
    with pytest.raises(HostUnreachableError) as caught:
        fake("sleep 60").run("cat >/dev/null", stdin=bytes(1 << 20), stall=0.4)
    assert time.monotonic() - started < 10
    assert caught.value.what == "stalled"
    assert "0.4 s" in (caught.value.why or "")


def test_silence_is_no_stall(fake: Fake) -> None:
    """A script that works in silence, input that is slow to come, and a slow reader are not stalled."""

    def slowly() -> Iterator[bytes]:
        for _ in range(4):
            time.sleep(0.3)
            yield b"x" * 100_000

    assert fake('sh -c "$command"').run("sleep 1; wc -c", stdin=b"abc", stall=0.2).text.strip() == "3"
    assert fake('sh -c "$command"').run("wc -c", stdin=slowly(), stall=0.2).text.strip() == "400000"
    slow_reader = "for i in 1 2 3 4 5 6; do head -c 65536 >/dev/null; sleep 0.15; done"
    assert fake('sh -c "$command"').run(slow_reader, stdin=bytes(6 << 16), stall=0.6).status == 0


def test_close_ends_a_stalled_run(fake: Fake) -> None:
    """Closing from another thread ends a run whose input nobody takes."""
    transport = fake("sleep 60")
    threading.Timer(0.2, transport.close).start()
    with pytest.raises(StoppedError):
        transport.run("true", stdin=bytes(1 << 20))
