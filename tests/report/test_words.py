"""Sizes, and parts of a sentence, as people read them."""

from __future__ import annotations

from sistership.report.words import joined, mebibytes


def test_sizes_are_exact_when_small() -> None:
    """Small sizes are exact bytes."""
    assert [mebibytes(n) for n in (0, 2597, 20_480, 5 << 20, 3 << 30)] == [
        "0 B",
        "2597 B",
        "20.0 KiB",
        "5.0 MiB",
        "3.00 GiB",
    ]


def test_empty_parts_leave_no_comma() -> None:
    """What there is nothing to say of is left out."""
    assert joined(["ok", "", "5 s"]) == "ok, 5 s"
    assert not joined(["", ""])
