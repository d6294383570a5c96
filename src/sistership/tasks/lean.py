"""Importing Invoke without what it never uses here, so that `--list`, `--help` and completion answer at once.

Invoke 3.0 imports `unittest.mock` (with asyncio and ssl) for a class that only tests use, `importlib.metadata`
(with email and zipfile) for its version string, and all of PyYAML to make its own copy of it quicker: together more
than half of its import time (measured: 80 of 175 ms for the first two). While it is imported, two small modules stand
in for the first two and still give the real thing when they are used; PyYAML is kept from it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def import_invoke() -> None:
    """Import Invoke; nothing but its own modules differs afterwards."""
    if "invoke" in sys.modules:
        return
    kept_out: dict[str, ModuleType | None] = {
        "unittest.mock": _mock(),
        "importlib.metadata": _metadata(),
        "yaml": None,  # what the import system takes for "there is none"
    }
    fresh = {name: module for name, module in kept_out.items() if name not in sys.modules}
    sys.modules.update(fresh)  # type: ignore[arg-type]  # None is legal there
    try:
        importlib.import_module("invoke")
    finally:
        for name in fresh:
            del sys.modules[name]


def _mock() -> ModuleType:
    def real(*args: Any, **kwargs: Any) -> Any:
        return importlib.import_module("unittest.mock").Mock(*args, **kwargs)

    module = ModuleType("unittest.mock")
    module.Mock = real  # type: ignore[attr-defined]
    return module


def _metadata() -> ModuleType:
    module = ModuleType("importlib.metadata")
    module.version = _version  # type: ignore[attr-defined]
    return module


def _version(name: str) -> str:
    """The version of an installed distribution, from the name of its metadata folder."""
    for entry in sys.path:
        for found in Path(entry).glob(f"{name}-*.dist-info") if entry else ():
            return found.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    sys.modules.pop("importlib.metadata", None)
    return str(importlib.import_module("importlib.metadata").version(name))
