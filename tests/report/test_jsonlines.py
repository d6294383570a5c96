"""JSON lines, each against its committed schema."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sistership.errors import MatrixError, Problem, ShipError
from sistership.report import events
from sistership.report.jsonlines import TYPES, JsonLines, document, error_document, event_of, replay

SCHEMAS = Path(__file__).parents[2] / "schemas"
DIGEST = "sha256:" + "a" * 64
TROUBLE = events.Trouble("it does not answer", "gpu-a", "timed out", "is it on?")
EVERY: tuple[events.Event, ...] = (
    events.Version("0.1.0", "ship", "2026-05-01T10:00:00Z", "/logs/run.log"),
    events.Version("0.1.0", "ship", "2026-05-01T10:00:00Z"),
    events.Begin("sample:v1", "sample", "linux/amd64", "b" * 64, "sample:v1", ("gpu-a",)),
    events.Begin("sample", "sample"),
    events.Plan("gpu-a", "sample:v1", "load", 5 << 20, 7, 5, 5 << 20, 9 << 20),
    events.Step("gpu-a", "loading"),
    events.Step("", "resolving"),
    events.Progress("gpu-a", "sent", 1, 2),
    events.Progress("gpu-a", "received", 1, 0),
    events.Progress("gpu-a", "compiled", 40, 266, "files"),
    events.Note("ship it"),
    events.Warned(Problem("buildmatrix.yaml", 3, 5, "old", None)),
    events.Resolved("sample", "c" * 40, 7, "d" * 40, 2, changed=True),
    events.Resolved(
        "sample", "c" * 40, 7, "d" * 40, 2, changed=True, moves=(events.Moved("commit", None, "c" * 40, "b7"),)
    ),
    events.Archived("debian:bookworm@" + DIGEST, "linux/amd64", DIGEST, 3, 412 << 20, 60 << 20),
    events.Built("sample", "linux/amd64", "b" * 64, "built", "gpu-a", "sample:v1", DIGEST),
    events.Built("sample", "linux/amd64", "b" * 64, "to be built", "gpu-a"),
    events.HostDone("gpu-a", "sample:v1", "ok", 0, 5, 1.5),
    events.HostDone("gpu-a", None, "unreachable", 20, error=TROUBLE),
    events.Failed.of(ShipError("damaged", where="/store", hint="build"), "/logs/run.log"),
    events.Failed.of(MatrixError([Problem("m.yaml", 1, 1, "wrong", "right")])),
    events.Summary(20, 4.25, 2, 1, 10, "/logs/run.log"),
    events.Detail("more"),
)


def strict(schema: Any) -> Any:
    """A schema that refuses fields it does not name: users are told to ignore them, our tests are not."""
    if isinstance(schema, dict):
        closed = {key: strict(value) for key, value in schema.items()}
        return {**closed, "additionalProperties": False} if "properties" in schema else closed
    return [strict(each) for each in schema] if isinstance(schema, list) else schema


def validator(name: str) -> jsonschema.Draft7Validator:
    """The committed schema `name`, closed."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(strict(schema))


@pytest.mark.parametrize("event", EVERY, ids=lambda event: type(event).__name__)
def test_every_line_is_as_the_schema_says(event: events.Event) -> None:
    """Each kind of line, full and sparse, holds to the schema, and is one line of text."""
    out = io.StringIO()
    JsonLines(out, verbose=True).tell(event)
    (text,) = out.getvalue().splitlines()
    validator("lines").validate(json.loads(text))


def test_every_event_and_every_type_is_covered() -> None:
    """No event without a type, no type of the schema that nothing makes."""
    assert {type(event) for event in EVERY} == set(TYPES)
    schema = json.loads((SCHEMAS / "lines.schema.json").read_text())
    assert {ref["$ref"].rsplit("/", 1)[1] for ref in schema["oneOf"]} == set(TYPES.values())


@pytest.mark.parametrize("event", EVERY, ids=lambda event: type(event).__name__)
def test_lines_can_be_read_back(event: events.Event) -> None:
    """A recorded run gives the same events again."""
    assert event_of(json.loads(json.dumps(document(event, 1.5)))) == (1.5, event)


def test_a_recording_is_replayed_in_order() -> None:
    """Empty lines are skipped, times are those of the recording."""
    text = "\n\n".join(json.dumps(document(event, at)) for at, event in enumerate(EVERY))
    assert list(replay(text)) == list(enumerate(EVERY))


def test_the_schema_refuses_what_is_wrong() -> None:
    """The closed schema is no rubber stamp."""
    good = document(events.HostDone("gpu-a", None, "ok", 0), 0)
    for bad in ({**good, "exit": "0"}, {**good, "other": 1}, {**good, "type": "hosts"}, {**good, "version": 2}):
        assert not validator("lines").is_valid(bad)


def test_error_of_a_query() -> None:
    """What a query prints when it fails holds to the schemas of the queries."""
    for name in ("plan", "verify"):
        validator(name).validate(error_document(events.Failed.of(ShipError("damaged"))))


def test_progress_is_limited_and_its_end_is_told() -> None:
    """Two lines a second for one host and step, and always the last one."""
    now = 0.0
    out = io.StringIO()
    lines = JsonLines(out, clock=lambda: now)
    for done in range(1, 1001):
        now = done / 100
        lines.progress("gpu-a", "sent", done, 1000)
    told = [json.loads(line)["done"] for line in out.getvalue().splitlines()]
    assert len(told) <= 22
    assert told[-1] == 1000


def test_nothing_follows_the_last_line() -> None:
    """A thread that still ends its work after an error or an interrupt adds no line."""
    out = io.StringIO()
    lines = JsonLines(out)
    lines.tell(events.Failed.of(ShipError("interrupted")))
    lines.step("gpu-a", "failed: cut")
    assert [json.loads(line)["type"] for line in out.getvalue().splitlines()] == ["error"]


def test_details_need_verbose() -> None:
    """Without --verbose there are no detail lines."""
    out = io.StringIO()
    JsonLines(out).detail("more")
    assert out.getvalue() == ""
