"""Putting an archive together on a host, and never believing what a load says of itself.

The shell runs for real; the engine's CLI is a stand-in here, because a sound engine does not lie on demand.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tarfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sistership.errors import ShipError
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.archive import Piece, pieces, write
from sistership.image.documents import image_of
from sistership.image.identity import Image
from sistership.image.layout import Store
from sistership.image.pack import layer_of, pack
from sistership.image.release import Release
from sistership.report.listeners import Silent
from sistership.ship.host import ship_host
from sistership.ship.load import Assembly, assemble, give_up_script, load, put
from sistership.ship.plan import Encoding
from sistership.ship.stage import content

NAME = "sistership.local/x:0123456789ab"


def image(store: Store) -> Image:
    """A small image of two layers, every blob in the store."""
    layers = []
    for number in (1, 2):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            member = tarfile.TarInfo(f"app/{number}")
            member.size = 70_000
            tar.addfile(member, io.BytesIO(bytes([number]) * 70_000))
        data = out.getvalue()
        diff_id = "sha256:" + hashlib.sha256(data).hexdigest()
        packed = pack(store, diff_id, len(data), lambda data=data: iter([data]))
        layers.append(layer_of(packed, base=number == 1, created_by=f"layer {number}"))
    diff_ids = [layer.diff_id for layer in layers]
    config = {"architecture": "amd64", "os": "linux", "created": "2026-01-01T00:00:00Z", "config": {}}
    config["rootfs"] = {"type": "layers", "diff_ids": diff_ids}
    made, *documents = image_of(json.dumps(config).encode(), layers)
    for document in (json.dumps(config).encode(), *documents):
        store.add(document)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def engine(tmp_path: Path, script: str) -> None:
    """Make the stand-in engine."""
    path = tmp_path / "docker"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def daemon(tmp_path: Path, load: str, *more: str) -> None:
    """Make a stand-in for a classic engine without images, as far as a ship asks it.

    Args:
        load: what it does when it has read the archive.
        more: answers before the usual ones, as branches of `case "$1 $2" in`.
    """
    version = json.dumps({"Version": "26.1.5", "Os": "linux", "Arch": "amd64"})
    answers = [
        *more,
        f"\"version \"*) echo '{version}' ;;",
        """"info "*) case "$3" in *Root*) echo / ;; *) echo '{"ID":"A","DriverStatus":[]}' ;; esac ;;""",
        f'"load "*) cat >/dev/null; {load} ;;',
        '"image ls") ;;',
        "*) exit 1 ;;",
    ]
    engine(tmp_path, "\n".join(['case "$1 $2" in', *answers, "esac\n"]))


def staged(store: Store, stage: Path, made: Image) -> list[Path]:
    """Every layer of the image lies there; the files, lowest layer first."""
    files = [stage / f"{layer.digest[7:]}.zst" for layer in made.layers]
    for file, layer in zip(files, made.layers, strict=True):
        file.write_bytes(store.path(layer.digest).read_bytes())
    return files


def archive(parts: Sequence[Piece], store: Store) -> bytes:
    """The archive as it would be written here."""
    out = io.BytesIO()
    write(parts, store, out)
    return out.getvalue()


def placed(peer: Peer, assembly: Assembly, release: Release, name: str = "") -> str:
    """Stage the metadata and load."""
    put(peer, assembly, release)
    return load(peer, assembly, name)


@pytest.mark.parametrize(
    ("encoding", "plain"),
    [(Encoding.ZSTD, False), (Encoding.ZSTD, True), (Encoding.GZIP, True), (Encoding.PLAIN, True)],
)
def test_host_reads_the_very_archive(
    tmp_path: Path, store: Store, stage: Path, peer: Peer, encoding: Encoding, plain: bool
) -> None:
    """What the shell puts together from staged files is the archive, byte for byte, in every encoding."""
    engine(tmp_path, f'cat > "{tmp_path}/got"; echo "Loaded image: {NAME}"\n')
    made = image(store)
    release = Release("x", "0" * 64, "x:1", made)
    parts = pieces(made, store, name=NAME, plain=plain)
    from sistership.ship.plan import staged_name  # noqa: PLC0415 - beside its only use

    for layer in made.layers:
        (stage / staged_name(layer, encoding)).write_bytes(b"".join(content(store, layer, encoding)))
    placed(peer, assemble(parts, release, encoding), release)
    assert (tmp_path / "got").read_bytes() == archive(parts, store)
    assert not list(stage.glob("*.meta*"))


@pytest.mark.parametrize("status", [0, 3])
def test_loaded_image_gets_its_time(tmp_path: Path, store: Store, stage: Path, peer: Peer, status: int) -> None:
    """Its unique name is given once more, since a classic engine notes no time of a load; the load's status counts."""
    made = image(store)
    asked = tmp_path / "asked"
    engine(tmp_path, f'echo "$*" >> "{asked}"; [ "$1" != load ] || {{ cat >/dev/null; exit {status}; }}\nexit 1')
    staged(store, stage, made)
    release = Release("x", "0" * 64, "x:1", made)
    assembly = assemble(pieces(made, store, name=NAME, plain=False), release, Encoding.ZSTD)
    with pytest.raises(ShipError) if status else contextlib.nullcontext():
        placed(peer, assembly, release, NAME)
    assert asked.read_text().splitlines() == ["load", *([] if status else [f"tag {NAME} {NAME}"])]
    assert not list(stage.glob("*.meta*"))


def test_lost_file_cuts_the_archive_before_its_metadata(tmp_path: Path, store: Store, stage: Path, peer: Peer) -> None:
    """A staged layer that vanished ends the stream early: no manifest, so no engine makes an image of it."""
    engine(tmp_path, f'cat > "{tmp_path}/got"; echo "unexpected EOF" >&2; exit 1\n')
    made = image(store)
    parts = pieces(made, store, name=NAME, plain=False)
    first = made.layers[0]
    (stage / f"{first.digest[7:]}.zst").write_bytes(b"".join(content(store, first, Encoding.ZSTD)))
    release = Release("x", "0" * 64, "x:1", made)
    with pytest.raises(ShipError, match="refused the image"):
        placed(peer, assemble(parts, release, Encoding.ZSTD), release)
    assert b"manifest.json" not in (tmp_path / "got").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        "echo 'Loaded image(s): '",
        'echo \'{"errorDetail":{"message":"archive/tar: invalid tar header"}}\'',
        "true",
        "echo 'Loaded image: sistership.local/x:0123456789ab'",
    ],
)
def test_load_that_only_says_so_is_a_failure(tmp_path: Path, store: Store, stage: Path, peer: Peer, words: str) -> None:
    """Exit 0, "Loaded image", an error inside the stream or nothing at all: without the image it failed (C28, C30)."""
    daemon(tmp_path, words, f'"tag "*) [ "$3" != x:1 ] || touch "{tmp_path}/tagged" ;;')
    shipped = ship_host(peer, [Release("x", "0" * 64, "x:1", image(store))], store, Silent())
    assert shipped.code == 22
    assert shipped.error is not None
    assert "the tag was not moved" in shipped.error.what
    assert not (tmp_path / "tagged").exists()


@pytest.mark.parametrize("status", [0, 1])
def test_what_was_damaged_in_staging_is_sent_anew(
    tmp_path: Path, store: Store, stage: Path, peer: Peer, status: int
) -> None:
    """An earlier run staged both layers, one is damaged since: it goes when the load fails, said or not; no other."""
    daemon(tmp_path, f"exit {status}")
    made = image(store)
    sound, damaged = staged(store, stage, made)
    damaged.write_bytes(bytes(made.layers[1].size))
    for sent in (0, made.layers[1].size):
        shipped = ship_host(peer, [Release("x", "0" * 64, "x:1", made)], store, Silent())
        assert (shipped.code, shipped.sent) == (22, sent)
        assert damaged.exists() == bool(sent)
        assert sound.exists()


def test_what_the_disk_spoils_in_the_same_run_is_sent_anew(
    tmp_path: Path, store: Store, stage: Path, peer: Peer
) -> None:
    """Sent and checked by this very ship, then damaged: it goes as well, so that the next ship completes."""
    made = image(store)
    damaged, sound = (f"{layer.digest[7:]}.zst" for layer in made.layers)
    daemon(tmp_path, f'printf x >> "{stage}/{damaged}"; exit 1')
    shipped = ship_host(peer, [Release("x", "0" * 64, "x:1", made)], store, Silent())
    assert (shipped.code, shipped.sent) == (22, sum(layer.size for layer in made.layers))
    assert not (stage / damaged).exists()
    assert (stage / sound).exists()


def test_load_of_nothing_beside_an_older_image_is_missing(
    tmp_path: Path, store: Store, stage: Path, peer: Peer
) -> None:
    """What has the people's name is the older image; that it is another one is not what went wrong."""
    older = {"Id": "sha256:" + "e" * 64, "RepoTags": ["x:1"], "Os": "linux", "Architecture": "amd64"}
    listed, shown = f'"image ls") echo {older["Id"]} ;;', f'"image inspect") echo {quote(json.dumps(older))} ;;'
    daemon(tmp_path, f"echo 'Loaded image: {NAME}'", listed, shown)
    shipped = ship_host(peer, [Release("x", "0" * 64, "x:1", image(store))], store, Silent())
    assert shipped.error is not None
    assert (shipped.code, shipped.error.what) == (22, "after the load it is missing; the tag was not moved")


@pytest.mark.parametrize("plain", [False, True])
def test_layers_that_still_come_make_the_very_archive(
    tmp_path: Path, store: Store, stage: Path, peer: Peer, plain: bool
) -> None:
    """One is whole in part only, the other is not there yet: what the engine reads is the archive, byte for byte."""
    engine(tmp_path, f'touch "{tmp_path}/begun"; cat > "{tmp_path}/got"; echo "Loaded image: {NAME}"\n')
    made = image(store)
    release = Release("x", "0" * 64, "x:1", made)
    parts = pieces(made, store, name=NAME, plain=plain)
    files = [stage / f"{layer.digest[7:]}.zst" for layer in made.layers]
    blobs = [store.path(layer.digest).read_bytes() for layer in made.layers]
    part = files[0].with_name(f"{files[0].name}.part")
    part.write_bytes(blobs[0][:20])
    assembly = assemble(parts, release, Encoding.ZSTD, coming=made.diff_ids)
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(placed, peer, assembly, release)
        _until((tmp_path / "begun").exists)
        with part.open("ab") as file:
            file.write(blobs[0][20:])
        part.rename(files[0])
        files[1].with_suffix(".part").write_bytes(blobs[1])
        files[1].with_suffix(".part").rename(files[1])
        loading.result(30)
    assert (tmp_path / "got").read_bytes() == archive(parts, store)
    assert sorted(path.name for path in stage.iterdir()) == sorted(path.name for path in files)


@pytest.mark.parametrize("plain", [False, True])
def test_layer_that_is_never_named_gives_no_metadata(
    tmp_path: Path, store: Store, stage: Path, peer: Peer, plain: bool
) -> None:
    """All its bytes were read, and its sum was wrong: its file goes, the load is given up, no image can come of it."""
    engine(tmp_path, f'cat > "{tmp_path}/got"; echo "unexpected EOF" >&2; exit 1\n')
    made = image(store)
    release = Release("x", "0" * 64, "x:1", made)
    first, last = made.layers
    (stage / f"{first.digest[7:]}.zst").write_bytes(store.path(first.digest).read_bytes())
    part = stage / f"{last.digest[7:]}.zst.part"
    part.write_bytes(store.path(last.digest).read_bytes())
    parts = pieces(made, store, name=NAME, plain=plain)
    assembly = assemble(parts, release, Encoding.ZSTD, coming={last.diff_id})
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(placed, peer, assembly, release)
        _until(lambda: (stage / assembly.promise).exists() and (tmp_path / "got").exists())
        peer.transport.run(give_up_script([assembly.promise]))
        part.unlink()
        with pytest.raises(ShipError, match="refused the image"):
            loading.result(30)
    assert b"manifest.json" not in (tmp_path / "got").read_bytes()


def test_layers_above_wait_for_those_below(tmp_path: Path, store: Store, stage: Path, peer: Peer) -> None:
    """The engine takes in the layers at once, and gets no metadata before the load below has ended."""
    engine(tmp_path, f'cat > "{tmp_path}/got"; echo "Loaded image: {NAME}"\n')
    made = image(store)
    release = Release("x", "0" * 64, "x:1", made)
    staged(store, stage, made)
    below = stage / "below"
    below.touch()
    parts = pieces(made, store, name=NAME, plain=False)
    assembly = assemble(parts, release, Encoding.ZSTD, after=below.name)
    layers = sum(layer.size for layer in made.layers)
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(placed, peer, assembly, release)
        _until(lambda: (tmp_path / "got").exists() and (tmp_path / "got").stat().st_size > layers)
        assert b"manifest.json" not in (tmp_path / "got").read_bytes()
        (stage / "below.loaded").touch()
        below.unlink()
        loading.result(30)
    assert (tmp_path / "got").read_bytes() == archive(parts, store)
    assert not list(stage.glob("*.meta*"))
    assert not list(stage.glob("*.loaded"))


def test_layers_above_are_nothing_without_those_below(tmp_path: Path, store: Store, stage: Path, peer: Peer) -> None:
    """The load below ended without a word of success: no image can come of the layers above."""
    engine(tmp_path, f'cat > "{tmp_path}/got"; echo "unexpected EOF" >&2; exit 1\n')
    made = image(store)
    release = Release("x", "0" * 64, "x:1", made)
    staged(store, stage, made)
    parts = pieces(made, store, name=NAME, plain=False)
    with pytest.raises(ShipError, match="refused the image"):
        placed(peer, assemble(parts, release, Encoding.ZSTD, after="below"), release)
    assert b"manifest.json" not in (tmp_path / "got").read_bytes()


def _until(true: Callable[[], bool]) -> None:
    """Wait for a condition, 20 seconds at most."""
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)
