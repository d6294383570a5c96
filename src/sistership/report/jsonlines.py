"""`--json` of long verbs: one JSON object a line, each with `version` and `type`, on standard output.

The shape is committed as schemas/lines.schema.json.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, TextIO

from sistership.errors import Problem
from sistership.report import events
from sistership.report.events import Event
from sistership.report.listeners import Listener

#: It changes when a field changes its meaning or goes away, not when one is added.
JSON_VERSION: Final = 1

TYPES: Final[Mapping[type, str]] = {
    events.Version: "version",
    events.Begin: "begin",
    events.Plan: "plan",
    events.Step: "progress",
    events.Progress: "progress",
    events.Note: "note",
    events.Warned: "warning",
    events.Resolved: "variant",
    events.Archived: "base",
    events.Built: "image",
    events.HostDone: "host",
    events.Failed: "error",
    events.Summary: "summary",
    events.Detail: "detail",
}


def document(event: Event, at: float) -> dict[str, Any]:
    """An event as the object of its line.

    Args:
        at: seconds since the run began.
    """
    return {"version": JSON_VERSION, "type": TYPES[type(event)], "at": round(at, 3), **_fields(event)}


def _fields(event: Event) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind
    match event:
        case events.Step(host, text):
            return {"host": host or None, "step": text, "done": None, "total": None, "unit": None}
        case events.Progress(host, step, done, total, unit):
            return {"host": host or None, "step": step, "done": done, "total": total or None, "unit": unit}
        case events.Plan():
            return {
                "host": event.host,
                "image": event.image,
                "action": event.action,
                "bytes": event.bytes,
                "layers": {"have": event.have, "send": event.send},
                "disk": {"stage": event.stage, "engine": event.engine},
            }
        case events.Warned(problem):
            return asdict(problem)
        case events.Failed():
            return _failed(event)
        case events.Summary():
            hosts = {"ok": event.ok, "failed": event.failed}
            return {
                "exit": event.exit,
                "seconds": round(event.seconds, 3),
                "hosts": hosts,
                "sent": event.sent,
                "log": event.log,
            }
        case events.HostDone():
            return {**asdict(event), "seconds": round(event.seconds, 3)}
        case _:
            return asdict(event)


def _failed(event: events.Failed) -> dict[str, Any]:
    return {
        "exit": event.exit,
        "error": asdict(event.error),
        "problems": [asdict(problem) for problem in event.problems],
        "log": event.log,
    }


def error_document(event: events.Failed) -> dict[str, Any]:
    """What a query prints instead of its document when it fails."""
    return {"version": JSON_VERSION, "type": "error", **_failed(event)}


def event_of(line: Mapping[str, Any]) -> tuple[float, Event]:
    """The event of a line that `document` made, and when it happened: a recorded run can be shown again.

    Raises:
        KeyError, TypeError: it is no line of ours.
    """
    body = {name: value for name, value in line.items() if name not in {"version", "type", "at"}}
    return float(line["at"]), _event(str(line["type"]), body)


def _event(kind: str, body: dict[str, Any]) -> Event:  # noqa: C901, PLR0911 - one for each kind
    match kind:
        case "progress" if body["unit"] is None:
            return events.Step(body["host"] or "", body["step"])
        case "progress":
            return events.Progress(body["host"] or "", body["step"], body["done"], body["total"] or 0, body["unit"])
        case "plan":
            layers, disk = body.pop("layers"), body.pop("disk")
            return events.Plan(**body, **layers, **disk)
        case "warning":
            return events.Warned(Problem(**body))
        case "host":
            error = body.pop("error")
            return events.HostDone(**body, error=error and events.Trouble(**error))
        case "variant":
            moves = tuple(events.Moved(**move) for move in body.pop("moves", ()))
            return events.Resolved(**body, moves=moves)
        case "error":
            problems = tuple(Problem(**problem) for problem in body["problems"])
            return events.Failed(body["exit"], events.Trouble(**body["error"]), problems, body["log"])
        case "summary":
            hosts = body.pop("hosts")
            return events.Summary(**body, **hosts)
        case _:
            classes = {name: made for made, name in TYPES.items()}
            if kind == "begin":
                body["hosts"] = tuple(body["hosts"])
            if kind == "variant":
                body["moves"] = tuple(events.Moved(**move) for move in body["moves"])
            made: Event = classes[kind](**body)
            return made


def replay(text: str) -> Iterator[tuple[float, Event]]:
    """The events of a recorded run, from its JSON lines."""
    for line in text.splitlines():
        if line.strip():
            yield event_of(json.loads(line))


class JsonLines(Listener):
    """Writes JSON lines.

    Progress of one host and step comes at most twice a second, and its last always.

    Args:
        stream: where to write; standard output by default.
        verbose: write details too.
        clock: seconds that only grow.
    """

    _LEAST = 0.5

    def __init__(
        self, stream: TextIO | None = None, *, verbose: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stdout
        self._verbose = verbose
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], float] = {}
        self._closed = False

    def close(self) -> None:
        """The last line is written: a thread that still ends its work adds none."""
        with self._lock:
            self._closed = True

    def tell(self, event: Event) -> None:
        """Write its line; a reader that went away stops no work."""
        if isinstance(event, events.Detail) and not self._verbose:
            return
        now = self._clock()
        with self._lock, contextlib.suppress(BrokenPipeError):
            if self._closed or (isinstance(event, events.Progress) and not self._due(event, now)):
                return
            self._closed = isinstance(event, events.Failed | events.Summary)
            self._stream.write(json.dumps(document(event, now - self._began), ensure_ascii=False) + "\n")
            self._stream.flush()

    def _due(self, event: events.Progress, now: float) -> bool:
        key = (event.host, event.step)
        if event.done < event.total and now - self._last.get(key, -self._LEAST) < self._LEAST:
            return False
        self._last[key] = now
        return True
