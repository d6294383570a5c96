"""A live board on a terminal: one line per host, redrawn in place; what is said once scrolls away above it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TextIO

from sistership.report import events
from sistership.report.events import Event
from sistership.report.lines import line
from sistership.report.listeners import Listener
from sistership.report.rows import HERE, Cells, Rows, lay_out

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_SPIN: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STYLES: Final[Mapping[str, str]] = {"good": "green", "bad": "red", "dim": "dim", "": ""}
_ROOM_BELOW: Final = 2  # lines of the terminal that stay free


def possible(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a board can be drawn: on a terminal that moves its cursor, with characters beyond ASCII."""
    encoding = (getattr(stream, "encoding", "") or "").lower().replace("-", "")
    return stream.isatty() and environ.get("TERM", "dumb") not in {"dumb", "unknown"} and encoding == "utf8"


def styled(cells: Cells) -> Text:
    """A line of the board with its colours."""
    from rich.text import Text  # noqa: PLC0415 - rich is slow to import and only terminals need it

    style = _STYLES[cells.tone]
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{cells.mark} ", style=style or "cyan")
    text.append(f"{cells.host}  " if cells.host else "", style="bold")
    text.append(cells.text, style="" if cells.tone == "good" else style)
    return text


class Board(Listener):
    """Draws the board on `stream`.

    It exists only while something happens: it is drawn at the first event and gone at `pause` and `close`, so that
    results have the terminal for themselves and nothing is left behind by an interrupt.

    Args:
        stream: the terminal; standard error by default.
        verbose: write details above the board.
        keep: leave the last frame on the terminal, for when results go elsewhere.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        verbose: bool = False,
        keep: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._verbose = verbose
        self._keep = keep
        self._clock = clock
        self._rows = Rows()
        # Two locks: rich holds its own while it asks for a frame, so the one for rows is never held while we call rich.
        self._rows_lock = threading.Lock()
        self._draw_lock = threading.RLock()
        self._live: Live | None = None
        self._closed = False
        self._frame = 0

    def tell(self, event: Event) -> None:
        """Change a row, or write a line above the board."""
        with self._rows_lock:
            self._rows.take(event, self._clock())
        match event:
            case events.Detail(text):
                if self._verbose:
                    self._above(text)
            case events.Warned() | events.Note():
                self._above((line(event) or ("", ""))[1])
            case events.Failed() | events.Summary():
                self.close()
            case events.Version() | events.Built() | events.Resolved() | events.Archived():
                pass
            case _:
                self._draw()

    def pause(self) -> None:
        """Take the board off the terminal until the next event."""
        with self._draw_lock:
            live, self._live = self._live, None
            if live:
                live.stop()

    def close(self) -> None:
        """End the board; where hosts were still at work, as after an interrupt, it stays as it was."""
        with self._draw_lock:
            self._closed = True
            if self._live and any(row.end is None and row.host != HERE for row in self._rows.all):
                self._live.transient = False
            self.pause()

    def _above(self, text: str) -> None:
        from rich.text import Text  # noqa: PLC0415 - rich is slow to import and only terminals need it

        with self._draw_lock:
            self._draw()
            if self._live:
                self._live.console.print(Text(text), soft_wrap=True)

    def _draw(self) -> None:
        with self._draw_lock:
            if self._live is None and not self._closed:
                self._live = self._made()
                self._live.start()

    def _made(self) -> Live:
        from rich.console import Console  # noqa: PLC0415 - rich is slow to import and only terminals need it
        from rich.live import Live  # noqa: PLC0415

        console = Console(file=self._stream, force_terminal=True, highlight=False, emoji=False, markup=False)
        return Live(
            console=console,
            get_renderable=lambda: self.frame(console.size.width, console.size.height),
            refresh_per_second=8,
            transient=not self._keep,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def frame(self, width: int, height: int) -> Text:
        """The board as it is now, on a terminal of that many columns and lines."""
        from rich.text import Text  # noqa: PLC0415 - rich is slow to import and only terminals need it

        with self._rows_lock:
            self._frame += 1
            mark = "·" if self._closed else _SPIN[self._frame % len(_SPIN)]
            titles = [Text(title, style="dim", no_wrap=True, overflow="ellipsis") for title in self._rows.titles]
            room = max(1, height - _ROOM_BELOW - len(titles))
            lines = lay_out(self._rows.all, self._clock(), width - 1, height=room, mark=mark)
        return Text("\n").join([*titles, *(styled(cells) for cells in lines)])
