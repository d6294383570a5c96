"""A recorded run as pictures of a terminal (SVG): the same recording always gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from sistership.report import events
from sistership.report.board import styled
from sistership.report.jsonlines import replay
from sistership.report.rows import Rows, lay_out

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

#: rich names an SVG's classes by a hash of its content and this seed; a fixed one keeps pictures stable.
_ID: Final = "sistership"


def board_at(recording: str, at: float, *, width: int = 80) -> list[Text]:
    """The board of a recorded run as it was.

    Args:
        recording: the run's JSON lines.
        at: seconds since the run began.
        width: columns of the terminal.
    """
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    rows = Rows()
    for when, event in replay(recording):
        if when > at or isinstance(event, events.Summary | events.Failed):
            break
        rows.take(event, when)
    titles = [Text(title, style="dim", no_wrap=True, overflow="ellipsis") for title in rows.titles]
    return [*titles, *(styled(cells) for cells in lay_out(rows.all, at, width - 1, mark="⠸"))]


def board_svg(recording: str, at: float, *, command: str, width: int = 80) -> str:
    """A picture of the board of a recorded run, under the command that was typed."""
    return svg([*_typed(command), *board_at(recording, at, width=width)], width=width, title=command)


def text_svg(output: str, *, command: str, width: int = 80) -> str:
    """A picture of a command and what it printed; colour codes in `output` become colours."""
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    return svg([*_typed(command), *map(Text.from_ansi, output.splitlines())], width=width, title=command)


def svg(lines: Sequence[Text], *, width: int, title: str) -> str:
    """Lines of a terminal as SVG."""
    console = _console(width)
    for line in lines:
        console.print(line, soft_wrap=False)
    return _clean(console.export_svg(title=title, unique_id=_ID).splitlines())


def _console(width: int) -> Console:
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import

    return Console(
        file=io.StringIO(),
        record=True,
        width=width,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
        _environ={},
    )


def _typed(command: str) -> list[Text]:
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import

    return [Text.assemble(("$ ", "dim"), (command, "bold"))]


def _clean(lines: Iterable[str]) -> str:
    """Without spaces at line ends and without fonts from the network: a picture must not call anywhere."""
    kept: list[str] = []
    inside = False
    for line in lines:
        inside = inside or "@font-face" in line
        if not inside:
            kept.append(line.rstrip())
        elif line.strip() == "}":
            inside = False
    return "\n".join(kept) + "\n"
