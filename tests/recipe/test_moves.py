from __future__ import annotations

import dataclasses

import pytest

from sistership.recipe.moves import Move, asked, moved
from sistership.recipe.patches import LockedPatch, Patch

OTHER = "abcdef0123456789abcdef0123456789abcdef01"


def lines(moves) -> list[str]:
    """As people read them."""
    return [str(move) for move in moves]


@pytest.fixture
def old(make):
    """A resolution with two patches and a snapshot."""
    patches = (LockedPatch("a.patch", "1" * 64), LockedPatch("b.patch", "2" * 64))
    return make.locked(patches=patches, snapshot="20260401T000000Z")


def test_nothing_moved(old):
    """The same resolution has no moves."""
    assert moved(old, old) == ()


def test_everything_that_moves_is_told(old):
    """Commit with number and date, bases, snapshot, tree: each in one line, both sides."""
    new = dataclasses.replace(
        old,
        commit=OTHER,
        number=9100,
        date="2026-06-02T08:00:00Z",
        tree=OTHER,
        bases={**old.bases, "runtime": old.bases["runtime"].replace("e" * 64, "f" * 64)},
        snapshot="20260602T080000Z",
    )
    assert lines(moved(old, new)) == [
        "commit 1234567890ab → abcdef012345 (b9079 2026-05-01 → b9100 2026-06-02)",
        "base runtime nvidia/cuda:12.8.1-runtime-ubuntu24.04: eeeeeeeeeeee → ffffffffffff",
        "snapshot 20260401T000000Z → 20260602T080000Z",
        "tree fedcba098765 → abcdef012345",
    ]
    assert moved(old, new)[0] == Move("commit", old.commit, OTHER, "b9079 2026-05-01 → b9100 2026-06-02")


@pytest.mark.parametrize(
    ("patches", "said"),
    [
        (("b",), ["patch a.patch removed: 111111111111"]),
        (("a", "b", "c"), ["patch c.patch added: 333333333333"]),
        (("a", "B"), ["patch b.patch 222222222222 → 444444444444"]),
        (("b", "a"), ["patch order a.patch, b.patch → b.patch, a.patch"]),
        (("b", "c"), ["patch a.patch removed: 111111111111", "patch c.patch added: 333333333333"]),
    ],
)
def test_patches(old, patches, said):
    """Added, removed, changed and reordered patches are told by name."""
    sums = {"a": ("a", "1"), "b": ("b", "2"), "B": ("b", "4"), "c": ("c", "3")}
    new = tuple(LockedPatch(f"{sums[name][0]}.patch", sums[name][1] * 64) for name in patches)
    assert lines(moved(old, dataclasses.replace(old, patches=new))) == said


def test_first_resolution(old):
    """What was not locked before is all new."""
    assert lines(moved(None, old)) == [
        "commit added: 1234567890ab (b9079 2026-05-01)",
        "base build added: nvidia/cuda:12.8.1-devel-ubuntu24.04@555555555555",
        "base runtime added: nvidia/cuda:12.8.1-runtime-ubuntu24.04@eeeeeeeeeeee",
        "snapshot added: 20260401T000000Z",
        "patch a.patch added: 111111111111",
        "patch b.patch added: 222222222222",
    ]


def test_another_base_is_told_whole(old):
    """A base of another name is not shown as if only its digest had moved."""
    bases = {**old.bases, "build": f"debian:trixie@sha256:{'7' * 64}"}
    (line,) = lines(moved(old, dataclasses.replace(old, bases=bases)))
    assert line == "base build nvidia/cuda:12.8.1-devel-ubuntu24.04@555555555555 → debian:trixie@777777777777"


def test_what_the_matrix_asks(old):
    """Without network: which wishes of the matrix the lock does not answer."""
    wants = {"git": "https://x.example/y", "commit": "main", "build": "debian:12", "runtime": "debian:12"}
    locked = dataclasses.replace(old, wants=wants)
    patches = [Patch("a.patch", b"x"), Patch("b.patch", b"y")]
    same = [LockedPatch(patch.file, patch.sha256) for patch in patches]
    locked = dataclasses.replace(locked, patches=tuple(same))
    assert asked(locked, wants, patches) == ()
    now = {**wants, "commit": "v2", "snapshot": "auto"}
    assert lines(asked(locked, now, patches[:1])) == [
        "commit main → v2",
        "snapshot added: auto",
        f"patch b.patch removed: {patches[1].sha256[:12]}",
    ]
