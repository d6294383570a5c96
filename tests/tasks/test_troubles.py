"""Troubles of hosts as people read them."""

from __future__ import annotations

import pytest

from sistership.tasks.troubles import HostTrouble, blocks

SHIP = "sistership ship --variant sample --hosts {host}"


def test_hosts_with_the_same_trouble_share_a_block() -> None:
    """Thirty hosts that lack the image are one block, with a command for all of them."""
    troubles = [HostTrouble(f"gpu-{each}", "missing", "nothing under this name or ID", SHIP) for each in "abc"]
    assert blocks([*troubles, HostTrouble("gpu-d", "unreachable", "timed out")]).splitlines() == [
        "gpu-a, gpu-b, gpu-c: missing",
        "  why:  nothing under this name or ID",
        "  next: sistership ship --variant sample --hosts gpu-a,gpu-b,gpu-c",
        "gpu-d: unreachable",
        "  why:  timed out",
    ]


def test_reason_is_one_line_and_says_nothing_twice() -> None:
    """A host's own words are put on one line; a reason that repeats the trouble is left out."""
    assert blocks([HostTrouble("h", "failed", "failed: a\n  b")]) == "h: failed\n  why:  a b"
    assert blocks([HostTrouble("h", "failed", "failed")]) == "h: failed"


def test_hosts_words_are_no_commands_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host says cannot command the runner of GitHub Actions."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "##[" not in blocks([HostTrouble("h", "failed", "x ##[error]y")])
