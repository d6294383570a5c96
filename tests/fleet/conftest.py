"""Tests here run on the practice fleet; without Docker they fail, they are not skipped."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sistership.fleet import HostState, ProjectFiles, project_files

#: The checkout: its matrix names `.sistership/fleet/ssh_config`.
PROJECT = Path(__file__).parents[2]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below this folder before `-m` is looked at."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.fleet)


@dataclass(frozen=True)
class Fleet:
    """The running practice fleet, and the project whose files reach it."""

    project: Path
    files: ProjectFiles
    states: dict[str, HostState]

    def ssh(self, host: str, command: str, *, seconds: float = 60, stdin: bytes = b"") -> str:
        """Run `command` on `host` over ssh; its standard output. A non-zero exit fails the test with what it said."""
        done = subprocess.run(
            ["ssh", "-F", str(self.files.ssh_config), "-o", "BatchMode=yes", host, command],
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{host}: {command!r} ended with {done.returncode}: {done.stderr.decode()}"
        return done.stdout.decode()


@pytest.fixture(scope="session")
def fleet() -> Fleet:
    """The practice fleet, started if need be (minutes the first time, seconds later) and left running."""
    from sistership import fleet as practice  # noqa: PLC0415  collecting needs no engine

    states = practice.up(PROJECT, report=print)
    return Fleet(PROJECT, project_files(PROJECT), {state.name: state for state in states})
