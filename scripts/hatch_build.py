"""Puts templates, patches and schemas into the wheel; an editable install reads them from the checkout instead."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Bundle(BuildHookInterface):  # type: ignore[type-arg]  # hatchling finds the class by its base
    """`force-include` would also copy them into site-packages of an editable install, where they go stale."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders when `version` is "standard" (a wheel to keep), not "editable"."""
        if version == "standard":
            build_data["force_include"].update(
                {folder: f"sistership/data/{folder}" for folder in ("dockerfiles", "patches", "schemas")}
            )
