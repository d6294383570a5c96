"""Where two images differ, down to the part of a file, and why."""

from sistership.compare import report, reproduce
from sistership.compare.model import Cause, Comparison, Difference, Kind, Part, Side, What
from sistership.compare.records import Moved, hashes, inputs, moved, records
from sistership.compare.whole import images, saved

__all__ = [
    "Cause",
    "Comparison",
    "Difference",
    "Kind",
    "Moved",
    "Part",
    "Side",
    "What",
    "hashes",
    "images",
    "inputs",
    "moved",
    "records",
    "report",
    "reproduce",
    "saved",
]
