"""Practice hosts: `fleet.up`, `fleet.status`, `fleet.down`."""

from __future__ import annotations

import sys
from pathlib import Path

from invoke import Context

from sistership.errors import UsageError
from sistership.tasks.verb import MATRIX, finish, matrix_path, say, verb


def _project() -> Path:
    try:
        return matrix_path(None).parent.absolute()
    except UsageError:
        return Path.cwd()


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@verb
def up(c: Context, *, hosts: str | None = None) -> None:
    """Start practice hosts with real engines on this machine; running ones are kept."""
    del c
    from sistership import fleet  # noqa: PLC0415 - docker-py is slow to import and seldom needed

    project = _project()
    for host in fleet.up(project, hosts=hosts.split(",") if hosts else None, report=_tell):
        say(str(host))
    _tell(f"ssh -F {fleet.project_files(project).ssh_config} HOST logs in; {MATRIX} knows the hosts as `practice`")


@verb
def status(c: Context) -> None:
    """Show each practice host: state, address, engine, store. Exit 1 unless all run."""
    del c
    from sistership import fleet  # noqa: PLC0415 - docker-py is slow to import and seldom needed

    states = fleet.status()
    for host in states:
        say(str(host))
    finish(0 if states and all(host.state == "running" for host in states) else 1)


@verb
def down(c: Context, *, purge: bool = False) -> None:
    """Remove the practice hosts and all they hold; caches stay."""
    del c
    from sistership import fleet  # noqa: PLC0415 - docker-py is slow to import and seldom needed

    fleet.down(purge=purge, report=_tell)
