"""One log file per run, with everything: who was called how, what was started where, how it ended, every event.

Secrets stay out: values of the environment and standard input never come here, and what looks like a credential
inside a command or a message is masked.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self, TextIO

from sistership import trace
from sistership.report import events
from sistership.report.events import Event
from sistership.report.lines import line
from sistership.report.listeners import Listener

KEPT: Final = 50
_NAME: Final = re.compile(r"^run-\d{8}T\d{6}Z-.+-\d+\.log$")
_ERR_BYTES: Final = 8192
_SCRIPT: Final = re.compile(r"\"\$\(echo ([A-Za-z0-9+/=]+) \| base64 -d\)\"")
#: A whole word of a command line; its value may have spaces.
_ASSIGNED: Final = re.compile(r"(?is)^((?:--)?\w*(?:token|secret|passw(?:or)?d|credential|api_?key|auth)\w*)=.*")
_SECRETS: Final = (
    # the password of a URL
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^/\s:@]*):[^/\s@]+@"), r"\1:***@"),
    # a token as the user of a URL
    (re.compile(r"(\bhttps?://)[^/\s:@]{16,}@"), r"\1***@"),
    (re.compile(r"(?i)\b(\w*(?:token|secret|passw(?:or)?d|credential|api_?key|auth)\w*)=('[^']*'|\"[^\"]*\"|\S+)"),
     r"\1=***"),
    (re.compile(r"(?i)(--(?:password|token|secret)[ =])('[^']*'|\"[^\"]*\"|\S+)"), r"\1***"),
    (re.compile(r"(?i)\b((?:proxy-)?authorization: *(?:basic|bearer)? *)\S+"), r"\1***"),
)  # fmt: skip


def masked(text: str) -> str:
    """Text without what looks like a credential."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def name(verb: str, now: datetime, pid: int) -> str:
    """The file name of a run's log; names sort by time."""
    return f"run-{now:%Y%m%dT%H%M%SZ}-{verb}-{pid}.log"


def prune(folder: Path, kept: int = KEPT) -> None:
    """Remove all but the newest logs of runs; other files stay."""
    for old in sorted(path for path in folder.iterdir() if _NAME.match(path.name))[:-kept]:
        with contextlib.suppress(OSError):
            old.unlink()


def readable(argv: Sequence[str]) -> str:
    """A command line for people: a script in base64 is left out, since it is logged as text already."""
    shown = (_SCRIPT.sub('"$(the script)"', word) if "\n" not in word else "<the script>" for word in argv)
    return shlex.join(_ASSIGNED.sub(r"\1=***", word) for word in shown)


def script_of(argv: Sequence[str]) -> str | None:
    """The script that a command line carries in base64."""
    found = next((found for word in argv if (found := _SCRIPT.search(word))), None)
    return base64.b64decode(found[1]).decode(errors="replace") if found else None


class RunLog(Listener):
    """Writes a run's log.

    Args:
        path: the file; made anew, for this user only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._progress: dict[tuple[str, str], float] = {}
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._stream: TextIO | None = os.fdopen(opened, "w", encoding="utf-8", errors="backslashreplace")

    @classmethod
    def open(cls, folder: Path, verb: str, header: Mapping[str, str]) -> Self | None:
        """A new log below `folder`, with the header's lines first; None where none can be written.

        A run never fails for its log.
        """
        now = datetime.now(UTC)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            log = cls(folder / name(verb, now, os.getpid()))
            prune(folder)
        except OSError:
            return None
        log.write(f"sistership run of {now:%Y-%m-%dT%H:%M:%SZ}")
        for key, value in header.items():
            log.write(f"{key}: {value}")
        return log

    def tell(self, event: Event) -> None:
        """Write every event; progress of one host and step at most once a second, and its last."""
        if isinstance(event, events.Progress) and not self._due(event):
            return
        host, text = _worded(event)
        self.write(text, host)

    def observe(self, happened: trace.Started | trace.Ended) -> None:
        """Write what was started, and how it ended."""
        if isinstance(happened, trace.Started):
            what = happened.script.strip("\n") or readable(happened.argv)
            kind = "script" if happened.script else "argv"
            self.write(f"#{happened.number} {kind}: {what}", happened.host)
            return
        status = "no status" if happened.status is None else f"status {happened.status}"
        text = f"#{happened.number} {status} after {happened.seconds:.3f} s"
        err = happened.err.strip()[-_ERR_BYTES:]
        self.write(f"{text}, stderr:\n{err}" if err else text, happened.host)

    def write(self, text: str, host: str = "") -> None:
        """Write text with the time since the run began; further lines are indented.

        A disk that is full stops no work.
        """
        at = time.monotonic() - self._began
        first, *rest = masked(text).splitlines() or [""]
        lines = [f"{at:9.3f} {host or '-':<14} {first}", *(f"{'':26}{each}" for each in rest)]
        with self._lock, contextlib.suppress(OSError):
            if self._stream:
                self._stream.write("\n".join(lines) + "\n")
                self._stream.flush()

    def close(self) -> None:
        """Nothing more is written."""
        with self._lock, contextlib.suppress(OSError):
            if self._stream:
                self._stream.close()
            self._stream = None

    def _due(self, event: events.Progress) -> bool:
        key, now = (event.host, event.step), time.monotonic()
        with self._lock:
            if event.done < event.total and now - self._progress.get(key, -1.0) < 1:
                return False
            self._progress[key] = now
        return True


def _worded(event: Event) -> tuple[str, str]:  # noqa: PLR0911 - one for each kind
    """Any event as (host, text); what people see in the same words."""
    match event:
        case events.Detail(text):
            return "", f"detail: {text}"
        case events.Plan():
            layers = f"{event.have} layers there, {event.send} to send"
            return event.host, f"plan: {event.action} {event.image}, {event.bytes} bytes, {layers}"
        case events.HostDone():
            said = line(event)
            return event.host, f"outcome: exit {event.exit}, {said[1] if said else event.verdict}"
        case events.Failed():
            problems = "".join(f"\n{problem}" for problem in event.problems)
            return "", f"failed: exit {event.exit}: {_trouble(event.error)}{problems}"
        case events.Summary():
            return "", f"end: exit {event.exit} after {event.seconds:.3f} s, {event.ok} ok, {event.failed} failed"
        case events.Version():
            return "", f"{event.verb} begins"
        case events.Resolved():
            changed = "changed" if event.changed else "as before"
            return "", f"locked: {event.variant} at {event.commit}, tree {event.tree}, {changed}"
        case events.Archived():
            return "", f"archived: {event.base} {event.platform}: {event.new} of {event.bytes} bytes new"
        case events.Built():
            return "", f"image: {event.variant} {event.platform}: {event.how} on {event.builder}: {event.config}"
        case _:
            return line(event) or ("", "")


def _trouble(error: events.Trouble) -> str:
    parts = [f"{error.where}: {error.what}" if error.where else error.what]
    parts += [f"why: {error.why}"] if error.why else []
    parts += [f"next: {error.next}"] if error.next else []
    return "\n".join(parts)
