"""What real engines answered to a probe, and what it means."""

from __future__ import annotations

from pathlib import Path

from sistership.host.commands import Commands
from sistership.host.facts import HostFacts, parse
from sistership.host.transport import Completed
from sistership.matrix.model import Host

CASES = Path(__file__).parents[1] / "cases" / "engines"


def recorded(engine: str, case: str) -> str:
    """What a host with such an engine printed."""
    return (CASES / f"{engine}-{case}.txt").read_text()


def read(host: Host, engine: Commands, text: str) -> HostFacts:
    """What such a text means."""
    return parse(host, engine, Completed(0, text.encode(), ""))
