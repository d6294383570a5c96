"""The shape of buildmatrix.yaml as JSON Schema draft-07, which is what YAML editors read.

It is made from the types of the matrix. Editors see YAML values with types (`12.8` a number, `on` sometimes a
boolean) where the matrix sees text, so every text may be a number or a boolean here: the schema never refuses what
the matrix accepts.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sistership.matrix.schema import MatrixFile

NAME: Final = "buildmatrix.schema.json"
DRAFT: Final = "http://json-schema.org/draft-07/schema#"

_TEXT: Final = ["string", "number", "boolean"]
#: An editor that does not merge `<<` itself must not call it unknown; `x-` keys are the user's own.
_FREE_KEYS: Final = "^(x-|<<$)"
_FLAG: Final = {"anyOf": [{"type": "boolean"}, {"enum": [
    word for text in ("true", "false", "on", "off", "yes", "no") for word in (text, text.title(), text.upper())
]}]}  # fmt: skip
_SECTIONS: Final = ("forks", "variants", "hosts", "groups")
_ROWS: Final = ("DefaultsRow", "HostRow")


def matrix_schema() -> dict[str, Any]:
    """The schema, ready for `json.dumps`."""
    made = MatrixFile.model_json_schema()
    rows = {name: _converted(row) for name, row in made.pop("$defs").items()}
    top = _converted(made)
    top["properties"]["version"] = {"enum": [1, "1"], "description": "1"}
    # A section, or a host, that has only its name. `anyOf` would hide from editors what is wrong inside.
    for row in [*(top["properties"][name] for name in _SECTIONS), *(rows[name] for name in _ROWS)]:
        row["type"] = ["object", "null"]
    return {"$schema": DRAFT, "title": "buildmatrix.yaml", **top, "definitions": rows}


def text() -> str:
    """The schema as the file that is committed and shipped."""
    return json.dumps(matrix_schema(), indent=2, ensure_ascii=False) + "\n"


def _converted(value: Any) -> dict[str, Any]:
    """One schema of pydantic's 2020-12 as draft-07, and as a YAML editor sees the values."""
    kept = {"description": value["description"]} if "description" in value else {}
    if isinstance(value.get("default"), (str, bool)):  # null, {} and [] say nothing
        kept["default"] = value["default"]
    made = _kind(value)
    if kept and "$ref" in made:  # draft-07 ignores what stands beside `$ref`
        made = {"allOf": [made]}
    return {**kept, **made}


def _kind(value: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in value:
        return {"$ref": value["$ref"].replace("#/$defs/", "#/definitions/")}
    if "anyOf" in value:
        # `X | None` is X: the matrix takes no key without a value, except where matrix_schema says so.
        rest = [_kind(each) for each in value["anyOf"] if each != {"type": "null"}]
        return rest[0] if len(rest) == 1 else {"anyOf": rest}
    if "enum" in value:
        return {"enum": value["enum"]}
    if value.get("type") == "boolean":
        return dict(_FLAG)
    if value.get("type") == "string" or isinstance(value.get("type"), list):
        return {"type": _TEXT}
    return _collection(value)


def _collection(value: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": value["type"]} if "type" in value else {}
    if "properties" in value:
        made["properties"] = {name: _converted(field) for name, field in value["properties"].items()}
    if "patternProperties" in value:
        made["patternProperties"] = {_FREE_KEYS: {}}
    for key in ("items", "additionalProperties"):
        if key in value:
            made[key] = _converted(value[key]) if isinstance(value[key], dict) else value[key]
    if "required" in value:
        made["required"] = value["required"]
    return made
