"""Differences in place of whole layers: when, why not, and what a host does with one.

The shell runs for real; the engine's CLI is a stand-in that gives the files of an older image.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sistership.host.docker import Docker
from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.image.difference import Difference, make
from sistership.image.documents import image_of
from sistership.image.identity import Image, Layer
from sistership.image.layout import Store
from sistership.image.pack import layer_of, pack
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.report.events import Event, Listener, Step
from sistership.ship import difference
from sistership.ship.difference import (
    NO_OLDER,
    Older,
    apply,
    apply_script,
    copy,
    copy_script,
    improved,
    older_image,
    plan_seconds,
    reason_against,
    unable,
    with_differences,
)
from sistership.ship.have import known_manifests
from sistership.ship.plan import Encoding, HostPlan, LayerPlan, plan_host
from sistership.ship.sound import Sound
from sistership.ship.stage import send_layer
from sistership.ship.staging import Staging
from sistership.verify.verdict import Kind, Verdict

MISSING = Verdict(Kind.MISSING)
NOISE = random.Random(4).randbytes(3 << 20)
AFTER = NOISE[:1000] + b"patched" + NOISE[1003:]
ROOMY = HostFacts(
    "26.1.5", "classic", "ID", "linux/amd64", 1 << 40, 1 << 40, False, {}, frozenset({"zstd", "gzip"}), (),
    zstd="1.5.4", memory=1 << 40,
)  # fmt: skip


def layer(store: Store, instruction: str, path: str, data: bytes, *, base: bool = False) -> Layer:
    """A layer of one file, in the store."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(path)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    plain = out.getvalue()
    diff_id = "sha256:" + hashlib.sha256(plain).hexdigest()
    return layer_of(pack(store, diff_id, len(plain), lambda: iter([plain])), base=base, created_by=instruction)


def image(store: Store, key: str, layers: Sequence[Layer]) -> Image:
    """An image of these layers, recorded as a build does it."""
    config: dict[str, Any] = {"architecture": "amd64", "os": "linux", "config": {}, "created": key}
    config["rootfs"] = {"type": "layers", "diff_ids": [each.diff_id for each in layers]}
    config["history"] = [{"created_by": each.created_by} for each in layers]
    document = json.dumps(config).encode()
    made, *manifests = image_of(document, layers)
    for each in (document, *manifests):
        store.add(each)
    store.record(key * 64, made, "2026-01-01")
    return made


class Pair:
    """An older image and the release that follows it: another library, the same base and program."""

    def __init__(self, store: Store) -> None:
        self.store = store
        base = layer(store, "base layer 1", "etc/x", random.Random(1).randbytes(2 << 20), base=True)
        program = layer(store, "COPY bin", "app/bin/x", b"program")
        self.old_library = layer(store, "COPY lib", "app/lib.so", NOISE)
        self.library = layer(store, "COPY lib", "app/lib.so", AFTER)
        self.old = image(store, "a", [base, self.old_library, program])
        self.release = Release("x", "b" * 64, "x:1", image(store, "b", [base, self.library, program]))

    def facts(self, store: str = "classic", *, plain: bool = False, **changes: Any) -> HostFacts:
        """A host that holds the older image."""
        shown = self.old.manifest_plain if plain else self.old.manifest
        held = HeldImage(
            self.old.config if store == "classic" else shown, ("x:1",), self.old.diff_ids, "linux/amd64", {}, ""
        )
        return replace(ROOMY, store=store, images=(held,), **changes)

    def plan(self, facts: HostFacts) -> HostPlan:
        """What a ship would do without differences."""
        return plan_host("here", self.release, facts, MISSING, known_manifests(self.store))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the two images and their difference: packed once."""
    root = tmp_path_factory.mktemp("packed") / "store"
    found(Pair(Store(root)))
    return root


@pytest.fixture
def pair(packed: Path, tmp_path: Path) -> Pair:
    """The two images in a store."""
    return Pair(Store(shutil.copytree(packed, tmp_path / "store")))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's staging folder, in a place of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "sistership" / "stage"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """This machine, whose engine is the script `docker` below tmp_path; it gives what `engine` puts there."""
    transport = Local("here")
    yield Peer(Host("here", local=True, docker_host="unix:///nowhere"), transport, Docker(str(tmp_path / "docker")))
    transport.close()


def engine(tmp_path: Path, library: bytes, saved: dict[str, bytes] | None = None) -> None:
    """A stand-in engine: a container with app/lib.so, and an archive for `docker save`."""
    (tmp_path / "image" / "app").mkdir(parents=True, exist_ok=True)
    (tmp_path / "image" / "app" / "lib.so").write_bytes(library)
    with tarfile.open(tmp_path / "saved", "w") as tar:
        for name, data in (saved or {}).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    path = tmp_path / "docker"
    path.write_text(f"""#!/bin/sh
cd "{tmp_path}"
case "$1" in
create) echo warning >&2; echo c1; echo c1 >> containers ;;
cp) f=image${{2#c1:}}; [ -f "$f" ] && tar -cf - -C "$(dirname "$f")" "$(basename "$f")" ;;
rm) rm containers ;;
save) cat saved ;;
esac
""")
    path.chmod(0o755)


def found(pair: Pair) -> dict[str, Difference]:
    """The difference of the pair's library."""
    return {pair.library.diff_id: make(pair.store, pair.old_library, pair.library)}


def planned(pair: Pair, facts: HostFacts) -> HostPlan:
    """The plan with it."""
    older = Older(facts.images[0].id, pair.old)
    had = frozenset(pair.old.diff_ids) if older.held == pair.old.manifest_plain else frozenset()
    had = had or (frozenset(pair.old.diff_ids[:1]) if facts.store == "classic" else had)
    return with_differences(pair.plan(facts), pair.release, facts, older, found(pair), had)


def states(plan: HostPlan) -> list[str]:
    """The plan's word for each layer."""
    return [each.state for each in plan.layers]


def test_older_image_is_the_tagged_one_else_the_newest(pair: Pair) -> None:
    """Only an image whose ID and layers are ours counts, and only with a layer that the same instruction made."""
    large = [pair.library]
    newer = image(pair.store, "c", [pair.old_library])
    other = HeldImage(newer.config, (), newer.diff_ids, "linux/amd64", {}, "")
    facts = pair.facts()
    images = [pair.old, newer, pair.release.image]
    assert older_image(pair.release, facts, images, large) == Older(pair.old.config, pair.old)
    both = replace(facts, images=(replace(facts.images[0], tags=()), other))
    assert older_image(pair.release, both, images, large) == Older(newer.config, newer)
    tagged = replace(facts, images=(*facts.images, other))
    assert older_image(pair.release, tagged, images, large) == Older(pair.old.config, pair.old)
    broken = replace(facts, images=(replace(facts.images[0], diff_ids=()),))
    assert older_image(pair.release, broken, images, large) is None
    assert older_image(pair.release, facts, images, [replace(pair.library, created_by="COPY elsewhere")]) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"zstd": "1.4.5"}, ""),
        ({"zstd": ""}, "no zstd"),
        ({"zstd": "1.4.4"}, "zstd there is 1.4.4, differences need 1.4.5"),
        ({"memory": None}, "not known"),
    ],
)
def test_host_has_to_be_able(changes: dict[str, Any], words: str) -> None:
    """No zstd, one before 1.4.5, or memory that nobody knows: the whole layer is sent, and the plan says why."""
    assert words in unable(replace(ROOMY, **changes))
    assert bool(words) == bool(unable(replace(ROOMY, **changes)))


def test_classic_store_keeps_what_it_has(pair: Pair) -> None:
    """Only the library's layer changes; what lies above it is sent as ever."""
    plan = planned(pair, pair.facts())
    assert states(plan) == ["have", "difference", "send"]
    assert (plan.plain, plan.encoding, plan.older) == (True, Encoding.ZSTD, pair.old.config)
    assert plan.send < 20_000
    assert plan.files[pair.library.diff_id] == f"{pair.library.diff_id[7:]}.tar"


def test_containerd_store_unpacks_its_own_blobs(pair: Pair) -> None:
    """One plain layer makes the whole manifest plain: what is there compressed is unpacked there, not sent."""
    plan = planned(pair, pair.facts("containerd"))
    assert states(plan) == ["copy", "difference", "copy"]
    assert plan.send == plan.layers[1].send
    assert plan.leave_out == frozenset()
    plan = planned(pair, pair.facts("containerd", plain=True))
    assert states(plan) == ["have", "difference", "have"]


def test_plain_blobs_there_make_the_next_plan_plain(pair: Pair) -> None:
    """After a difference the containerd store has plain blobs; without any, zstd ones are sent as before."""
    plan = pair.plan(pair.facts("containerd", plain=True))
    assert (states(plan), plan.plain) == (["have", "send", "have"], True)
    plan = pair.plan(pair.facts("containerd"))
    assert (states(plan), plan.plain) == (["have", "send", "have"], False)


def test_time_or_bytes_decide(pair: Pair) -> None:
    """A slow link takes the difference, a fast one the whole layer; when bytes count, the speed does not."""
    facts = pair.facts()
    plan, other = pair.plan(facts), planned(pair, facts)
    assert reason_against(plan, other, facts, 1e5) == ""
    assert "sooner" in reason_against(plan, other, facts, 117e6)
    assert reason_against(plan, other, facts, None) == ""
    assert "disk" in reason_against(plan, other, replace(facts, free=1000), None) or "needs" in reason_against(
        plan, other, replace(facts, stage_free=70 << 20), None
    )
    assert "unpacked" in reason_against(plan, plan, facts, None)
    assert plan_seconds(other, 1e6) > other.send / 1e6


def test_plan_gets_a_difference_when_bytes_count(pair: Pair, peer: Peer) -> None:
    """Asked for few bytes, the library's layer is a difference, with what it replaces; it is in the store then."""
    facts = pair.facts()
    plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store, minimize=True)
    assert states(plan) == ["have", "difference", "send"]
    assert "whole it is 3.0 MiB" in plan.layers[1].why
    assert plan.layers[1].difference == found(pair)[pair.library.diff_id]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"images": ()}, NO_OLDER),
        ({"zstd": "1.4.4"}, "1.4.4"),
        ({"memory": 1 << 20}, "are free there"),
    ],
)
def test_plan_says_why_there_is_none(pair: Pair, peer: Peer, changes: dict[str, Any], words: str) -> None:
    """What stands against a difference is told with the layer that is sent whole."""
    facts = replace(pair.facts(), **changes)
    plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store, minimize=True)
    assert states(plan)[1] == "send"
    assert words in plan.layers[1].why


def test_store_that_lost_the_older_layer(pair: Pair, peer: Peer) -> None:
    """Without the old bytes here there is no difference, and no error either."""
    pair.store.path(pair.old_library.digest).unlink()
    pair.store.path(found(pair)[pair.library.diff_id].digest).unlink()
    facts = pair.facts()
    plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store, minimize=True)
    assert "has lost the older layer" in plan.layers[1].why


def test_incomplete_image_gets_everything_anew(pair: Pair, peer: Peer) -> None:
    """Where an image turned out incomplete, nothing that lies there is built upon."""
    facts = pair.facts()
    plan = plan_host("here", pair.release, facts, Verdict(Kind.INCOMPLETE))
    same = improved(peer, pair.release, facts, Verdict(Kind.INCOMPLETE), plan, pair.store, minimize=True)
    assert same == plan


def test_link_is_measured_once_and_only_where_it_matters(
    pair: Pair, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the speed that was found the layer is whole or a difference; the reason names it."""
    facts = pair.facts()
    for speed, state in ((2e5, "difference"), (117e6, "send")):
        asked: list[Peer] = []

        def measured(peer: Peer, size: int, speed: float = speed, asked: list[Peer] = asked) -> float:
            assert size < pair.library.size / 10
            asked.append(peer)
            return speed

        monkeypatch.setattr(difference, "link_speed", measured)
        plan = improved(peer, pair.release, facts, MISSING, pair.plan(facts), pair.store)
        assert states(plan)[1] == state
        assert asked == [peer]
    assert "at 111.6 MiB/s the whole layer is there sooner" in plan.layers[1].why


def test_speed_is_bounded(peer: Peer, stage: Path) -> None:
    """No link counts as faster than 1 Gbit/s, since so few bytes cannot tell."""
    for size in (1 << 16, 1 << 30):
        assert 0 < difference.link_speed(peer, size) <= 117e6 + 1


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


def test_damaged_difference_is_told_in_the_words_of_zstd(pair: Pair, peer: Peer, stage: Path, tmp_path: Path) -> None:
    """A difference that zstd refuses, as for too little memory, comes back as a reason with its words."""
    engine(tmp_path, NOISE)
    plan = planned(pair, pair.facts())
    (stage / plan.layers[1].file).write_bytes(b"no frame")
    assert "zstd there could not unpack it: " in apply(peer, plan, plan.layers[1])


def never() -> None:
    """Nothing that came before is wrong here."""
    raise AssertionError("sent twice")


def staged(
    pair: Pair, peer: Peer, plan: HostPlan, facts: HostFacts, steps: Steps, otherwise: Callable[[], None] = never
) -> tuple[HostPlan, int]:
    """What a ship stages."""
    with Sound(pair.store) as sound:
        return Staging(peer, pair.release, pair.store, steps, lambda _: None, sound).stage(plan, facts, otherwise)


class Steps(Listener):
    """Keeps what is said of a host."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def tell(self, event: Event) -> None:
        """Note a step."""
        if isinstance(event, Step):
            self.said.append(event.text)


def test_layer_is_sent_whole_once_when_it_cannot_be_made(pair: Pair, peer: Peer, stage: Path, tmp_path: Path) -> None:
    """The fallback is told, its bytes count, and the engine is then fed from the whole layer's file."""
    engine(tmp_path, NOISE[:-5] + b"wrong")
    plan, steps = planned(pair, pair.facts()), Steps()
    otherwise: list[str] = []
    done, sent = staged(pair, peer, plan, pair.facts(), steps, lambda: otherwise.append("told"))
    assert otherwise == ["told"]
    assert sent == plan.send + pair.library.size
    assert states(done) == ["have", "send", "send"]
    assert done.files[pair.library.diff_id] == f"{pair.library.digest[7:]}.zst"
    assert (stage / done.files[pair.library.diff_id]).stat().st_size == pair.library.size
    assert [text for text in steps.said if "not as they were built" in text and "sending it whole" in text]


def test_cut_difference_goes_on_where_it_stopped(pair: Pair, peer: Peer, stage: Path) -> None:
    """The first half lies there: the plan counts the rest, only that is sent, and the sum is that of the whole."""
    each = planned(pair, pair.facts()).layers[1]
    assert each.difference is not None
    blob = pair.store.path(each.difference.digest).read_bytes()
    (stage / f"{each.file}.part").write_bytes(blob[:100])
    plan = planned(pair, pair.facts(staged={f"{each.file}.part": 100}))
    assert plan.layers[1].send == each.size - 100
    each, encoding = plan.layers[1], plan.encoding
    sent = send_layer(peer, pair.store, each, encoding, offset=100, progress=lambda _: None, spoilt=never)
    assert sent == len(blob) - 100
    assert (stage / each.file).read_bytes() == blob
    done = planned(pair, pair.facts(staged={each.file: len(blob)})).layers[1]
    assert (done.state, done.send) == ("difference", 0)
    made = planned(pair, pair.facts(staged={each.loads: pair.library.plain_size})).layers[1]
    assert (made.state, made.file, made.send) == ("staged", each.loads, 0)


@pytest.mark.parametrize("name", ["part", "short"])
def test_complete_part_of_a_difference_is_used(pair: Pair, peer: Peer, stage: Path, tmp_path: Path, name: str) -> None:
    """After a link that was cut before the check, or a power cut that left the checked file short; no whole layer."""
    engine(tmp_path, NOISE)
    each = planned(pair, pair.facts()).layers[1]
    assert each.difference is not None
    blob = pair.store.path(each.difference.digest).read_bytes()
    file, data = (f"{each.file}.part", blob) if name == "part" else (each.file, blob[:-10])
    (stage / file).write_bytes(data)
    facts = pair.facts(staged={file: len(data)})
    plan = planned(pair, facts)
    assert plan.layers[1].send == (0 if name == "part" else len(blob))
    done, sent = staged(pair, peer, plan, facts, Steps())
    assert (states(done), sent) == (states(plan), plan.send)
    assert (stage / each.loads).stat().st_size == pair.library.plain_size
    assert not list(stage.glob("*.part"))


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


def test_layer_made_by_a_ship_that_was_cut_is_used(pair: Pair) -> None:
    """A plain layer that lies there, checked, is not sent again in any form, on either store."""
    for store in ("classic", "containerd"):
        facts = pair.facts(store, staged={f"{pair.library.diff_id[7:]}.tar": pair.library.plain_size})
        plan = plan_host("here", pair.release, replace(facts, images=()), MISSING, {})
        assert (states(plan), plan.plain) == (["send", "staged", "send"], True)


def test_nothing_to_make_asks_nothing(pair: Pair, peer: Peer) -> None:
    """A plan without copies or differences runs nothing on the host; its engine would fail here."""
    plan = pair.plan(pair.facts())
    assert copy(peer, plan) == ""
    assert apply(peer, plan, LayerPlan(pair.library, "send", "x", 1, 1)) == ""
