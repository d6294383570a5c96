"""GitHub Actions: groups that fold, and errors that show at their line of the matrix.

The commands are those of GitHub's "Workflow commands"; the runner reads them from both output streams.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from sistership.errors import Problem
from sistership.report import events
from sistership.report.events import Event
from sistership.report.lines import Lines


def wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether we run in GitHub Actions."""
    return environ.get("GITHUB_ACTIONS") == "true"


def escape(text: str) -> str:
    """The message of a command: `%`, CR and LF as the runner decodes them."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """A property of a command; `:` and `,` would end it."""
    return escape(text).replace(":", "%3A").replace(",", "%2C")


def command(name: str, message: str, properties: Mapping[str, str | int | None] | None = None) -> str:
    """One workflow command, for example `::error file=a.yaml,line=3,col=5::text`."""
    given = [f"{key}={escape_property(str(value))}" for key, value in (properties or {}).items() if value is not None]
    return f"::{name}{' ' if given else ''}{','.join(given)}::{escape(message)}"


def harmless(line: str) -> str:
    """A line of text that the runner takes for no command, whoever wrote it: a host, a compiler.

    The runner looks for `::` at the start of a line and for `##[` anywhere in it.
    """
    line = line.replace("##[", "##\u200b[")
    return f"\u200b{line}" if line.lstrip().startswith("::") else line


def guarded(text: str) -> str:
    """Text for people without commands in any of its lines, in GitHub Actions; elsewhere as it is."""
    return "\n".join(map(harmless, re.split(r"\r\n|\r|\n", text))) if wanted() else text


class Actions(Lines):
    """A line per change, in one group per variant, with annotations for errors and warnings.

    Args:
        stream: where to write; standard error by default.
        verbose: write details too.
        quiet: annotations only.
        workspace: the checkout; the runner wants file names from there.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        verbose: bool = False,
        quiet: bool = False,
        workspace: Path | None = None,
    ) -> None:
        super().__init__(stream or sys.stderr, verbose=verbose)
        self._quiet = quiet
        self._workspace = workspace or Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
        self._open = False

    def tell(self, event: Event) -> None:
        """Write a line, a group's edge, or an annotation."""
        match event:
            case events.Begin(title):
                self._end_group()
                self._start_group(title)
            case events.Warned(problem):
                self._command("warning", problem.message, self._place(problem), problem.hint)
            case events.Failed():
                self._end_group()
                self._failed(event)
            case events.HostDone(exit=code) if code:
                self._host_failed(event)
            case events.Summary() | events.Built():
                self._end_group()
            case _ if not self._quiet:
                super().tell(event)
            case _:
                pass

    def write(self, text: str) -> None:
        """Write lines that are no commands."""
        super().write("\n".join(map(harmless, re.split(r"\r\n|\r|\n", text))))

    def close(self) -> None:
        """End the group."""
        self._end_group()

    def _start_group(self, title: str) -> None:
        if not self._quiet:
            super().write(command("group", title))
            self._open = True

    def _end_group(self) -> None:
        if self._open:
            super().write("::endgroup::")
            self._open = False

    def _failed(self, event: events.Failed) -> None:
        for problem in event.problems:
            self._command("error", problem.message, self._place(problem), problem.hint)
        if not event.problems:
            error = event.error
            message = "\n".join(part for part in (error.what, error.why and f"why: {error.why}") if part)
            self._command("error", message, self._where(error.where), error.next)

    def _host_failed(self, event: events.HostDone) -> None:
        trouble = event.error or events.Trouble(event.verdict)
        text = "\n".join(part for part in (trouble.what, trouble.why and f"why: {trouble.why}") if part)
        self._command("error", text, {"title": f"{event.host}: {event.verdict}"}, trouble.next)

    def _command(self, name: str, message: str, properties: Mapping[str, str | int | None], hint: str | None) -> None:
        super().write(command(name, f"{message}\nnext: {hint}" if hint else message, properties))

    def _place(self, problem: Problem) -> dict[str, str | int | None]:
        return {"file": self._file(problem.file), "line": problem.line, "col": problem.column}

    def _where(self, where: str | None) -> dict[str, str | int | None]:
        """`file:line:column` as properties, anything else as a title."""
        found = re.fullmatch(r"(.+?):(\d+)(?::(\d+))?", where or "")
        if found:
            return {"file": self._file(found[1]), "line": found[2], "col": found[3]}
        if where and Path(where).is_file():
            return {"file": self._file(where)}
        return {"title": where}

    def _file(self, name: str) -> str:
        path = Path(name).absolute()
        return str(path.relative_to(self._workspace)) if path.is_relative_to(self._workspace) else name
