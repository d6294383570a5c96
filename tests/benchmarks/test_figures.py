"""Samples as medians, ratios and the figures that shipping is held to."""

from __future__ import annotations

import json
import re

import pytest
from ship_figures import Taken, must_show, rows, table
from ship_report import Result, document, show
from ship_setup import Sample


def taken(link, scenario, way, *seconds, received=0, cpu=0.0, peak=0, staged=None):
    """Samples of one way that differ in their seconds."""
    return [Taken(link, scenario, way, Sample(each, received, cpu, 0.5, peak, staged)) for each in seconds]


SAMPLES = [
    *taken("1gbit", "cold", "ship", 9, 5, 6, received=550_000_000, cpu=2.0, peak=40_000_000),
    *taken("1gbit", "cold", "built", 20, received=550_000_000, cpu=60.0, peak=500_000_000),
    *taken("1gbit", "cold", "watched", 30, received=550_000_000, peak=41_000_000, staged=570_000_000),
    *taken("1gbit", "cold", "pipeline", 24, 25, 23, received=571_000_000, cpu=8.0, peak=100_000_000),
    *taken("1gbit", "cold3", "ship", 15, received=1_650_000_000),
    *taken("1gbit", "cold3", "turn", 75, received=1_710_000_000),
    *taken("1gbit", "cold3", "once", 20, received=1_710_000_000),
    *taken("1gbit", "library", "minimize", 21, received=12_000_000, peak=2_200_000_000),
    *taken("1gbit", "library", "pipeline", 24, received=571_000_000),
]


def by_key():
    """The rows of all samples."""
    return {(row.scenario, row.way): row for row in rows(SAMPLES)}


def test_a_row_has_medians_and_ratios_to_its_reference():
    """Memory is the most of all samples; the reference itself has no ratio."""
    found = by_key()
    ship = found["cold", "ship"]

    assert (ship.runs, ship.seconds, ship.received, ship.peak) == (3, 6, 550_000_000, 40_000_000)
    assert ship.ratios["seconds"] == pytest.approx(0.25)
    assert ship.ratios["cpu"] == pytest.approx(0.25)
    assert ship.ratios["peak"] == pytest.approx(0.4)
    assert found["cold", "pipeline"].ratios == {}
    assert found["cold3", "ship"].ratios["seconds"] == pytest.approx(0.2)
    assert "cpu" not in found["cold3", "ship"].ratios


def test_what_is_watched_is_no_row_of_the_table():
    """Its seconds are no measure."""
    text = table(rows(SAMPLES))
    assert "staging watched" not in text
    line = next(line for line in text.splitlines() if "| ship  " in line)
    shown = "| 1gbit | cold | ship | 3 | 6.00 | 0.25 | 550.00 | 0.96 | 2.0 | 0.25 | 0.5 | 40 |"
    assert re.sub(r" +", " ", line) == shown


def test_what_shipping_is_held_to():
    """Each figure from the two rows that it names; what was not measured says so."""
    found = must_show(rows(SAMPLES), packed=550_000_000, library=750_000_000)
    by = {each.what: each for each in found}

    assert by["cold, 1 Gbit, from store to verified"].found == pytest.approx(0.25)
    assert by["cold, 1 Gbit, from build finished to verified"].found == pytest.approx(20 / 24)
    assert by["three hosts, to pipelines in turn"].found == pytest.approx(0.2)
    assert by["three hosts, to pipelines at once"].found == pytest.approx(0.75)
    assert by["library change, bytes, --minimize"].found == pytest.approx(12 / 571)
    assert by["the slowest scenario"].found == pytest.approx(0.25)
    assert by["peak memory without packing or difference, MB"].found == pytest.approx(40)
    assert by["peak memory of a difference, by the library"].found == pytest.approx(2.2 / 0.75)
    assert by["staged on the host beyond the compressed image, MB"].found == pytest.approx(20)
    assert str(by["nothing changed"]) == "nothing changed: not measured"
    assert str(by["cold, 1 Gbit, from store to verified"]).endswith("0.25 (at most 0.55), 6.00 s to 24.00 s")


def test_a_run_that_was_cut_prints_and_writes_what_there_is():
    """Also when that is nothing, or one sample without its reference."""
    assert show(Result("small", 1)) == "nothing was measured"
    result = Result("small", 1, SAMPLES[:1])
    assert "| cold " in show(result)
    assert "Not measured: cold, 1 Gbit, from store to verified; " in show(result)
    written = json.loads(json.dumps(document(result)))
    assert written["version"] == 2
    assert written["samples"][0]["way"] == "ship"
    assert written["model"] is None
    assert {each["what"] for each in written["must_show"]} >= {"nothing changed", "small change"}
