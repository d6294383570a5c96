"""Two clones of one project: one has the source and builds, the other has neither source nor engine and ships."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

DOCS = Path(__file__).parents[3] / "docs" / "ci"
MATRIX = """
version: 1
ssh_config: {ssh_config}
builder: builder
forks:
  sample: {{git: ./sample.git}}
variants:
  sample:
    fork: sample
    commit: main
    image: pipe-sample
    tag: v1
    backend: cpu
    packages: []
    base: {{build: "127.0.0.1:5000/practice/build:bookworm", runtime: "127.0.0.1:5000/practice/runtime:bookworm"}}
    patches: [{{file: rpc-zero-byte-tensor.patch, why: practice}}]
hosts: {{builder: {{}}, classic20: {{}}, containerd26: {{}}}}
groups: {{peers: [classic20, containerd26]}}
"""


@dataclass
class Clone:
    """A folder with the project, a store of its own, and a shell in which `sistership` is this checkout's."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def shell(self, script: str, environ: Mapping[str, str] | None = None, *, code: int = 0) -> str:
        """Run a step's script as a CI runner does; its standard output."""
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=self.folder,
            env={**self.environ, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == code, f"{script}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str, code: int = 0) -> Any:
        """`sistership WORDS --json` as a document."""
        return json.loads(self.shell(" ".join(("sistership", *words, "--json")), code=code))

    @property
    def lock(self) -> dict[str, Any]:
        """The lock file."""
        found: dict[str, Any] = json.loads((self.folder / "buildmatrix.lock.json").read_text())
        return found


def program(folder: Path, name: str, script: str) -> None:
    """An executable shell script."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def clone(folder: Path, fleet: Fleet) -> Clone:
    """A clone; without `sample.git` beside its matrix it has no source."""
    folder.mkdir()
    (folder / "buildmatrix.yaml").write_text(MATRIX.format(ssh_config=fleet.files.ssh_config))
    program(folder / "bin", "sistership", f'exec {sys.executable} -m sistership "$@"')
    places = {name: str(folder / name.lower()) for name in ("STORE", "CACHE", "LOGS")}
    environ = {**os.environ, **{f"SISTERSHIP_{name}": path for name, path in places.items()}}
    environ["PATH"] = f"{folder / 'bin'}:{environ['PATH']}"
    return Clone(folder, environ)


@pytest.fixture(scope="session")
def first(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The clone that builds: locked, the lock committed, nothing built."""
    made = clone(tmp_path_factory.mktemp("pipelines") / "first", fleet)
    (made.folder / "sample.git").symlink_to(fleet.files.sample)
    made.shell("sistership lock")
    return made


@pytest.fixture(scope="session")
def second(first: Clone, fleet: Fleet) -> Iterator[Clone]:
    """The clone that ships: the same commit of the project; git and docker would fail, and no source is there."""
    made = clone(first.folder.parent / "second", fleet)
    for name in ("git", "docker", "podman"):
        program(made.folder / "bin", name, f"echo {name} was called: $* >> {made.folder}/called; exit 99")
    made.environ["DOCKER_HOST"] = "unix:///nonexistent"
    lock = {**first.lock, "images": {}}
    (made.folder / "buildmatrix.lock.json").write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")
    yield made
    for host in ("builder", "classic20", "containerd26"):
        names = "docker images --format '{{.Repository}}:{{.Tag}}' | grep pipe-sample"
        fleet.ssh(host, f"{names} | xargs -r docker rmi -f >/dev/null 2>&1 || true")


@dataclass(frozen=True)
class Steps:
    """The steps of docs/ci/github-actions.yml, run job by job with their own scripts and environment."""

    document: Mapping[str, Any]

    def run(self, job: str, here: Clone, known: Mapping[str, str]) -> dict[str, str]:
        """Run a job's scripts in a clone, installing left out; gives what it wrote to $GITHUB_OUTPUT.

        Args:
            known: expression → value.
        """
        output = here.folder / f"{job}.output"
        output.touch()
        body = self.document["jobs"][job]
        environ = {name: self.value(text, known) for name, text in body.get("env", {}).items()}
        for step in body["steps"]:
            if "run" in step and step["name"] != "Install":
                here.shell(step["run"], {**environ, "GITHUB_OUTPUT": str(output)})
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

    @staticmethod
    def value(text: str, known: Mapping[str, str]) -> str:
        """A text with its expressions replaced; one that is not known fails the test."""
        return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda found: known[found[1]], text)


@pytest.fixture(scope="session")
def steps() -> Steps:
    """The documented workflow."""
    return Steps(yaml.load((DOCS / "github-actions.yml").read_text(), Loader=yaml.BaseLoader))


@pytest.fixture(scope="session")
def released(first: Clone, second: Clone, steps: Steps) -> Path:
    """The whole workflow has run; gives the exported file, as the second clone got it."""
    (line,) = steps.run("plan", first, {}).values()
    (row,) = json.loads(line)["include"]
    steps.run("build", first, {f"matrix.{name}": value for name, value in row.items()})
    shutil.copytree(first.folder / "out", second.folder / "out")
    variants = "join(fromJSON(needs.plan.outputs.matrix).include.*.variant, ',')"
    steps.run("ship", second, {variants: row["variant"]})
    return second.folder / "out" / f"{row['name']}.tar"
