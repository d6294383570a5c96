"""Practice hosts: `fleet.up`, `fleet.status`, `fleet.down`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sistership.errors import UsageError
from sistership.report.events import HostDone, Note
from sistership.report.listeners import Reporter
from sistership.tasks.run import Run
from sistership.tasks.verb import MATRIX, finish, matrix_path, print_json, say, verb

if TYPE_CHECKING:
    from sistership.fleet import HostState


def _project() -> Path:
    try:
        return matrix_path(None).parent.absolute()
    except UsageError:
        return Path.cwd()


def teller(reporter: Reporter) -> Callable[[str], None]:
    """Gives the fleet's lines, `HOST: what happens`, to a reporter as steps of that host."""
    from sistership.fleet.spec import HOSTS  # noqa: PLC0415 - docker-py is slow to import and seldom needed

    def tell(line: str) -> None:
        host, colon, text = line.partition(": ")
        reporter.step(*((host, text) if colon and host in HOSTS else ("", line)))

    return tell


@verb(name="fleet.up", json="lines")
def up(run: Run, *, hosts: str | None = None, json: bool = False) -> None:
    """Start practice hosts with real engines on this machine; running ones are kept."""
    del json  # the run knows
    from sistership import fleet  # noqa: PLC0415 - docker-py is slow to import and seldom needed

    project = _project()
    states = fleet.up(project, hosts=hosts.split(",") if hosts else None, report=teller(run.reporter))
    for host in states:
        run.reporter.tell(HostDone(host.name, None, host.state, 0))
        if not run.json:
            say(str(host))
    how = f"ssh -F {fleet.project_files(project).ssh_config} HOST logs in; {MATRIX} knows the hosts as `practice`"
    run.reporter.tell(Note(how))


@verb(name="fleet.status")
def status(run: Run, *, json: bool = False) -> None:
    """Show each practice host: state, address, engine, store. Exit 1 unless all run but those on request."""
    del json  # the run knows
    from sistership import fleet  # noqa: PLC0415 - docker-py is slow to import and seldom needed

    states = fleet.status()
    code = 0 if states and all(host.state == "running" for host in states if not host.on_request) else 1
    if run.json:
        print_json({"version": 1, "type": "fleet", "exit": code, "hosts": [_state_json(host) for host in states]})
    else:
        say("\n".join(map(str, states)))
    finish(code)


def _state_json(host: HostState) -> dict[str, object]:
    found = host.engine
    engine = found and {
        "name": found.name,
        "version": found.version,
        "store": found.store or None,
        "driver": found.driver,
    }
    return {"host": host.name, "state": host.state, "address": host.address or None, "engine": engine}


@verb(name="fleet.down")
def down(run: Run, *, hosts: str | None = None, purge: bool = False) -> None:
    """Remove the practice hosts and all they hold, or the named ones; caches stay."""
    from sistership import fleet  # noqa: PLC0415 - docker-py is slow to import and seldom needed

    if hosts is None:
        fleet.down(purge=purge, report=teller(run.reporter))
    elif purge:
        raise UsageError("--purge removes what all hosts share", hint="give --hosts or --purge, not both")
    else:
        fleet.remove(_project(), hosts=hosts.split(","), report=teller(run.reporter))
