"""`matrix`, `export`, `import`, and what `lock` tells, on the command line; no host and no engine is needed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import jsonschema
import pytest

from sistership.build.build import record_of
from sistership.build.jobs import Job
from sistership.image.canonical import canonicalise
from sistership.image.layout import Store
from sistership.matrix.load import load
from sistership.recipe import lock as locks
from sistership.recipe.recipe import recipe_of
from sistership.tasks.pipelines import jobs_table
from sistership.tasks.program import program

SCHEMAS = Path(__file__).parents[2] / "schemas"
PIN = "sha256:" + "b" * 64
MATRIX = f"""\
version: 1
forks:
  sample: {{git: GIT}}
variants:
  alpha:
    fork: sample
    commit: main
    image: alpha
    tag: v1
    backend: cpu
    platforms: [linux/amd64]
    packages: []
    base: {{build: "debian:bookworm@{PIN}", runtime: "debian:bookworm-slim@{PIN}"}}
hosts:
  gpu-a: {{ssh: gpu-a.invalid}}
"""


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


@dataclass
class Clone:
    """A folder with the matrix, its own store, and the command line in it."""

    folder: Path

    def run(self, *words: str, code: int = 0) -> Done:
        """`sistership WORDS` in this process, which spares a second of imports; the exit code must be `code`."""
        places = {f"SISTERSHIP_{name}": str(self.folder / name.lower()) for name in ("STORE", "CACHE", "LOGS")}
        out, err, ended = io.StringIO(), io.StringIO(), 0
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, places),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                program().run(["sistership", *words])
            except SystemExit as end:
                ended = int(end.code or 0)
        assert ended == code, f"exit {ended}\n{out.getvalue()}\n{err.getvalue()}"
        return Done(out.getvalue(), err.getvalue())

    def json(self, *words: str, code: int = 0) -> Any:
        """The same with `--json`, its standard output as a document, checked against its schema."""
        document = json.loads(self.run(*words, "--json", code=code).stdout)
        schema = json.loads((SCHEMAS / f"{words[0]}.schema.json").read_text())
        jsonschema.Draft7Validator(schema).validate(document)
        return document

    def lines(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """The same for a verb that prints JSON lines."""
        return [json.loads(line) for line in self.run(*words, "--json", code=code).stdout.splitlines()]

    @property
    def lock(self) -> dict[str, Any]:
        """The lock file."""
        found: dict[str, Any] = json.loads((self.folder / "buildmatrix.lock.json").read_text())
        return found

    def another(self, name: str, *, locked: bool) -> Clone:
        """A second machine: the matrix, perhaps the lock of before the build, no source and no store."""
        other = Clone(self.folder.parent / name)
        other.folder.mkdir()
        (other.folder / "buildmatrix.yaml").write_text((self.folder / "buildmatrix.yaml").read_text())
        if locked:
            (other.folder / "buildmatrix.lock.json").write_text(json.dumps({**self.lock, "images": {}}))
        return other


def tar_of(files: dict[str, bytes]) -> bytes:
    """A tar of plain files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def saved(path: Path) -> Path:
    """What an engine saves of a base layer and three own ones."""
    layers = [tar_of({"etc-release": b"base"}), *(tar_of({f"file{number}": b"x" * 5000}) for number in range(3))]
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}}
    config["history"] = [{"created_by": f"COPY {number} /"} for number in range(len(layers))]
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["raw:1"], "Layers": names}]
    files = {**dict(zip(names, layers, strict=True)), "config.json": json.dumps(config).encode()}
    path.write_bytes(tar_of({**files, "manifest.json": json.dumps(manifest).encode()}))
    return path


def commit(folder: Path, content: str) -> str:
    """Commit a file with this content; the hash."""
    me = ["-c", "user.name=A", "-c", "user.email=a@example.invalid"]
    (folder / "main.c").write_text(content)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*me, "commit", "-q", "-m", content]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fork of one commit and three projects: locked, built, and built and exported."""
    root = tmp_path_factory.mktemp("template")
    (root / "fork").mkdir()
    commit(root / "fork", "first")
    made = Clone(root / "clone")
    made.folder.mkdir()
    (made.folder / "buildmatrix.yaml").write_text(MATRIX.replace("GIT", "../fork"))
    made.run("lock")
    shutil.copytree(made.folder, root / "built")
    as_built(Clone(root / "built"))
    shutil.copytree(root / "built", root / "exported")
    Clone(root / "exported").run("export", "--variant", "alpha", "--output", "out/alpha.tar")
    return root


@pytest.fixture
def project(request: pytest.FixtureRequest, template: Path, tmp_path: Path) -> Clone:
    """A copy of one of them, with its own fork beside it."""
    shutil.copytree(template / "fork", tmp_path / "fork")
    shutil.copytree(template / request.param, tmp_path / "first")
    return Clone(tmp_path / "first")


def copy(name: str) -> pytest.MarkDecorator:
    """The test works in a copy of that project."""
    return pytest.mark.parametrize("project", [name], indirect=True, ids=[name])


def as_built(clone: Clone) -> Clone:
    """Leave an image behind as a build would."""
    matrix = load(clone.folder / "buildmatrix.yaml")
    path = clone.folder / "buildmatrix.lock.json"
    lock, store = locks.load(path), Store(clone.folder / "store")
    recipe = recipe_of(matrix, matrix.variants["alpha"], "linux/amd64", lock.variants["alpha"])
    image = canonicalise(
        saved(clone.folder / "save.tar"),
        instructions=recipe.instructions,
        created=recipe.created,
        labels=recipe.labels,
        store=store,
    )
    locks.save(lock.with_image(recipe.key, record_of(recipe, image, store)), path)
    return clone


@copy("exported")
@pytest.mark.parametrize("locked", [True, False])
def test_second_machine_has_the_image_and_can_ship_it(project: Clone, locked: bool) -> None:
    """Export, import where there is neither source nor image, with the lock of before the build or with none."""
    shutil.rmtree(project.folder.parent / "fork")
    second = project.another("second", locked=locked)
    done = second.run("import", str(project.folder / "out" / "alpha.tar"))
    assert "added to the lock" in done.stdout
    assert "warning" not in done.stderr
    assert second.lock == project.lock
    second.run("plan", code=20)
    (job,) = second.json("matrix")["jobs"]
    assert (job["built"], job["stored"]) == (True, True)
    assert "has it already" in second.run("import", str(project.folder / "out" / "alpha.tar")).stdout


@copy("built")
def test_export_tells_file_and_sum(project: Clone) -> None:
    """What a pipeline needs to go on is in the document; the sum is that of the file, twice the same."""
    document = project.json("export", "--output", "a.tar")
    assert document["type"] == "export"
    assert document["sha256"] == hashlib.sha256((project.folder / "a.tar").read_bytes()).hexdigest()
    assert document["size"] == (project.folder / "a.tar").stat().st_size
    assert document["image"]["reference"] == "alpha:v1"
    assert project.json("export", "--output", "b.tar")["sha256"] == document["sha256"]
    assert document["sha256"] in project.run("export", "--output", "a.tar").stdout


@copy("built")
def test_import_checks_the_sum_that_it_is_given(project: Clone) -> None:
    """The sum of the pipeline's first half ties it to the second."""
    total = project.json("export", "--output", "a.tar")["sha256"]
    project.run("import", "a.tar", "--sha256", total)
    done = project.run("import", "a.tar", "--sha256", "0" * 64, code=1)
    assert "--sha256 says 000" in done.stderr


@copy("exported")
def test_import_that_is_not_asked_for(project: Clone) -> None:
    """An image of another state of the project is kept, and it is said that ship does not send it."""
    second = project.another("second", locked=True)
    matrix = second.folder / "buildmatrix.yaml"
    matrix.write_text(matrix.read_text().replace("packages: []", "options: {rpc: false}\n    packages: []"))
    document = second.json("import", str(project.folder / "out/alpha.tar"))
    assert document["asked"] is False
    assert "another recipe of alpha" in second.run("import", str(project.folder / "out/alpha.tar")).stderr
    assert len(second.lock["images"]) == 1


@copy("exported")
def test_damaged_file_leaves_nothing(project: Clone) -> None:
    """Exit 1, what is wrong, what to do; store and lock stay as they were."""
    data = bytearray((project.folder / "out/alpha.tar").read_bytes())
    data[530] ^= 1
    second = project.another("second", locked=True)
    (second.folder / "a.tar").write_bytes(data)
    before = (second.folder / "buildmatrix.lock.json").read_bytes()
    done = second.run("import", "a.tar", code=1)
    assert "the export is damaged; nothing was taken from it" in done.stderr
    assert "next: copy or download it again" in done.stderr
    assert (second.folder / "buildmatrix.lock.json").read_bytes() == before
    assert list((second.folder / "store" / "blobs" / "sha256").iterdir()) == []


@copy("exported")
def test_another_image_for_the_same_recipe(project: Clone) -> None:
    """Exit 23: the lock and the file do not mean the same bytes."""
    second = project.another("second", locked=True)
    lock = project.lock
    (record,) = lock["images"].values()
    record["config"] = "sha256:" + "1" * 64
    (second.folder / "buildmatrix.lock.json").write_text(json.dumps(lock))
    done = second.run("import", str(project.folder / "out/alpha.tar"), code=23)
    assert "the lock has another image for this recipe of alpha" in done.stderr


@copy("built")
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["export"], 2, "--output FILE"),
        (["export", "--output", "."], 2, "it is a folder"),
        (["export", "--output", "x.tar", "--variant", "alhpa"], 2, "alpha"),
        (["export", "--output", "x.tar", "--platform", "linux/arm64"], 2, "no selected variant is for it"),
        (["import", "nope.tar"], 2, "no such file"),
        (["import"], 2, "file"),
        (["import", "buildmatrix.yaml"], 1, "damaged"),
        (["matrix", "--format", "gitlab"], 2, "table or github"),
        (["build", "--platform", "linux/amd46", "--dry-run"], 2, "linux/amd64"),
        (["verify", "--expect", "nope"], 2, "no such file"),
        (["verify", "--expect", "buildmatrix.yaml"], 2, "neither an export"),
    ],
)
def test_mistakes(project: Clone, words: list[str], code: int, told: str) -> None:
    """Every mistake has its exit code and the next step."""
    assert told in project.run(*words, code=code).stderr


@copy("clone")
def test_export_of_what_is_not_built(project: Clone) -> None:
    """Exit 11 with the command that builds it."""
    assert "sistership build --variant alpha" in project.run("export", "--output", "x.tar", code=11).stderr


@copy("exported")
def test_verify_by_a_file_needs_no_lock(project: Clone) -> None:
    """With --expect the project's own lock says nothing: an export, its identity and a lock all do."""
    with tarfile.open(project.folder / "out/alpha.tar") as tar:
        identity = tar.extractfile("sistership.json").read()  # type: ignore[union-attr]
    second = project.another("second", locked=False)
    for name, data in {
        "a.tar": (project.folder / "out/alpha.tar").read_bytes(),
        "sistership.json": identity,
        "other.lock.json": (project.folder / "buildmatrix.lock.json").read_bytes(),
    }.items():
        (second.folder / name).write_bytes(data)
        document = second.json("verify", "--expect", name, code=20)
        assert document["images"][0]["recipe"] == next(iter(project.lock["images"]))
        assert document["hosts"][0]["verdict"] == "unreachable"


@copy("built")
def test_matrix_for_github(project: Clone) -> None:
    """One line for $GITHUB_OUTPUT; what is built is left out."""
    assert project.run("matrix", "--format", "github").stdout == 'matrix={"include":[]}\n'
    images = project.lock
    images["images"] = {}
    (project.folder / "buildmatrix.lock.json").write_text(json.dumps(images))
    out = project.run("matrix", "--format", "github").stdout
    (job,) = json.loads(out.removeprefix("matrix="))["include"]
    assert (job["name"], job["variant"], job["platform"]) == ("alpha-linux-amd64", "alpha", "linux/amd64")


@copy("clone")
def test_matrix_warns_of_what_build_would_refuse(project: Clone) -> None:
    """A pipeline hears of a stale lock in its first job; the table shows it."""
    (project.folder / "buildmatrix.lock.json").unlink()
    assert "is not locked" in project.run("matrix", "--format", "github").stderr
    assert "not locked" in project.run("matrix").stdout
    assert project.json("matrix")["jobs"][0]["recipe"] is None


@copy("clone")
def test_lock_tells_what_moved(project: Clone) -> None:
    """`lock --upgrade` says what moved, from where to where; the JSON line has it in full."""
    first = project.lock["variants"]["alpha"]
    second = commit(project.folder.parent / "fork", "second")
    assert "alpha" in project.run("lock").stdout
    assert project.lock["variants"]["alpha"] == first
    done = project.run("lock", "--upgrade", "--locked", code=11)
    assert f"alpha: commit {first['commit'][:12]} → {second[:12]} (b1 " in done.stderr
    assert "`lock --upgrade` would move alpha" in done.stderr
    assert project.lock["variants"]["alpha"] == first
    (line,) = [line for line in project.lines("lock", "--upgrade") if line["type"] == "variant"]
    assert line["moves"][0]["what"] == "commit"
    assert (line["moves"][0]["old"], line["moves"][0]["new"]) == (first["commit"], second)
    assert [move["what"] for move in line["moves"]] == ["commit", "tree"]
    assert "nothing moved" in project.run("lock", "--upgrade", "--locked").stderr


@copy("clone")
def test_stale_lock_says_what_would_move(project: Clone) -> None:
    """`--locked` names every variant and every wish that the lock does not answer, without asking anyone."""
    matrix = project.folder / "buildmatrix.yaml"
    matrix.write_text(matrix.read_text().replace("commit: main", "commit: v2").replace("bookworm-slim", "trixie-slim"))
    done = project.run("build", "--locked", code=11)
    assert "alpha: commit main → v2" in done.stderr
    assert "alpha: base runtime debian:bookworm-slim@bbbbbbbbbbbb → debian:trixie-slim@bbbbbbbbbbbb" in done.stderr
    assert "the lock does not match the matrix" in done.stderr
    assert "sistership lock --variant alpha" in done.stderr


@copy("clone")
def test_floating_packages_are_told(project: Clone) -> None:
    """A package stage that no moment pins is told when it is locked."""
    matrix = project.folder / "buildmatrix.yaml"
    matrix.write_text(matrix.read_text().replace("packages: []", "packages: [cmake]"))
    assert "packages are those of the day it is built" in project.run("lock", "--upgrade").stderr
    matrix.write_text(matrix.read_text().replace("packages: [cmake]", "packages: [cmake]\n    snapshot: none"))
    assert "packages are those" not in project.run("lock", "--upgrade").stderr


@pytest.mark.parametrize(("width", "shown"), [(None, True), (200, True), (80, False)])
def test_table_fits_the_terminal(width: int | None, shown: bool) -> None:
    """A narrow terminal gets what matters, whole; a wide one and a pipe get everything."""
    job = Job("turboquant", "linux/amd64", "llamacpp-turboquant", "tqp", "a" * 64, "builder", True, False, ("gpu-a",))
    text = jobs_table([job], width)
    assert max(map(len, text.splitlines())) <= (width or 200)
    assert "built, not in the store" in text
    assert ("gpu-a" in text and "builder" in text) is shown
