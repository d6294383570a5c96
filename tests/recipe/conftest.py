from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from sistership.matrix.model import Base, Cuda, Fork, Matrix, Variant
from sistership.recipe.lock import LockedVariant

COMMIT = "1234567890abcdef1234567890abcdef12345678"
DEVEL = "nvidia/cuda:12.8.1-devel-ubuntu24.04"
RUNTIME = "nvidia/cuda:12.8.1-runtime-ubuntu24.04"


@dataclass
class Repository:
    """A real git repository with a work tree, driven with fixed names and times."""

    folder: Path
    _tick: int = 1_700_000_000

    def git(self, *args: str, data: bytes | None = None) -> str:
        """Standard output without the newline at its end."""
        stamp = f"{self._tick} +0000"
        env = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.invalid",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.invalid",
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_DATE": stamp,
        }
        argv = ["git", "-c", "core.autocrlf=false", "-C", str(self.folder), *args]
        done = subprocess.run(argv, input=data, capture_output=True, env=env, check=True)
        return done.stdout.decode().strip("\n")

    def write(self, name: str, data: bytes | str) -> Path:
        """Write a file of the work tree."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def commit(self, message: str = "change") -> str:
        """Commit everything, a minute after the last commit; gives the hash."""
        self._tick += 60
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def diff(self, *args: str) -> bytes:
        """The uncommitted change, as `git diff` prints it."""
        return (self.git("diff", *args) + "\n").encode()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty repository."""
    folder = tmp_path / "fork"
    folder.mkdir()
    made = Repository(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    return made


def variant(**changes) -> Variant:
    """A CUDA variant like the real rows."""
    values = {
        "name": "alpha",
        "fork": "fork",
        "commit": COMMIT,
        "image": "llamacpp-alpha",
        "tag": "v1",
        "backend": "cuda",
        "cuda": Cuda("12.8.1", ("89", "120")),
        "base": Base(DEVEL, RUNTIME),
        "packages": ("cmake", "ninja-build"),
        "where": "buildmatrix.yaml:12:3",
    }
    return Variant(**{**values, **changes})


def cpu(**changes) -> Variant:
    """The same without CUDA."""
    base = Base("debian:bookworm", "debian:bookworm-slim")
    return variant(**{"backend": "cpu", "cuda": None, "base": base, **changes})


def locked(**changes) -> LockedVariant:
    """A resolution that was never really made."""
    values = {
        "inputs": "0" * 64,
        "commit": COMMIT,
        "tree": "fedcba0987654321fedcba0987654321fedcba09",
        "number": 9079,
        "date": "2026-05-01T10:00:00Z",
        "bases": {"build": f"{DEVEL}@sha256:{'5' * 64}", "runtime": f"{RUNTIME}@sha256:{'e' * 64}"},
        "patches": (),
    }
    return LockedVariant(**{**values, **changes})


def matrix(project: Path, *rows: Variant, git: str = "https://git.example/fork") -> Matrix:
    """A matrix of these rows and one fork."""
    forks = {"fork": Fork("fork", git)}
    return Matrix(project / "buildmatrix.yaml", project, forks, {row.name: row for row in rows}, {}, {})


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Makers of values, as one fixture: test files cannot import each other."""
    return SimpleNamespace(variant=variant, cpu=cpu, locked=locked, matrix=matrix, commit=COMMIT, repository=Repository)
