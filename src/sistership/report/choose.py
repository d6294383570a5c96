"""Who listens to a run, from where its output goes and what was asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from sistership.report import actions, board
from sistership.report.jsonlines import JsonLines
from sistership.report.lines import Lines
from sistership.report.listeners import Listener


def listeners(
    *,
    out: TextIO,
    err: TextIO,
    quiet: bool = False,
    verbose: bool = False,
    json: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Listener, ...]:
    """The listeners of one run.

    Args:
        out: where results go.
        err: where talk goes.
        json: `lines` or `document` when results are JSON; then there is no talk unless `verbose` asks for it.
    """
    found: list[Listener] = [JsonLines(out, verbose=verbose)] if json == "lines" else []
    still = quiet or (json is not None and not verbose)
    if actions.wanted(environ):
        return (*found, actions.Actions(err, verbose=verbose, quiet=still))
    if still:
        return tuple(found)
    if json is None and board.possible(err, environ):
        return (*found, board.Board(err, verbose=verbose, keep=not out.isatty()))
    return (*found, Lines(err, verbose=verbose))
