"""Tables for people: columns as wide as their content, the last one taking the rest of the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

RESET: Final = "\x1b[0m"
COLOURS: Final[Mapping[str, str]] = {"good": "\x1b[32m", "bad": "\x1b[31m", "warn": "\x1b[33m", "dim": "\x1b[2m"}


def coloured(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to use colours: only on a terminal, and never with NO_COLOR (no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def render(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    colour: Mapping[int, Sequence[str]] | None = None,
) -> str:
    """Rows under a header. The last column is wrapped at `width`; the others are never cut.

    Args:
        width: of the terminal in columns; None: no limit.
        colour: column → name of a colour for each row ("" for none).
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = max(20, width - left) if width else None
    lines = ["  ".join(name.ljust(size) for name, size in zip(header, widths, strict=True)).rstrip()]
    for number, row in enumerate(rows):
        codes = [COLOURS.get(colour[each][number], "") if colour and each in colour else "" for each in range(len(row))]
        parts = [_painted(part, codes[-1], 0) for part in wrap(row[-1], room)]
        cells = [_painted(text, code, size) for text, code, size in zip(row[:-1], codes, widths, strict=False)]
        lines.append("  ".join([*cells, parts[0]]).rstrip())
        lines.extend(" " * (left) + part for part in parts[1:])
    return "\n".join(lines)


def _painted(text: str, code: str, size: int) -> str:
    blank = " " * (size - len(text))
    return f"{code}{text}{RESET}{blank}" if code else text + blank


def wrap(text: str, width: int | None) -> list[str]:
    """Text in lines of at most `width` characters, cut at spaces where there are any."""
    if width is None or len(text) <= width:
        return [text]
    lines: list[str] = []
    while len(text) > width:
        cut = text.rfind(" ", 0, width + 1)
        cut = cut if cut > 0 else width
        lines.append(text[:cut])
        text = text[cut:].lstrip()
    return [*lines, text] if text else lines


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal behind `stream`; None for a pipe, where nothing is wrapped."""
    stream = stream or sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None
