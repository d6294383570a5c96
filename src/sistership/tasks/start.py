"""How one starts: `init`, `doctor`, `schema`, `completion`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sistership.errors import UsageError
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, matrix_path, positive, print_json, say, verb

if TYPE_CHECKING:
    from sistership.matrix.model import Matrix
    from sistership.start.inventory import Row

#: How long `init` waits for each alias.
PROBE_SECONDS = 12.0


@verb
def init(
    run: Run, *, output: str = ".", probe: bool = True, templates: bool = False, ssh_config: str | None = None
) -> None:
    """Start a project: a commented buildmatrix.yaml with your ssh aliases as hosts; nothing is written over."""
    from sistership.start import init as rooms  # noqa: PLC0415 - keeps --list and --help quick

    folder = Path(output).expanduser()
    rooms.check(folder, templates=templates)
    config = Path(ssh_config).expanduser().absolute() if ssh_config else None
    rows = _rows(run, config, probe=probe)
    content = rooms.text(rows, config)
    made = rooms.write(folder, content, templates=templates)
    width = max(len(str(each.path)) for each in made)
    for each in made:
        say(f"{each.path!s:<{width}}  {each.note}")
    usable = [each.name for each in rows if each.usable]
    left_out = len(rows) - len(usable)
    more = f"; {left_out} more as comments, with the reason" if left_out else ""
    say(f"\nhosts: {', '.join(usable) or 'none yet'}{more}")
    variants, hosts = rooms.edits(content)
    say("\nTwo edits make it yours:")
    say(f"  1. {folder / rooms.MATRIX}:{variants}  variants: fork, commit, archs")
    say(f"  2. {folder / rooms.MATRIX}:{hosts}  hosts: which machines get the image")
    say("Then: sistership doctor, sistership build, sistership ship, sistership verify")


def _rows(run: Run, config: Path | None, *, probe: bool) -> list[Row]:
    """This machine and the hosts behind the aliases, asked or not.

    Raises:
        UsageError: a configuration that was named does not exist.
    """
    from dataclasses import replace  # noqa: PLC0415 - keeps --list and --help quick

    from sistership.host.inventory import connected  # noqa: PLC0415
    from sistership.matrix.model import Host  # noqa: PLC0415
    from sistership.start.aliases import aliases, user_config  # noqa: PLC0415
    from sistership.start.doctor import visit_all  # noqa: PLC0415
    from sistership.start.inventory import HERE, hosts_of, row, unasked  # noqa: PLC0415

    if config is not None and not config.is_file():
        raise UsageError(f"--ssh-config {config}: there is no such file")
    found = [replace(host, ssh_config=config) for host in hosts_of(aliases(config or user_config()))]
    hosts = [Host(HERE, local=True), *found]
    if not probe:
        return [unasked(host) for host in hosts]
    if found:
        run.reporter.step("", f"asking {len(found)} ssh aliases, {PROBE_SECONDS:.0f} s at most (--no-probe: ask none)")
    with connected(hosts) as peers:
        return [row(visit) for visit in visit_all(peers, jobs=32, seconds=PROBE_SECONDS)]


@verb
def doctor(
    run: Run,
    *,
    variant: str | None = None,
    hosts: str | None = None,
    matrix: str | None = None,
    json: bool = False,
    jobs: str = "16",
) -> None:
    """Look at this machine and at every host: what is there, what is in the way, how to cure it."""
    from sistership import places  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.matrix import selectors  # noqa: PLC0415
    from sistership.report.table import coloured, render, terminal_width  # noqa: PLC0415
    from sistership.start.doctor import document, examine, rows, summary  # noqa: PLC0415

    at_once = positive(jobs, "--jobs")
    model = _matrix(run, matrix, asked=hosts or variant)
    chosen = selectors.hosts(model, hosts) if model and model.hosts else ()
    variants = selectors.variants(model, variant) if model else ()
    report = examine(chosen, variants, places.store(), jobs=at_once, tell=run.reporter.step)
    if json:
        print_json(document(report))
    else:
        cells, colours = rows(report, quiet=run.quiet)
        colour = {1: colours} if coloured(sys.stdout) else None
        if cells:
            say(render(("HOST", "LEVEL", "ABOUT", "FOUND"), cells, width=terminal_width(), colour=colour))
        say(summary(report))
    finish(report.code)


def _matrix(run: Run, given: str | None, *, asked: str | None) -> Matrix | None:
    """The matrix; None where there is no project and nothing of one is asked for."""
    from sistership.matrix.load import load  # noqa: PLC0415 - keeps --list and --help quick

    try:
        path = matrix_path(given)
    except UsageError:
        if given is not None or asked is not None:
            raise
        run.reporter.step("", "no buildmatrix.yaml here: only this machine is looked at (sistership init makes one)")
        return None
    return load(path)


@verb
def schema(run: Run, *, output: str | None = None) -> None:
    """Print the JSON Schema (draft-07) of buildmatrix.yaml, for editors and checkers."""
    del run
    from sistership.start.schema import text  # noqa: PLC0415 - keeps --list and --help quick

    if output is None:
        say(text().rstrip("\n"))
        return
    Path(output).write_text(text())
    say(output)


@verb
def completion(run: Run, shell: str) -> None:
    """Print a completion script: `sistership completion bash`, `zsh` or `fish`."""
    del run
    from sistership.start.completion import script  # noqa: PLC0415 - keeps --list and --help quick

    say(script(shell).rstrip("\n"))
