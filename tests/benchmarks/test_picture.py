"""Pictures of a benchmark: well-formed, with everything in them, and the same for the same figures."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from ship_figures import Row
from ship_model import COUNTS, SITES, Constants
from ship_picture import bars, growth
from ship_report import pictures

ROWS = [
    Row("1gbit", "cold", "ship", 3, 6.0, 1.0, 1.0, 1.0, 1, None, {"seconds": 0.25}),
    Row("1gbit", "cold", "watched", 1, 99.0, 1.0, 1.0, 1.0, 1, 5, {}),
    Row("1gbit", "cold", "pipeline", 3, 24.0, 1.0, 1.0, 1.0, 1, None, {}),
    Row("100mbit", "cold", "ship", 3, 60.0, 1.0, 1.0, 1.0, 1, None, {}),
    Row("1gbit", "size64", "ship", 3, 70.0, 1.0, 1.0, 1.0, 1, None, {}),
]
SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_their_seconds():
    """Of one link's usual scenarios alone, and not of what was watched."""
    drawn = ET.fromstring(bars(ROWS, "1gbit"))
    widths = [float(each.get("width")) for each in drawn.iter(f"{SVG}rect")][1:]
    words = [each.text for each in drawn.iter(f"{SVG}text")]

    assert len(widths) == 2
    assert abs(widths[1] / widths[0] - 4) < 0.01
    assert {"cold", "ship", "pipeline with zstd", "6.0", "24.0"} <= set(words)


def test_the_model_is_a_curve_for_each_site():
    """Inside the picture, with a legend and the numbers of hosts."""
    found = Constants(host=3.0, load=10e-9, cpu_host=0.5, cpu_byte=2e-9, push=1.0, pull=12e-9)
    drawn = ET.fromstring(growth(found, 550e6))
    curves = list(drawn.iter(f"{SVG}polyline"))
    words = {each.text for each in drawn.iter(f"{SVG}text")}
    *_, wide, high = map(float, drawn.get("viewBox").split())

    assert len(curves) == len(SITES)
    assert {*SITES, *map(str, COUNTS)} <= words
    for curve in curves:
        for point in curve.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= wide
            assert 0 <= y <= high
    assert growth(found, 550e6) == growth(found, 550e6)


def test_only_what_was_measured_is_drawn():
    """No model without its constants, no bars without the link that they are for."""
    assert list(pictures(ROWS)) == ["benchmark-ship.svg"]
    assert pictures([ROWS[3]]) == {}
