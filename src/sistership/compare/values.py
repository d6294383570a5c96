"""JSON values as flat names, so that two documents can be compared field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def leaves(value: Any, name: str = "") -> dict[str, str]:
    """Name → value of everything in a JSON value: `config.Labels.x`, variables of `Env` by their own name.

    Lists of texts of the form `NAME=value` are taken as mappings, other lists as one value.
    """
    if isinstance(value, list) and value and all(isinstance(item, str) and "=" in item for item in value):
        value = dict(item.split("=", 1) for item in value)
    if isinstance(value, Mapping) and value:
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= leaves(inner, f"{name}.{key}" if name else str(key))
        return found
    if not name or value in (None, "", [], {}):
        return {}
    return {name: value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)}
