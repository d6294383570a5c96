"""A project of its own on the practice fleet: its own store and logs, the real command line, real engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

MATRIX = """
version: 1
ssh_config: {ssh_config}
builder: builder
forks:
  sample: {{git: {sample}}}
variants:
  sample:
    fork: sample
    commit: main
    image: job-sample
    tag: v1
    backend: cpu
    base: {{build: "127.0.0.1:5000/practice/build:bookworm", runtime: "127.0.0.1:5000/practice/runtime:bookworm"}}
    patches: [{{file: rpc-zero-byte-tensor.patch, why: practice}}]
    packages: []
hosts: {{builder: {{}}, classic20: {{}}, containerd26: {{}}}}
groups: {{peers: [classic20, containerd26]}}
"""


@dataclass(frozen=True)
class Done:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)

    def verdicts(self) -> dict[str, str]:
        """Host → verdict, from `verify --json`."""
        return {host["host"]: host["verdict"] for host in self.json()["hosts"]}


@dataclass
class Project:
    """A folder with a matrix, and the command line in it."""

    folder: Path
    fleet: Fleet
    environ: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `sistership WORDS` and do not wait."""
        return subprocess.Popen(
            [sys.executable, "-m", "sistership", *words],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int | None = 0) -> Done:
        """Run `sistership WORDS`; the exit code must be `code` (None: any)."""
        process = self.start(*words)
        out, err = process.communicate(timeout=280)
        assert code is None or process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
        return Done(process.returncode, out, err)

    def verify(self, *words: str, code: int | None = 0) -> Done:
        """`verify --json`."""
        return self.run("verify", "--json", *words, code=code)

    def lock(self) -> dict[str, Any]:
        """The lock file."""
        found: dict[str, Any] = json.loads((self.folder / "buildmatrix.lock.json").read_text())
        return found

    def record(self) -> dict[str, Any]:
        """The newest sample image of the lock: the one that the matrix asks for."""
        keys = self.verify(code=None).json()["images"]
        found: dict[str, Any] = self.lock()["images"][keys[0]["recipe"]]
        return found

    def unique(self) -> str:
        """The image's own name on every host."""
        return f"sistership.local/job-sample:{self.record()['config'][7:19]}"

    def forget(self, host: str) -> None:
        """Remove every image and staged file from a host."""
        script = "docker ps -aq | xargs -r docker rm -f; docker images -q | sort -u | xargs -r docker rmi -f"
        self.fleet.ssh(host, f"{script}; docker system prune -af >/dev/null; rm -rf ~/.cache/sistership/stage")


@pytest.fixture(scope="session")
def project_in(fleet: Fleet) -> Callable[[Path], Project]:
    """A project in any folder, with a store of its own there."""

    def make(folder: Path) -> Project:
        own = {"SISTERSHIP_STORE": str(folder / "store"), "SISTERSHIP_LOGS": str(folder / "logs")}
        return Project(folder, fleet, {**os.environ, **own})

    return make


@pytest.fixture(scope="session")
def project(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose sample is built; the peers hold nothing of it yet."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "buildmatrix.yaml").write_text(
        MATRIX.format(ssh_config=fleet.files.ssh_config, sample=fleet.files.sample)
    )
    environ = {**os.environ, "SISTERSHIP_STORE": str(folder / "store"), "SISTERSHIP_LOGS": str(folder / "logs")}
    made = Project(folder, fleet, environ)
    for host in ("classic20", "classic26", "containerd26"):
        made.forget(host)
    made.run("build", "--variant", "sample")
    yield made
    for host in ("classic20", "classic26", "containerd26"):
        made.forget(host)


@pytest.fixture
def shipped(project: Project) -> Project:
    """The project with its sample on every host."""
    project.run("ship", "--variant", "sample")
    return project
