"""The store survives crashes, damage and other processes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from sistership.errors import SistershipError
from sistership.image.blobs import BlobWriter, Packed
from sistership.image.identity import Image, digest_of
from sistership.image.layout import Record, Store

from .samples import CREATED, image

KEY = "a" * 64


def _fail_after(blob: BlobWriter, data: bytes) -> None:
    blob.write(data)
    raise ZeroDivisionError


def _write_to_full_disk(blob: BlobWriter, full: BinaryIO) -> None:
    kept, blob._file = blob._file, full
    try:
        blob.write(b"x" * 10_000_000)
    finally:
        blob._file = kept


def drafts(store: Store) -> list[Path]:
    """Files under construction."""
    return list((store.root / "drafts").iterdir())


def test_is_an_oci_layout_private_to_the_user(store: Store, tmp_path: Path) -> None:
    """The folder has mode 0700, and what OCI tools look for is in it."""
    store.record(KEY, image(store, tmp_path), CREATED, name="sistership.local/x:1")
    assert store.root.stat().st_mode & 0o777 == 0o700
    assert json.loads((store.root / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((store.root / "index.json").read_text())
    (line,) = index["manifests"]
    assert digest_of(store.path(line["digest"]).read_bytes()) == line["digest"]
    assert line["size"] == store.path(line["digest"]).stat().st_size
    assert line["platform"] == {"os": "linux", "architecture": "amd64"}
    assert line["annotations"]["io.containerd.image.name"] == "sistership.local/x:1"


def test_a_blob_goes_in_and_comes_out(store: Store) -> None:
    """What was added is there under its digest."""
    digest = store.add(b"hello")
    assert store.has(digest)
    assert store.check(digest)
    assert store.read(digest) == b"hello"
    assert b"".join(store.chunks(digest)) == b"hello"


def test_a_damaged_blob_is_found_and_repaired(store: Store) -> None:
    """Its checksum tells, reading it is an error that names it, and adding it again repairs it."""
    digest = store.add(b"hello")
    store.path(digest).write_bytes(b"hellO")
    assert store.has(digest)
    assert not store.check(digest)
    for reading in (store.read, lambda digest: b"".join(store.chunks(digest))):
        with pytest.raises(SistershipError, match=digest.removeprefix("sha256:")):
            reading(digest)
    store.add(b"hello")
    assert store.check(digest)


def test_a_failed_stream_leaves_nothing(store: Store) -> None:
    """An error in the middle of a blob, and a wrong digest at its end, leave no blob and no draft."""
    with pytest.raises(ZeroDivisionError), store.writer() as blob:
        _fail_after(blob, b"half")
    with pytest.raises(SistershipError, match="not sha256:"), store.writer(digest_of(b"whole")) as blob:
        blob.write(b"half")
    assert not store.has(digest_of(b"half"))
    assert drafts(store) == []


def test_killed_while_writing(store: Store) -> None:
    """kill -9 in the middle of a blob leaves no blob; the next process to open the store clears the rest."""
    code = f"""
        import sys, time
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from sistership.image.layout import Store
        with Store(Path(sys.argv[1])).writer() as blob:
            blob.write(b"x" * 5_000_000)
            print("half", flush=True)
            time.sleep(60)
    """
    argv = [sys.executable, "-c", textwrap.dedent(code), str(store.root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == b"half\n"
        Store(store.root)
        assert len(drafts(store)) == 1, "a draft in use was swept away"
        child.send_signal(signal.SIGKILL)
    assert not any((store.root / "blobs" / "sha256").iterdir())
    Store(store.root)
    assert drafts(store) == []


def test_processes_do_not_lose_each_others_records(store: Store, tmp_path: Path) -> None:
    """Four processes write index and blobs at once; everything is there afterwards."""
    store.record(KEY, image(store, tmp_path), CREATED)
    code = f"""
        import sys
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from sistership.image.layout import Store
        root, number = Path(sys.argv[1]), sys.argv[2]
        for turn in range(5):
            store = Store(root)
            store.record(f"{{number}}-{{turn}}", store.get("a" * 64), "{CREATED}")
            store.add(b"same")
            store.add(f"{{number}}-{{turn}}".encode())
    """
    argv = [sys.executable, "-c", textwrap.dedent(code), str(store.root)]
    children = [subprocess.Popen([*argv, str(number)]) for number in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    assert {record.key for record in store.records()} == {KEY} | {f"{n}-{turn}" for n in range(4) for turn in range(5)}
    assert all(store.check(digest_of(f"{n}-{turn}".encode())) for n in range(4) for turn in range(5))
    assert drafts(store) == []


def test_a_record_gives_the_image_back(store: Store, tmp_path: Path) -> None:
    """What a recipe made is read back from the documents in the store, equal in every field."""
    made = image(store, tmp_path)
    store.record(KEY, made, CREATED, name="sistership.local/x:1")
    again = Store(store.root)
    assert again.get(KEY) == made
    assert again.records() == (Record(KEY, "sistership.local/x:1", CREATED, made.manifest),)
    assert again.get("b" * 64) is None


def test_a_new_record_replaces_the_old_one(store: Store, tmp_path: Path) -> None:
    """One recipe has one line."""
    made = image(store, tmp_path)
    store.record(KEY, made, CREATED, name="a.local/x:1")
    store.record(KEY, made, CREATED, name="a.local/x:2")
    assert [record.name for record in store.records()] == ["a.local/x:2"]


def test_get_does_not_trust_damaged_documents(store: Store, tmp_path: Path) -> None:
    """A manifest with other bytes is as good as none."""
    made = image(store, tmp_path)
    store.record(KEY, made, CREATED)
    store.path(made.manifest_plain).write_bytes(b"{}")
    assert store.get(KEY) is None


def test_a_damaged_index_is_an_error_with_a_next_step(store: Store) -> None:
    """It is not taken for an empty one."""
    (store.root / "index.json").write_bytes(b'{"manifests": [')
    with pytest.raises(SistershipError, match=r"index\.json.*damaged") as error:
        store.records()
    assert error.value.hint


def test_says_what_of_an_image_is_missing(store: Store, tmp_path: Path) -> None:
    """Missing, shortened and changed blobs are named; a changed layer only when asked to look deep."""
    made = image(store, tmp_path)
    one, two, three = (layer.digest for layer in made.layers)
    store.path(one).unlink()
    os.truncate(store.path(two), 10)
    data = bytearray(store.path(three).read_bytes())
    data[-1] ^= 1
    store.path(three).write_bytes(data)
    store.path(made.config).write_bytes(b"{}")
    assert store.image_complete(made) == [made.config, one, two]
    assert store.image_complete(made, deep=True) == [made.config, one, two, three]


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"diff_id": 1}'])
def test_a_damaged_note_of_a_layer_is_ignored(text: bytes, store: Store) -> None:
    """blob_of answers only from a whole note about a blob that is there."""
    packed = Packed(digest_of(b"plain"), 5, store.add(b"zstd"), 4)
    assert store.blob_of(packed.diff_id) is None
    store.remember(packed)
    assert store.blob_of(packed.diff_id) == packed
    (store.root / "layers" / packed.diff_id.removeprefix("sha256:")).write_bytes(text)
    assert store.blob_of(packed.diff_id) is None


def test_a_note_about_a_missing_blob_is_ignored(store: Store) -> None:
    """The blob went, so the layer has to be packed again."""
    packed = Packed(digest_of(b"plain"), 5, store.add(b"zstd"), 4)
    store.remember(packed)
    store.path(packed.digest).unlink()
    assert store.blob_of(packed.diff_id) is None


def test_knows_sizes_of_layers_that_are_here(store: Store) -> None:
    """Only notes with their blob count; what else lies in the folder does not matter."""
    packed = Packed(digest_of(b"plain"), 5, store.add(b"zstd"), 4)
    assert not store.may_hold(5)
    store.remember(packed)
    (store.root / "layers" / "notes.txt").write_text("mine")
    assert store.may_hold(5)
    assert not store.may_hold(4)
    store.path(packed.digest).unlink()
    assert not store.may_hold(5)


def test_a_disk_that_fails_early_is_heard(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells of an error while bytes go to the disk only once, and that may be before the end."""
    told = [OSError(errno.EIO, "Input/output error")]

    def once(_: int) -> None:
        if told:
            raise told.pop()

    monkeypatch.setattr("sistership.image.blobs._AHEAD", 1000)
    monkeypatch.setattr(os, "fdatasync", once)
    with pytest.raises(SistershipError, match="Input/output error"), store.writer() as blob:
        blob.write(bytes(2000))
    assert (drafts(store), store.blobs()) == ([], {})
    with store.writer() as blob:
        for _ in range(5):
            blob.write(bytes(2000))
    assert store.check(blob.digest)


def test_a_file_in_the_way_is_explained(tmp_path: Path) -> None:
    """A store that cannot be made is an error with the path and the next step, no traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SistershipError) as error:
        Store(tmp_path / "file" / "store")
    assert error.value.where == str(tmp_path / "file" / "store")
    assert error.value.hint


def test_a_full_disk_is_explained(store: Store) -> None:
    """Writing past the end of the disk says so, names the store, and leaves nothing."""
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115
    with full, pytest.raises(SistershipError) as error, store.writer() as blob:
        _write_to_full_disk(blob, cast(BinaryIO, full))
    assert error.value.why == os.strerror(errno.ENOSPC)
    assert "free space" in str(error.value)
    assert drafts(store) == []


def test_a_short_id_is_no_digest(store: Store) -> None:
    """No path is made from anything but a full digest."""
    for text in ("sha256:abc", "../../etc/passwd", "sha256:" + "G" * 64):
        with pytest.raises(SistershipError, match="not a sha256 digest"):
            store.path(text)


def test_image_survives_json(store: Store, tmp_path: Path) -> None:
    """The lock's record gives the image back."""
    made = image(store, tmp_path)
    assert Image.from_json(json.loads(json.dumps(made.to_json()))) == made
