"""Bytes of a file to a real sshd: by the ssh program itself, and by paramiko."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership.errors import HostUnreachableError, SistershipError
from sistership.host import ciphers
from sistership.host.filepart import FilePart
from sistership.host.openssh import OpenSSH, argv
from sistership.host.paramiko_ssh import ParamikoSSH

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

HOST = "classic26"
SIZE = 20_000_000
Way = OpenSSH | ParamikoSSH


@pytest.fixture(params=[OpenSSH, ParamikoSSH])
def way(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Way]:
    """A transport without a connection yet."""
    transport = request.param(HOST, HOST, fleet.files.ssh_config)
    yield transport
    transport.close()


@pytest.fixture(scope="module")
def blob(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of many times ssh's window, no two parts of it alike."""
    path = tmp_path_factory.mktemp("bytes") / "blob"
    path.write_bytes(os.urandom(SIZE))
    return path


def arrived(way: Way, part: FilePart) -> str:
    """The sha256 of what the host got."""
    return way.run("sha256sum", stdin=part).text.split()[0]


def test_every_byte_once(way: Way, blob: Path) -> None:
    """With the first connection, over it, and several at once over it, all from offsets of their own."""
    data = blob.read_bytes()
    told: list[int] = []
    assert arrived(way, FilePart(blob, 0, told.append)) == hashlib.sha256(data).hexdigest()
    assert sum(told) == SIZE
    offsets = (1, 4_096, SIZE - 1, SIZE)
    found: dict[int, str] = {}

    def send(offset: int) -> None:
        found[offset] = arrived(way, FilePart(blob, offset))

    threads = [threading.Thread(target=send, args=(offset,)) for offset in offsets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {offset: hashlib.sha256(data[offset:]).hexdigest() for offset in offsets}


def test_what_the_host_does_not_take_stalls(way: Way, blob: Path) -> None:
    """A host that stops reading is noticed, and what runs ahead of it is ssh's window and no more."""
    told: list[int] = []
    started = time.monotonic()
    with pytest.raises(HostUnreachableError, match="stalled"):
        way.run("head -c 1000000 >/dev/null; sleep 60", stdin=FilePart(blob, 0, told.append), stall=1)
    assert time.monotonic() - started < 20
    assert 1_000_000 <= sum(told) < 4_000_000
    assert way.run("echo again").text == "again\n"


def test_file_cut_short_meanwhile(way: Way, tmp_path: Path) -> None:
    """The end of a file that shrinks while it is sent is no success, though ssh and the host see nothing wrong."""
    path = tmp_path / "blob"
    path.write_bytes(bytes(SIZE))
    script = "head -c 1 >/dev/null; echo; sleep 1; cat >/dev/null"
    with pytest.raises(SistershipError, match="changed while it was sent") as caught:
        way.run(script, stdin=FilePart(path), sink=lambda _: os.truncate(path, SIZE // 2))
    assert caught.value.where == str(path)


def test_our_processor_time_does_not_grow_with_the_bytes(fleet: Fleet, tmp_path: Path) -> None:
    """200 MB by the ssh program cost Python next to nothing: it looks at a position, and copies no byte."""
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 200_000_000)
    transport = OpenSSH(HOST, HOST, fleet.files.ssh_config)
    try:
        transport.run("true")
        before = time.process_time()
        assert transport.run("wc -c", stdin=FilePart(path)).text.strip() == "200000000"
        assert time.process_time() - before < 0.08
    finally:
        transport.close()


@pytest.mark.skipif(not ciphers.here(), reason="this processor has no instructions for AES")
@pytest.mark.parametrize(
    ("text", "cipher"),
    [("", "aes128-gcm@openssh.com"), ("Ciphers aes256-ctr,aes128-gcm@openssh.com", "aes256-ctr")],
)
def test_the_cipher_that_is_agreed_on(fleet: Fleet, tmp_path: Path, text: str, cipher: str) -> None:
    """AES-GCM, unless an ssh_config says otherwise; the server never sees a list that its user did not write."""
    config = tmp_path / "config"
    config.write_text(f"Host {HOST}\n  {text}\n  Include {fleet.files.ssh_config}\n")
    transport = OpenSSH(HOST, HOST, config)
    try:
        words = argv(HOST, "true", config=config, control=None, ciphers=transport._ciphers)
    finally:
        transport.close()
    done = subprocess.run([words[0], "-v", *words[1:]], capture_output=True, text=True, check=True, timeout=30)
    assert f"client->server cipher: {cipher} " in done.stderr
    assert "compression: none" in done.stderr
