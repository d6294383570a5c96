"""What a host makes of a difference, and of its engine's own blobs.

The shell runs for real; the engine's CLI is a stand-in that gives the files of an older image.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from sistership.host.inventory import Peer
from sistership.ship.plan import LayerPlan
from sistership.ship.remake import apply, apply_script, copy, copy_script
from sistership.ship.stage import send_layer

from .pair import NOISE, Pair, engine, never, planned


def test_host_makes_the_layer(pair: Pair, peer: Peer, stage: Path, tmp_path: Path) -> None:
    """Old file and difference become the very layer; nothing else stays, neither file nor container."""
    engine(tmp_path, NOISE)
    plan = planned(pair, pair.facts())
    each = plan.layers[1]
    send_layer(peer, pair.store, each, plan.encoding, offset=0, progress=lambda _: None, spoilt=never)
    assert [path.name for path in stage.iterdir()] == [each.file]
    assert apply(peer, plan, each) == ""
    assert [path.name for path in stage.iterdir()] == [each.loads]
    made = hashlib.sha256((stage / each.loads).read_bytes()).hexdigest()
    assert f"sha256:{made}" == pair.library.diff_id
    assert not (tmp_path / "containers").exists()


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (NOISE[:-5] + b"wrong", "not as they were built"),
        (NOISE[:-5], "files cannot be read"),
        (None, "files cannot be read"),
    ],
)
def test_wrong_old_bytes_never_become_a_layer(
    pair: Pair, peer: Peer, stage: Path, tmp_path: Path, library: bytes | None, words: str
) -> None:
    """Another, a shorter or no old file: a reason comes back, and the staging folder holds no layer."""
    engine(tmp_path, library or b"")
    if library is None:
        (tmp_path / "image" / "app" / "lib.so").unlink()
    plan = planned(pair, pair.facts())
    send_layer(peer, pair.store, plan.layers[1], plan.encoding, offset=0, progress=lambda _: None, spoilt=never)
    assert words in apply(peer, plan, plan.layers[1])
    assert [path.name for path in stage.iterdir()] == [plan.layers[1].file]
    assert not (tmp_path / "containers").exists()


def test_old_files_are_read_in_the_engine_s_own_folder(pair: Pair, peer: Peer, stage: Path, tmp_path: Path) -> None:
    """Where it is readable, the engine's command gives none of them, and the layer is the same."""
    engine(tmp_path, NOISE)
    (tmp_path / "image").rename(tmp_path / "own")
    docker = (tmp_path / "docker").read_text().split("\n", 1)
    told = f'[ "$1" != inspect ] || {{ echo "{tmp_path}/own"; exit; }}'
    (tmp_path / "docker").write_text("\n".join([docker[0], told, docker[1]]))
    plan = planned(pair, pair.facts())
    each = plan.layers[1]
    send_layer(peer, pair.store, each, plan.encoding, offset=0, progress=lambda _: None, spoilt=never)
    assert apply(peer, plan, each) == ""
    assert f"sha256:{hashlib.sha256((stage / each.loads).read_bytes()).hexdigest()}" == pair.library.diff_id


def test_full_disk_makes_no_layer(
    pair: Pair, peer: Peer, stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went to the disk is short although all of it was hashed."""
    engine(tmp_path, NOISE)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "tee").write_text(f'#!/bin/sh\n{shutil.which("tee")} /dev/null; head -c 10 /dev/zero > "$1"\n')
    (tools / "tee").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    plan = planned(pair, pair.facts())
    (stage / plan.layers[1].file).write_bytes(pair.store.path(plan.layers[1].difference.digest).read_bytes())
    assert "the disk is full" in apply(peer, plan, plan.layers[1])
    assert [path.name for path in stage.iterdir()] == [plan.layers[1].file]


def test_damaged_difference_is_told_in_the_words_of_zstd(pair: Pair, peer: Peer, stage: Path, tmp_path: Path) -> None:
    """A difference that zstd refuses, as for too little memory, comes back as a reason with its words."""
    engine(tmp_path, NOISE)
    plan = planned(pair, pair.facts())
    (stage / plan.layers[1].file).write_bytes(b"no frame")
    assert "zstd there could not unpack it: " in apply(peer, plan, plan.layers[1])


def test_two_runs_share_no_file_that_is_not_checked(
    pair: Pair, peer: Peer, stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one script waits for its engine another one makes the same layers; the first goes on with its own files."""
    plan = planned(pair, pair.facts("containerd"))
    copies = [each for each in plan.layers if each.state == "copy"]
    blobs = {f"blobs/sha256/{each.blob[7:]}": pair.store.path(each.blob).read_bytes() for each in copies}
    engine(tmp_path, NOISE, blobs)
    send_layer(peer, pair.store, plan.layers[1], plan.encoding, offset=0, progress=lambda _: None, spoilt=never)
    patch = (stage / plan.layers[1].file).read_bytes()
    # The other run comes once, when the first one's zstd is about to write, and leaves nothing of its own behind.
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "zstd").write_text(f"""#!/bin/sh
if [ -f "{tmp_path}/other" ]; then
  mv "{tmp_path}/other" "{tmp_path}/now"; sh "{tmp_path}/now" >"{tmp_path}/said" 2>&1; echo $? >"{tmp_path}/status"
  [ ! -f "{tmp_path}/patch" ] || cp "{tmp_path}/patch" "{stage}/{plan.layers[1].file}"
fi
exec {shutil.which("zstd")} "$@"
""")
    (tools / "zstd").chmod(0o755)
    monkeypatch.setattr("sistership.host.transport.EXTRA_PATH", str(tools))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    other = tmp_path / "other"
    other.write_text(copy_script(peer.engine, plan.older, copies))
    assert copy(peer, plan) == ""
    assert (tmp_path / "status").read_text() == "0\n"
    (tmp_path / "patch").write_bytes(patch)
    each = plan.layers[1]
    assert each.difference is not None
    other.write_text(apply_script(peer.engine, plan.older, each.layer, each.difference, each.file))
    assert apply(peer, plan, each) == ""
    assert (tmp_path / "status").read_text() == "0\n"
    for layer in plan.layers:
        made = hashlib.sha256((stage / layer.loads).read_bytes()).hexdigest()
        assert f"sha256:{made}" == layer.layer.diff_id
    assert sorted(path.name for path in stage.iterdir()) == sorted(layer.loads for layer in plan.layers)


def test_engine_s_own_blobs_become_plain_layers(pair: Pair, peer: Peer, stage: Path, tmp_path: Path) -> None:
    """What `docker save` gives of the containerd store is unpacked and checked; another blob is refused."""
    plan = planned(pair, pair.facts("containerd"))
    copies = [each for each in plan.layers if each.state == "copy"]
    blobs = {f"blobs/sha256/{each.blob[7:]}": pair.store.path(each.blob).read_bytes() for each in copies}
    engine(tmp_path, NOISE, blobs)
    assert copy(peer, plan) == ""
    assert sorted(path.name for path in stage.iterdir()) == sorted(each.loads for each in copies)
    for each in copies:
        made = hashlib.sha256((stage / each.loads).read_bytes()).hexdigest()
        assert f"sha256:{made}" == each.layer.diff_id
    first, second = blobs
    engine(tmp_path, NOISE, {first: blobs[second], second: blobs[second]})
    assert "came out wrong" in copy(peer, plan)
    engine(tmp_path, NOISE, {second: blobs[second]})
    assert "does not give the blob" in copy(peer, plan)
    assert not list(stage.glob("copies*"))


def test_nothing_to_make_asks_nothing(pair: Pair, peer: Peer) -> None:
    """A plan without copies or differences runs nothing on the host; its engine would fail here."""
    plan = pair.plan(pair.facts())
    assert copy(peer, plan) == ""
    assert apply(peer, plan, LayerPlan(pair.library, "send", "x", 1, 1)) == ""
