"""The difference of two layers: small, proven, made once, and refused where it cannot be made."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sistership.errors import BuildError
from sistership.image import difference
from sistership.image.difference import NoDifferenceError, cached, free_memory, impossible, make, needed
from sistership.image.identity import Layer
from sistership.image.layout import Store
from sistership.image.pack import layer_of, pack

from .savefile import Item, directory, tar_of

NOISE = random.Random(3).randbytes(5 << 20)
#: The library after a patch release: something is other, something came in, something went.
AFTER = b"new" + NOISE[: 1 << 20] + b"inserted" * 40 + NOISE[(1 << 20) + 7 :]


def layer(store: Store, *files: tuple[bytes, bytes]) -> Layer:
    """A layer with these files, in the store."""
    data = tar_of([directory(b"app"), *(Item(b"app/" + name, data=content) for name, content in files)])
    diff_id = "sha256:" + hashlib.sha256(data).hexdigest()
    return layer_of(pack(store, diff_id, len(data), lambda: iter([data])), base=False, created_by="COPY")


def test_the_host_makes_the_layer_of_old_file_and_difference(store: Store, tmp_path: Path) -> None:
    """A few KB in place of 5 MB, and zstd's own program makes the layer of them, byte for byte."""
    old, new = layer(store, (b"lib.so", NOISE)), layer(store, (b"lib.so", AFTER))
    made = make(store, old, new)
    assert made.files == ("/app/lib.so",)
    assert (made.base, made.base_size) == (hashlib.sha256(NOISE).hexdigest(), len(NOISE))
    assert made.size == store.path(made.digest).stat().st_size < 20_000
    (tmp_path / "old").write_bytes(NOISE)
    argv = ["zstd", "-dq", "--patch-from=old", f"--memory={new.plain_size}", str(store.path(made.digest)), "-o", "tar"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    assert "sha256:" + hashlib.sha256((tmp_path / "tar").read_bytes()).hexdigest() == new.diff_id


def test_several_files_are_one_base(store: Store) -> None:
    """Large files follow each other in the order of the layer, small ones are left out."""
    half = len(NOISE) // 2
    old = layer(store, (b"a.so", NOISE[:half]), (b"b.txt", b"small"), (b"c.so", NOISE[half:]))
    made = make(store, old, layer(store, (b"a.so", AFTER)))
    assert made.files == ("/app/a.so", "/app/c.so")
    assert made.base == hashlib.sha256(NOISE).hexdigest()
    assert made.size < 20_000


def test_made_once_and_again_when_its_blob_is_not_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time it comes from the store; a blob that was removed or damaged is noticed and made anew."""
    old, new = layer(store, (b"lib.so", NOISE)), layer(store, (b"lib.so", AFTER))
    assert cached(store, old, new) is None
    made = make(store, old, new)
    for damaged in (True, False):
        assert cached(store, old, new) == made
        path = store.path(made.digest)
        path.write_bytes(b"x" * made.size) if damaged else path.unlink()
        assert cached(store, old, new) is None
        assert make(store, old, new).base == made.base
    monkeypatch.setattr(difference, "_made", None)
    assert make(store, old, new).new == new.diff_id
    assert cached(store, new, old) is None


def test_what_saves_nothing_is_remembered_as_that(store: Store) -> None:
    """Two libraries with nothing in common: no blob, and the next plan need not try again."""
    old = layer(store, (b"lib.so", NOISE))
    new = layer(store, (b"lib.so", random.Random(9).randbytes(2 << 20)))
    made = make(store, old, new)
    assert (made.digest, made.size) == ("", new.size)
    assert cached(store, old, new) == made


def test_no_large_file_no_difference(store: Store) -> None:
    """A layer of small files is no base."""
    with pytest.raises(NoDifferenceError, match="no large file"):
        make(store, layer(store, (b"x", b"small")), layer(store, (b"lib.so", AFTER)))


def test_lost_old_layer_is_an_error_of_the_store(store: Store) -> None:
    """Without the old layer's blob there is nothing to compare with."""
    old, new = layer(store, (b"lib.so", NOISE)), layer(store, (b"lib.so", AFTER))
    store.path(old.digest).unlink()
    with pytest.raises(BuildError, match="cannot be read"):
        make(store, old, new)


def test_a_frame_that_does_not_unpack_is_never_used(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting a stream in two is measured, not promised: what does not come out right is refused and removed."""
    old, new = layer(store, (b"lib.so", NOISE)), layer(store, (b"lib.so", AFTER))
    before = set((store.root / "blobs" / "sha256").iterdir())
    for name, value in (("_MAGIC", 0xFD2FB527), ("MAX_SPAN", 1 << 20)):
        with monkeypatch.context() as patched:
            patched.setattr(difference, name, value)
            patched.setattr(difference, "impossible", lambda *_: "")
            with pytest.raises(NoDifferenceError, match="does not unpack"):
                make(store, old, new)
    assert set((store.root / "blobs" / "sha256").iterdir()) == before


def test_memory_here_is_asked_before(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """About 2.4 times the library has to be free; the figures are in the reason."""
    old, new = layer(store, (b"lib.so", NOISE)), layer(store, (b"lib.so", AFTER))
    need = needed(old, new)
    assert impossible(old, new, need) == ""
    assert f"takes {need >> 20} MiB of memory" in impossible(old, new, need - 1)
    assert "an unknown amount" in impossible(old, new, None)
    assert "2 GiB" in impossible(replace(old, plain_size=1 << 30), replace(new, plain_size=(1 << 30) + 1), 1 << 40)
    monkeypatch.setattr(difference, "free_memory", lambda: need - 1)
    with pytest.raises(NoDifferenceError, match="free here"):
        make(store, old, new)


def test_free_memory_is_that_of_the_control_group(tmp_path: Path) -> None:
    """The smaller of what the machine and the group have; nothing known is not nothing free."""
    assert free_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:   2000 kB\n")
    assert free_memory(tmp_path) == 2_048_000
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("100\n")
    (group / "memory.max").write_text("max\n")
    assert free_memory(tmp_path) == 2_048_000
    (group / "memory.max").write_text("5100\n")
    assert free_memory(tmp_path) == 5000


@pytest.mark.full
def test_peak_memory_is_at_most_three_and_a_half_libraries(tmp_path: Path) -> None:
    """A process of its own that makes the difference of two 96 MiB libraries, everything counted."""
    size = 96 << 20
    program = f"""
import hashlib, random, sys
from pathlib import Path
from sistership.image import difference
from sistership.image.layout import Store
from sistership.image.pack import layer_of, pack
import tarfile
store = Store(Path(sys.argv[1]))
def layer(seed):
    def chunks():
        member = tarfile.TarInfo("lib.so")
        member.size = {size}
        yield member.tobuf()
        for number in range({size >> 20}):
            yield random.Random(seed if number == 40 else number).randbytes(1 << 20)
        yield bytes(1024)
    found, length = hashlib.sha256(), 0
    for chunk in chunks():
        found.update(chunk)
        length += len(chunk)
    return layer_of(pack(store, "sha256:" + found.hexdigest(), length, chunks), base=False, created_by="")
old, new = layer(-1), layer(-2)
assert difference.make(store, old, new).size < 2 << 20
print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) << 10)
"""
    argv = [sys.executable, "-c", program, str(tmp_path / "store")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3.5 * size
