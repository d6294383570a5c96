"""What goes from the store, that what is needed never does, and that a cut loses nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership.errors import LockedError
from sistership.image import gc
from sistership.image.blobs import Packed
from sistership.image.identity import digest_of
from sistership.image.layout import Store

from .samples import CREATED, LIB, image
from .savefile import Item, Save, directory, tar_of

if TYPE_CHECKING:
    from sistership.image.identity import Image

DAYS = 86400.0
NOW = time.time()
OLD, NEW, BASE = "1" * 64, "2" * 64, "debian:12@sha256:" + "b" * 64


def another(store: Store, folder: Path, text: bytes) -> Image:
    """An image that shares base and library with every other one here; its program is its own."""
    program = tar_of([directory(b"opt"), directory(b"opt/bin"), Item(b"opt/bin/app", data=text * 999, mode=0o755)])
    base = tar_of([directory(b"etc"), Item(b"etc/os-release", data=b"ID=x\n"), directory(b"opt")])
    return image(store, folder, Save([base, LIB, program], {"Env": ["PATH=/bin"]}))


def made(store: Store, folder: Path, key: str, text: bytes, age: float) -> Image:
    """An image that a recipe made, last used `age` days before NOW."""
    found = another(store, folder, text)
    store.record(key, found, CREATED, name=f"sistership.local/{text.decode()}:1")
    os.utime(store.path(found.manifest), (NOW - age * DAYS,) * 2)
    return found


def blobs_of(found: Image) -> set[str]:
    """Every blob of an image."""
    return {found.config, found.manifest, found.manifest_plain, *(layer.digest for layer in found.layers)}


def keeps(store: Store, keys: frozenset[str] = frozenset()) -> dict[str, str]:
    """Recipe key (or pin) → why it stays."""
    return {item.entry.key or item.entry.base: item.keep for item in gc.unneeded(store, keys, now=NOW).items}


@pytest.mark.parametrize(("age", "why"), [(0, "used today"), (1, "used 1 day ago"), (29.9, "used 29 days ago"),
                                          (30.1, ""), (-400, "used today")])  # fmt: skip
def test_an_image_stays_for_thirty_days_after_its_last_use(store: Store, tmp_path: Path, age: float, why: str) -> None:
    """Counted by the day; a time in the future, of a clock that was wrong, keeps it."""
    made(store, tmp_path, OLD, b"old", age)
    assert keeps(store) == {OLD: why}


def test_what_the_lock_says_and_archived_bases_stay(store: Store, tmp_path: Path) -> None:
    """However long they were not used."""
    made(store, tmp_path, OLD, b"old", 400)
    base = another(store, tmp_path, b"base")
    store.keep_base(BASE, "linux/amd64", base, [])
    os.utime(store.path(base.manifest), (1, 1))
    assert keeps(store, frozenset({OLD})) == {OLD: "in the lock", BASE: "archived base"}


def test_what_other_tools_put_there_stays(store: Store, tmp_path: Path) -> None:
    """A line of the index that is none of ours, and a file among the blobs that is none."""
    other = made(store, tmp_path, OLD, b"old", 400)
    path = store.root / "index.json"
    path.write_text(path.read_text().replace("sistership.recipe", "other.tool"))
    (store.root / "blobs" / "sha256" / "README").write_text("")
    gc.collect(store, frozenset())
    assert store.image_complete(other, deep=True) == []
    assert (store.root / "blobs" / "sha256" / "README").exists()


def test_only_what_no_other_image_needs_goes(store: Store, tmp_path: Path) -> None:
    """The old image's own layer and documents go, shared layers stay, the new image is whole; the bytes are told."""
    old, new = made(store, tmp_path, OLD, b"old", 31), made(store, tmp_path, NEW, b"new", 1)
    loose = store.add(b"of a run that was cut")
    before = store.blobs()
    planned = gc.unneeded(store, frozenset(), now=NOW)
    assert store.blobs() == before
    done = gc.collect(store, frozenset())
    assert done == planned
    gone = blobs_of(old) - blobs_of(new) | {loose}
    assert set(before) - set(store.blobs()) == gone
    assert done.frees == sum(before[digest] for digest in gone)
    assert done.loose == before[loose]
    assert store.get(OLD) is None
    assert store.get(NEW) == new
    assert store.image_complete(new, deep=True) == []
    assert gc.collect(store, frozenset()).frees == 0


def test_notes_of_layers_go_with_their_blobs(store: Store, tmp_path: Path) -> None:
    """A note about a blob that went would be no lie, but it would lie about for ever."""
    old = made(store, tmp_path, OLD, b"old", 31)
    gc.collect(store, frozenset())
    assert list((store.root / "layers").iterdir()) == []
    assert all(store.blob_of(layer.diff_id) is None for layer in old.layers)


def test_blobs_that_the_lock_names_stay_without_the_index(store: Store, tmp_path: Path) -> None:
    """The index was deleted, as its own error advises; the lock still knows the blobs."""
    old = made(store, tmp_path, OLD, b"old", 400)
    (store.root / "index.json").unlink()
    gc.collect(store, frozenset({OLD}), blobs_of(old))
    assert store.image_complete(old, deep=True) == []


@pytest.mark.parametrize("which", ["manifest", "manifest_plain"])
def test_a_damaged_document_costs_no_layer(store: Store, tmp_path: Path, which: str) -> None:
    """What a damaged manifest named is found by the other one, so that a repair need not fetch gigabytes."""
    new = made(store, tmp_path, NEW, b"new", 1)
    store.path(getattr(new, which)).write_bytes(b"{}")
    os.utime(store.path(new.manifest), (NOW, NOW))
    found = gc.unneeded(store, frozenset(), now=NOW)
    assert found.blobs == frozenset()


def test_a_base_with_damaged_forms_keeps_its_layers(store: Store, tmp_path: Path) -> None:
    """Its pin leads to config and layers, without the manifests that we made of them."""
    base = another(store, tmp_path, b"base")
    diff_ids = json.loads(store.read(base.config))["rootfs"]["diff_ids"]
    pinned = store.add(
        json.dumps({"config": {"digest": base.config}, "layers": [{"digest": digest_of(b"gz")}]}).encode()
    )
    store.keep_base(BASE, "linux/amd64", base, [pinned])
    for form in (base.manifest, base.manifest_plain):
        store.path(form).write_bytes(b"")
    found = gc.unneeded(store, frozenset(), now=NOW)
    assert found.blobs == frozenset()
    assert all(store.blob_of(each) for each in diff_ids)


def test_asking_whether_an_image_is_whole_is_a_use(store: Store, tmp_path: Path) -> None:
    """That is what build, ship, export and compare do first, so the image stays for another month."""
    old = made(store, tmp_path, OLD, b"old", 400)
    store.image_complete(old)
    (item,) = gc.unneeded(store, frozenset()).items
    assert item.keep == "used today"


def test_a_recipe_that_made_the_same_again_is_a_use(store: Store, tmp_path: Path) -> None:
    """Blobs that are there already are not written again, but the record is new."""
    old = made(store, tmp_path, OLD, b"old", 400)
    store.record(NEW, old, CREATED)
    assert {item.keep for item in gc.unneeded(store, frozenset()).items} == {"used today"}


def test_a_store_in_use_is_left_alone(store: Store, tmp_path: Path) -> None:
    """Another run may have put blobs there that no index names yet: exit 24, nothing goes; when it ends all is well."""
    loose = store.add(b"half a build")
    code = f"""
        import sys
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from sistership.image.layout import Store
        store = Store(Path(sys.argv[1]))
        print("open", flush=True)
        sys.stdin.read()
    """
    argv = [sys.executable, "-c", textwrap.dedent(code), str(store.root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(LockedError) as caught:
            gc.collect(store, frozenset())
        assert caught.value.code == 24
        assert store.has(loose)
        child.send_signal(signal.SIGKILL)
    gc.collect(store, frozenset())
    assert not store.has(loose)


def test_other_runs_wait_for_the_end(store: Store) -> None:
    """A run that begins while the store is cleaned gets it afterwards, never in between."""
    code = f"""
        import sys
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from sistership.image.layout import Store
        print("begun", flush=True)
        Store(Path(sys.argv[1]))
        print("open", flush=True)
    """
    argv = [sys.executable, "-c", textwrap.dedent(code), str(store.root)]
    with store.alone():
        child = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert child.stdout
        assert child.stdout.readline() == b"begun\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.3)
    with child:
        assert child.stdout.readline() == b"open\n"


def test_a_store_of_the_same_run_counts_as_another(store: Store) -> None:
    """Whoever holds a second one might be writing; when it is gone the store is free."""
    second = Store(store.root)
    with pytest.raises(LockedError), store.alone():
        pass
    del second
    with store.alone():
        pass


class Cut(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", [0, 1, 2, 3, 5, 8, 20])
def test_a_cut_at_any_point_loses_nothing(store: Store, tmp_path: Path, step: int) -> None:
    """Before the index is written, after it, after each file: what is listed is whole, the rest goes the next time."""
    made(store, tmp_path, OLD, b"old", 31)
    new = made(store, tmp_path, NEW, b"new", 1)
    for number in range(3):
        store.add(b"loose" * number)
    counter = itertools.count()

    def cut(what: str) -> None:
        if what in {"os.remove", "os.rename"} and next(counter) == step:
            raise Cut

    watching.append(cut)
    try:
        gc.collect(store, frozenset())
    except Cut:
        pass
    finally:
        watching.remove(cut)
    again = Store(store.root)
    for record in again.records():
        found = again.get(record.key)
        assert found is not None
        assert again.image_complete(found, deep=True) == []
    del again
    if (old := store.get(OLD)) is not None:
        os.utime(store.path(old.manifest), (1, 1))
    gc.collect(store, frozenset())
    assert set(store.blobs()) == blobs_of(new)
    assert gc.collect(store, frozenset()).frees == 0


watching: list = []


@pytest.fixture(scope="module", autouse=True)
def _audited() -> None:
    """Lets a test see every file that is removed or renamed; an audit hook stays for good, so there is one."""
    sys.addaudithook(lambda event, _: [each(event) for each in watching] if watching else None)


def test_layers_packed_anew_keep_both_blobs_while_both_are_listed(store: Store, tmp_path: Path) -> None:
    """Another zstd library packs a layer into another blob: the older record still names the older one."""
    new = made(store, tmp_path, NEW, b"new", 1)
    layer = new.layers[-1]
    newer = Packed(layer.diff_id, layer.plain_size, store.add(b"packed in another way"), 21)
    store.remember(newer)
    assert gc.unneeded(store, frozenset(), now=NOW).blobs == frozenset()
