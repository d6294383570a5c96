"""Scripts of the staging folder, run for real in a folder of this machine."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sistership.errors import LockedError
from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.image.identity import Layer
from sistership.image.layout import Store
from sistership.matrix.model import Host
from sistership.ship.hostlock import HostLock
from sistership.ship.plan import Encoding, LayerPlan
from sistership.ship.stage import append_script, check_packed_script, receive_script, recheck_script, send_layer, skip


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    """This machine with a staging folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "sistership" / "stage").mkdir(parents=True)
    transport = Local("here")
    yield Peer(Host("here", local=True), transport, Docker("docker"))
    transport.close()


def never() -> None:
    """Nothing that came before is wrong here."""
    raise AssertionError("sent twice")


def layer_of(data: bytes) -> Layer:
    """A layer whose zstd blob is `data`."""
    return Layer("sha256:" + "1" * 64, "sha256:" + hashlib.sha256(data).hexdigest(), len(data), 1, False, "")


def received(peer: Peer, offset: int, data: bytes, whole: bytes) -> int:
    """Send `data` from `offset` on for a file that shall be `whole`; the script's status."""
    script = receive_script("x.zst", offset, len(whole), layer_of(whole).digest)
    return peer.transport.run(script, stdin=data).status


def test_bytes_are_appended_at_their_offset_and_named_when_whole(peer: Peer, tmp_path: Path) -> None:
    """A cut transfer stays and goes on where it stopped; the file gets its name only when its sum is right."""
    stage = tmp_path / "sistership" / "stage"
    assert received(peer, 0, b"abc", b"abcdef") == 7
    assert [(path.name, path.read_bytes()) for path in stage.iterdir()] == [("x.zst.part", b"abc")]
    assert received(peer, 3, b"def", b"abcdef") == 0
    assert [(path.name, path.read_bytes()) for path in stage.iterdir()] == [("x.zst", b"abcdef")]


@pytest.mark.parametrize("offset", [0, 3])
def test_wrong_bytes_leave_nothing(peer: Peer, tmp_path: Path, offset: int) -> None:
    """As many bytes as there should be and another sum: the file goes, wherever the wrong byte came from."""
    stage = tmp_path / "sistership" / "stage"
    (stage / "x.zst.part").write_bytes(b"a?c")
    assert received(peer, offset, b"a?cdef"[offset:], b"abcdef") == 8
    assert list(stage.iterdir()) == []


def test_packed_on_the_way_is_checked_by_its_content(peer: Peer, tmp_path: Path) -> None:
    """Bytes that we make with gzip while they are sent have no digest that is known before."""
    stage = tmp_path / "sistership" / "stage"
    packed, diff_id = gzip.compress(b"plain"), layer_of(b"plain").digest
    assert peer.transport.run(append_script("x.gz", 0), stdin=packed[:10]).status == 0
    assert peer.transport.run(append_script("x.gz", 10), stdin=packed[10:]).status == 0
    assert peer.transport.run(check_packed_script("x.gz", diff_id)).status == 0
    assert [path.name for path in stage.iterdir()] == ["x.gz"]
    peer.transport.run(append_script("y.gz", 0), stdin=packed[:10])
    assert peer.transport.run(check_packed_script("y.gz", diff_id)).status == 8
    assert [path.name for path in stage.iterdir()] == ["x.gz"]


def test_full_disk_ends_the_sending(peer: Peer, tmp_path: Path) -> None:
    """The reason comes back in the words of the host, and what fits stays: here a limit stands for the disk's end."""
    stage, data = tmp_path / "sistership" / "stage", bytes(5000)
    script = receive_script("x.zst", 0, len(data), layer_of(data).digest)
    done = peer.transport.run(f"ulimit -f 2; trap '' XFSZ\n{script}", stdin=data)
    assert (done.status, "File too large" in done.err) == (1, True)
    assert [path.name for path in stage.iterdir()] == ["x.zst.part"]


def test_damaged_file_of_an_earlier_run_is_removed(peer: Peer, tmp_path: Path) -> None:
    """Only it, in each encoding; what is whole stays, what is gone is not told."""
    stage = tmp_path / "sistership" / "stage"
    plain, packed = b"plain", b"packed"
    layer = Layer("sha256:" + hashlib.sha256(plain).hexdigest(), layer_of(packed).digest, 6, 5, False, "")
    whole = {"x.zst": packed, "x.tar": plain, "x.gz": gzip.compress(plain)}
    plans = [LayerPlan(layer, "staged", name, 1, 0) for name in (*whole, "gone.zst")]
    for name, data in whole.items():
        (stage / name).write_bytes(data)
    assert peer.transport.run(recheck_script(plans)).text == ""
    assert sorted(path.name for path in stage.iterdir()) == sorted(whole)
    for name, data in whole.items():
        (stage / name).write_bytes(data[:-1] + b"?")
        assert peer.transport.run(recheck_script(plans)).text.split() == [name]
        assert not (stage / name).exists()
        (stage / name).write_bytes(data)


def test_complete_part_is_only_checked(peer: Peer, tmp_path: Path) -> None:
    """All bytes came, the check did not: nothing is sent, and the file gets its name."""
    store = Store(tmp_path / "store")
    layer = layer_of(b"abcdef")
    store.add(b"abcdef")
    (tmp_path / "sistership" / "stage" / "x.zst.part").write_bytes(b"abcdef")
    plan = LayerPlan(layer, "send", "x.zst", 6, 0)
    assert send_layer(peer, store, plan, Encoding.ZSTD, offset=6, progress=lambda _: None, spoilt=never) == 0
    assert [path.name for path in (tmp_path / "sistership" / "stage").iterdir()] == ["x.zst"]


def test_wrong_offset_is_refused(peer: Peer, tmp_path: Path) -> None:
    """Bytes are never appended at a place that has moved meanwhile."""
    peer.transport.run(append_script("x.zst", 0), stdin=b"abc")
    assert peer.transport.run(append_script("x.zst", 2), stdin=b"zzz").status == 9
    assert (tmp_path / "sistership" / "stage" / "x.zst.part").read_bytes() == b"abc"


@pytest.mark.parametrize("offset", [0, 1, 3, 4, 7, 8])
def test_skip(offset: int) -> None:
    """Skipping gives the rest, whatever the cuts."""
    assert b"".join(skip(iter([b"abc", b"", b"defg", b"h"]), offset)) == b"abcdefgh"[offset:]


@pytest.mark.parametrize("flock", [True, False])
def test_one_ship_at_a_time(peer: Peer, flock: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second lock is refused with exit code 24 while the first is held, and granted afterwards; without flock too."""
    if not flock:
        tools = tmp_path / "bin"
        tools.mkdir()
        for tool in ("sh", "cat", "mkdir", "rmdir", "chmod"):
            (tools / tool).symlink_to(f"/bin/{tool}")
        monkeypatch.setenv("PATH", str(tools))
        monkeypatch.setattr("sistership.host.transport.EXTRA_PATH", str(tools))
    with HostLock(peer):
        with pytest.raises(LockedError) as caught, HostLock(peer):
            pass
        assert caught.value.code == 24
    with HostLock(peer):
        pass


def test_lock_goes_with_its_connection(peer: Peer) -> None:
    """When the connection that holds the lock dies, the next ship gets it."""
    first = Local("here")
    lock = HostLock(Peer(peer.host, first, Docker("docker")))
    lock.__enter__()
    threading.Timer(0.1, first.close).start()
    lock._thread.join(10)
    assert not lock._thread.is_alive()
    with HostLock(peer):
        pass
