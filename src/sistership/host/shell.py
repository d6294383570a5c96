"""The functions of shell that speak to engines, out of this package's files."""

from __future__ import annotations

import functools
from importlib.resources import files


def engine_functions(name: str, cli: str, *lines: str) -> str:
    """A kind's functions.

    Args:
        name: their file in this package.
        cli: quoted shell words that start the engine's command.
        lines: what else is put before them.
    """
    return "\n".join((f'engine() {{ {cli} "$@"; }}', *lines, _text(name)))


@functools.cache
def _text(name: str) -> str:
    """The file without its comments: every script carries it."""
    text = files(__package__ or "sistership.host").joinpath(name).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
