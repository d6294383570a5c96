"""Pictures of a terminal."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from sistership.report import events
from sistership.report.jsonlines import document
from sistership.report.picture import board_at, board_svg, text_svg

MIB = 1 << 20
RUN = [
    (0.0, events.Version("0.1.0", "ship", "2026-05-01T10:00:00Z")),
    (0.1, events.Begin("sample:v1", "sample", hosts=("gpu-a", "gpu-b"))),
    *((second, events.Progress("gpu-a", "sent", second * 10 * MIB, 100 * MIB)) for second in range(1, 9)),
    (9.0, events.HostDone("gpu-b", "sample:v1", "ok", 0, seconds=8.0)),
    (20.0, events.Summary(0, 20.0, 2)),
]
RECORDING = "\n".join(json.dumps(document(event, at)) for at, event in RUN)


def test_board_of_a_recording() -> None:
    """A moment of a recorded run, and its end."""
    early = [line.plain for line in board_at(RECORDING, 5.0)]
    assert "50.0 of 100.0 MiB" in early[1]
    assert "waiting" in early[2]
    assert "ok" in board_at(RECORDING, 99.0)[2].plain


def test_pictures_are_the_same_each_time_and_call_nowhere() -> None:
    """Same recording, same bytes; well-formed; no address but those of the SVG namespaces."""
    made = board_svg(RECORDING, 5.0, command="sistership ship")
    assert made == board_svg(RECORDING, 5.0, command="sistership ship")
    ET.fromstring(made)
    addresses = {word for word in made.replace('"', " ").replace("'", " ").split() if "://" in word}
    assert all("w3.org" in word or "textualize.io" in word for word in addresses), addresses
    assert "@font-face" not in made


def test_output_keeps_its_colours() -> None:
    """A colour code in what a command printed colours its words."""
    made = text_svg("gpu-a  \x1b[32mok\x1b[0m", command="sistership verify")
    assert "\x1b" not in made
    assert made != text_svg("gpu-a  ok", command="sistership verify")
