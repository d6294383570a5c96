"""The cause table: how a difference shows, why it is there, and what removes it. Pure.

Rows are in the order of how surely they tell; the first that fits is the most probable cause.
"""

from __future__ import annotations

from sistership.compare.evidence import Evidence
from sistership.compare.model import Cause, Difference, Kind
from sistership.compare.rows_elf import ELF, ELF_CONSEQUENCES, GUESSES
from sistership.compare.rows_files import FILES, FILES_CONSEQUENCES
from sistership.compare.rows_layers import LAYERS


def causes_of(difference: Difference) -> tuple[Cause, ...]:
    """Every row that a difference shows, most probable first; none when nothing in it is known."""
    if difference.kind is not Kind.CONTENT:
        return tuple(row.cause for row in LAYERS if difference.kind in row.kinds and row.shows(difference))
    evidence = Evidence(difference)
    found = tuple(row.cause for row in (*ELF, *FILES) if row.shows(evidence))
    found = found or tuple(row.cause for row in GUESSES if row.shows(evidence))
    return found + tuple(row.cause for row in (*ELF_CONSEQUENCES, *FILES_CONSEQUENCES) if row.shows(evidence))


def every_cause() -> tuple[Cause, ...]:
    """All rows of the table."""
    contents = (*ELF, *FILES, *GUESSES, *ELF_CONSEQUENCES, *FILES_CONSEQUENCES)
    return (*(row.cause for row in contents), *(row.cause for row in LAYERS))
