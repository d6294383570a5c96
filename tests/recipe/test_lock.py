from __future__ import annotations

import json

import pytest

from sistership.errors import LockError
from sistership.recipe import lock
from sistership.recipe.lock import Lock
from sistership.recipe.patches import LockedPatch


@pytest.fixture
def full(make):
    """A lock with a variant and an image."""
    row = make.locked(patches=(LockedPatch("a.patch", "1" * 64),), wants={"git": "https://x.example/y"})
    return Lock().with_variant("alpha", row).with_image("k" * 64, {"variant": "alpha", "layers": [{"size": 1}]})


def test_round_trip(full, tmp_path):
    """What is saved is loaded again."""
    path = tmp_path / lock.NAME
    assert lock.save(full, path)
    assert lock.load(path) == full


def test_form(full, tmp_path):
    """Sorted keys, two spaces, a newline at the end: differences in version control are small."""
    path = tmp_path / lock.NAME
    lock.save(full, path)
    text = path.read_text()
    value = json.loads(text)
    assert text == json.dumps(value, indent=2, sort_keys=True) + "\n"
    assert value["version"] == 1
    assert set(value["variants"]["alpha"]) >= {"inputs", "commit", "tree", "number", "date", "bases", "patches"}
    assert value["variants"]["alpha"]["patches"] == [{"file": "a.patch", "sha256": "1" * 64}]


def test_unchanged_is_not_written(full, tmp_path):
    """Saving the same lock leaves the file alone."""
    path = tmp_path / lock.NAME
    lock.save(full, path)
    before = path.stat().st_mtime_ns
    assert not lock.save(full, path)
    assert path.stat().st_mtime_ns == before


def test_missing_is_empty(tmp_path):
    """A project without a lock has an empty one."""
    assert lock.load(tmp_path / lock.NAME) == Lock()


def test_with_leaves_the_old_one(full, make):
    """Locks are values."""
    more = full.with_variant("beta", make.locked())
    assert set(full.variants) == {"alpha"}
    assert set(more.variants) == {"alpha", "beta"}
    assert more.images == full.images


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{\n  oops\n}\n", r"lock\.json:2:3: the lock cannot be read"),
        ('{\n<<<<<<< ours\n  "version": 1\n', "merge conflict"),
        ('{"version": 1, "variants": {"a": {}}}', "variant a"),
        ('{"version": 1, "variants": {"a": 5}}', "variant a"),
        ('{"version": 1, "variants": {"a": {"inputs": 5}}}', "text expected"),
        ('{"version": 2}', "version 2"),
        ("[]", "no version"),
        ('{"version": 1, "variants": {}, "variants": {}}', "occurs twice"),
        ("\udcff", "cannot be read"),
    ],
)
def test_damaged(tmp_path, text, said):
    """A lock that cannot be trusted is refused with its place and the way out, exit 11."""
    path = tmp_path / lock.NAME
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(LockError, match=said) as raised:
        lock.load(path)
    assert raised.value.code == 11
    assert raised.value.hint


def test_interrupted_save_keeps_the_old_lock(full, make, tmp_path, monkeypatch):
    """A save that fails before its end leaves the old file and nothing beside it."""
    path = tmp_path / lock.NAME
    lock.save(full, path)
    old = path.read_bytes()

    def fail(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        lock.save(full.with_variant("beta", make.locked()), path)
    assert path.read_bytes() == old
    assert [entry.name for entry in tmp_path.iterdir()] == [lock.NAME]
