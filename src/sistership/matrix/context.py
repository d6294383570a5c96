"""What every variant is read with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sistership.matrix.findings import Findings
from sistership.matrix.model import Host
from sistership.matrix.schema import DefaultsRow

if TYPE_CHECKING:
    from sistership.matrix.nodes import Path


@dataclass(frozen=True)
class Context:
    """The rest of the matrix, as a variant needs it.

    Attributes:
        builders: the matrix-wide `builder` key as the schema reads it.
    """

    defaults: DefaultsRow
    hosts: Mapping[str, Host]
    builders: Mapping[str, str]
    findings: Findings

    def where(self, name: str, key: str, *, own: bool) -> Path:
        """The path that a merged value came from: the variant's own row, or the defaults."""
        return ("variants", name, key) if own else ("defaults", key)
