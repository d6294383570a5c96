"""Small pieces of what people read: sizes, and parts of a sentence."""

from __future__ import annotations

from collections.abc import Iterable


def mebibytes(size: int) -> str:
    """Bytes for people: exact below 10 KiB, then KiB, MiB or GiB."""
    if size < 10 * 1024:
        return f"{size} B"
    for unit, width in (("KiB", 10), ("MiB", 20)):
        if size < 1 << (width + 10):
            return f"{size / (1 << width):.1f} {unit}"
    return f"{size / (1 << 30):.2f} GiB"


def joined(parts: Iterable[str]) -> str:
    """Parts of a sentence that are not empty, with commas."""
    return ", ".join(part for part in parts if part)
