from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from sistership.errors import LockError, MatrixError
from sistership.matrix.cuda import canonical
from sistership.matrix.model import Base, Cuda, Options, PatchRef
from sistership.recipe import recipe as rooms
from sistership.recipe.recipe import fresh, inputs_of, materialise, recipe_of, resolve
from sistership.recipe.source import Sources


@pytest.fixture
def project(tmp_path, repository, make):
    """A matrix of one row whose fork is a local repository with one patch; gives (matrix, row, sources)."""
    home = tmp_path / "project"
    (home / "patches" / "fork").mkdir(parents=True)
    repository.write("main.c", "one\ntwo\nthree\nfour\n")
    first = repository.commit()
    repository.write("main.c", "one\nTWO\nthree\nfour\n")
    (home / "patches" / "fork" / "a.patch").write_bytes(repository.diff())
    repository.git("checkout", "--quiet", "main.c")
    row = make.cpu(commit=first, patches=(PatchRef("a.patch", "why"),))
    matrix = make.matrix(home, row, git=str(repository.folder))
    return matrix, row, Sources(tmp_path / "cache")


def pin(reference: str) -> str:
    """Stands for the registry."""
    return f"{reference}@sha256:{'a' * 64}"


def only(matrix, row):
    """The matrix with this row in place of the old one."""
    return dataclasses.replace(matrix, variants={row.name: row})


def test_resolve(project, repository):
    """A row becomes commit, patched tree, number, date and pinned bases."""
    matrix, row, sources = project
    locked = resolve(matrix, row, sources, digests=pin)
    assert (locked.commit, locked.number, locked.date) == (row.commit, 1, "2023-11-14T22:14:20Z")
    assert locked.bases == {"build": pin("debian:bookworm"), "runtime": pin("debian:bookworm-slim")}
    assert [patch.file for patch in locked.patches] == ["a.patch"]
    assert locked.tree != repository.git("rev-parse", "HEAD^{tree}")
    assert fresh(matrix, row, locked)


def test_pinned_bases_are_not_asked_for(project):
    """A digest in the matrix needs no registry."""
    matrix, row, sources = project
    row = dataclasses.replace(row, base=Base(pin("b"), pin("r")))

    def never(_: str) -> str:
        raise AssertionError

    assert resolve(only(matrix, row), row, sources, digests=never).bases == {"build": pin("b"), "runtime": pin("r")}


def test_only_what_changed_is_resolved_again(project, repository):
    """A new base does not move a branch; a full resolution does."""
    matrix, row, sources = project
    row = dataclasses.replace(row, commit="main")
    before = resolve(only(matrix, row), row, sources, digests=pin)
    repository.write("other.c", "x\n")
    tip = repository.commit()
    changed = dataclasses.replace(row, base=Base("debian:trixie", row.base.runtime))
    asked: list[str] = []

    def digests(reference: str) -> str:
        asked.append(reference)
        return pin(reference)

    after = resolve(only(matrix, changed), changed, sources, digests=digests, previous=before)
    assert (after.commit, asked) == (before.commit, ["debian:trixie"])
    assert resolve(only(matrix, changed), changed, sources, digests=pin).commit == tip


def test_snapshot(project):
    """The lock decides for a moment once, keeps it, and takes a newer one with a newer base or a full resolution."""
    matrix, row, sources = project
    row = dataclasses.replace(row, snapshot="auto")

    def at(day: int, row=row, previous=None):
        clock = lambda: datetime(2026, 5, day, 12, 30, 5, tzinfo=UTC)  # noqa: E731
        return resolve(only(matrix, row), row, sources, digests=pin, previous=previous, now=clock)

    first = at(1)
    assert (first.snapshot, first.wants["snapshot"]) == ("20260501T123000Z", "auto")
    assert at(2, dataclasses.replace(row, commit="main"), first).snapshot == first.snapshot
    newer = dataclasses.replace(row, base=Base("ubuntu:26.04", row.base.runtime))
    assert at(3, newer, first).snapshot == "20260503T123000Z"
    assert at(4).snapshot == "20260504T123000Z"
    fixed = dataclasses.replace(row, snapshot="20260401T000000Z")
    assert at(5, fixed, first).snapshot == "20260401T000000Z"
    assert inputs_of(only(matrix, fixed), fixed) != inputs_of(only(matrix, row), row)
    assert recipe_of(matrix, row, "linux/amd64", first).key != recipe_of(matrix, row, "linux/amd64", at(6)).key


@pytest.mark.parametrize("snapshot", ["", "none"])
def test_floating_packages_leave_no_trace(project, snapshot):
    """A variant without a moment locks as it did before there were any."""
    matrix, row, sources = project
    row = dataclasses.replace(row, snapshot=snapshot)
    locked = resolve(only(matrix, row), row, sources, digests=pin)
    assert locked.snapshot == ""
    assert "snapshot" not in locked.to_json()
    assert "snapshot" not in locked.wants


def test_inputs(project):
    """What decides the resolution makes the lock stale; flags, archs and a patch's line ends do not."""
    matrix, row, _ = project
    path = matrix.project / "patches" / "fork" / "a.patch"
    before = inputs_of(matrix, row)
    same = dataclasses.replace(row, options=Options(ui=True), cmake={"X": "1"}, tag="other")
    assert inputs_of(only(matrix, same), same) == before
    text = path.read_bytes()
    path.write_bytes(text.replace(b"\n", b"\r\n"))
    assert inputs_of(matrix, row) == before
    for changed in (
        dataclasses.replace(row, commit="main"),
        dataclasses.replace(row, base=Base("x", "y")),
        dataclasses.replace(row, patches=()),
    ):
        assert inputs_of(only(matrix, changed), changed) != before
    path.write_bytes(text.replace(b"+TWO", b"+Two"))
    assert inputs_of(matrix, row) != before


def test_materialise(project):
    """From the lock alone the same tree comes back; a patch edited since is noticed."""
    matrix, row, sources = project
    locked = resolve(matrix, row, sources, digests=pin)
    repo = materialise(matrix, row, sources, locked)
    assert rooms.with_repo(recipe_of(matrix, row, "linux/amd64", locked), repo).repo == repo
    path = matrix.project / "patches" / "fork" / "a.patch"
    path.write_bytes(path.read_bytes().replace(b"+TWO", b"+Two"))
    with pytest.raises(LockError, match="patch was changed"):
        materialise(matrix, row, sources, locked)


def test_recipe(project, make):
    """A recipe carries its key in its labels and its file, and knows its layers."""
    matrix, row, _ = project
    recipe = recipe_of(matrix, row, "linux/amd64", make.locked())
    assert len(recipe.key) == 64
    assert recipe.labels["dev.sistership.recipe"] == recipe.key
    assert f'dev.sistership.recipe="{recipe.key}"' in recipe.dockerfile
    assert recipe.labels["org.opencontainers.image.revision"] == make.commit
    assert len(recipe.instructions) == 4
    assert set(recipe.scripts) >= {"collect.sh"}
    assert recipe_of(matrix, row, "linux/amd64", make.locked()) == recipe


@pytest.mark.parametrize(
    "spelling", ["89;120", "120;89", [89, 120], ["120", "89", "89"]], ids=["89-120", "120-89", "list", "twice"]
)
def test_spelling_of_archs_is_no_difference(make, tmp_path, spelling):
    """One set of archs gives one key, however it is written (fireice-uk/xmr-stak#1297)."""
    archs = canonical([str(part) for part in spelling] if isinstance(spelling, list) else spelling.split(";"))
    row = make.variant(cuda=Cuda("12.8.1", tuple(archs)))
    key = recipe_of(make.matrix(tmp_path, row), row, "linux/amd64", make.locked()).key
    plain = make.variant()
    assert key == recipe_of(make.matrix(tmp_path, plain), plain, "linux/amd64", make.locked()).key


@pytest.mark.parametrize(
    "change",
    [
        {"tree": "0" * 40},
        {"commit": "0" * 40},
        {"number": 1},
        {"bases": {"build": "b@sha256:1", "runtime": "r@sha256:2"}},
        {"date": "2026-05-02T10:00:00Z"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_input_changes_the_key(make, tmp_path, change):
    """Whatever decides bytes is in the key (argoproj-labs/argocd-operator#2347)."""
    row = make.variant()
    matrix = make.matrix(tmp_path, row)
    before = recipe_of(matrix, row, "linux/amd64", make.locked())
    assert recipe_of(matrix, row, "linux/amd64", make.locked(**change)).key != before.key


def test_platform_options_and_scripts_change_the_key(make, tmp_path):
    """Platform, options and support scripts are in the key too."""
    row = make.variant()
    matrix = make.matrix(tmp_path, row)
    before = recipe_of(matrix, row, "linux/amd64", make.locked()).key
    other = make.variant(options=Options(vmm=True))
    keys = {
        before,
        recipe_of(matrix, row, "linux/arm64", make.locked()).key,
        recipe_of(make.matrix(tmp_path, other), other, "linux/amd64", make.locked()).key,
    }
    script = tmp_path / "dockerfiles" / "support" / "launch.sh"
    script.parent.mkdir(parents=True)
    script.write_text('#!/bin/sh\nexec "$@"\n')
    keys.add(recipe_of(matrix, row, "linux/amd64", make.locked()).key)
    assert len(keys) == 4


def test_inputs_alone_do_not_change_the_key(make, tmp_path):
    """Only what the inputs resolved to counts: another name for the same commit builds nothing."""
    row = make.variant()
    matrix = make.matrix(tmp_path, row)
    keys = {recipe_of(matrix, row, "linux/amd64", make.locked(inputs=digit * 64)).key for digit in "01"}
    assert len(keys) == 1


def test_template_error_keeps_its_place(make, tmp_path):
    """A project's own broken template is named with its path."""
    own = tmp_path / "dockerfiles" / "mine.j2"
    own.parent.mkdir()
    own.write_text("FROM x\nCOPY {{ lyers }} /\n")
    row = make.variant(template="mine.j2")
    with pytest.raises(MatrixError, match=rf"{own}:2:1: variant alpha: 'lyers' is undefined"):
        recipe_of(make.matrix(tmp_path, row), row, "linux/amd64", make.locked())
