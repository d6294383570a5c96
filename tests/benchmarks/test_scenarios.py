"""What a benchmark run does: chosen by name, and in which order."""

from __future__ import annotations

import argparse

import pytest
from ship_links import LINKS, rate
from ship_scenarios import GROWTH, MUST_SHOW, ONCE, SCENARIOS, SIX, USUAL, WAYS, cells, turns

from ship import DONE_BY, parser, several
from sistership.fleet.spec import HOSTS


def test_every_way_of_every_scenario_can_be_done_and_every_host_exists():
    """A key that nothing stands behind would fail minutes into a run."""
    assert set(DONE_BY) == set(WAYS)
    for scenario in SCENARIOS.values():
        assert set(scenario.ways) <= set(WAYS)
        assert set(scenario.hosts) <= set(HOSTS)
    assert len(set(SIX)) == 6
    assert {cell.link for cell in MUST_SHOW} <= set(LINKS)


def test_several_hosts_are_compared_with_pipelines_in_turn_and_one_with_one():
    """Each scenario has the reference that its table's ratios are made with."""
    assert SCENARIOS["cold"].reference == "pipeline"
    assert SCENARIOS["cold3"].reference == "turn"
    assert not SCENARIOS["hosts4"].reference


def test_links_scenarios_and_ways_are_chosen_by_name():
    """Only what takes part in a scenario is done there; scenarios keep their order, growth by hosts comes last."""
    chosen = cells(["100mbit"], ["hosts2", "library", "cold"], ["ship", "minimize"])

    assert [(cell.link, cell.scenario.key, cell.ways) for cell in chosen] == [
        ("100mbit", "cold", ("ship",)),
        ("100mbit", "library", ("ship", "minimize")),
        ("100mbit", "hosts2", ("ship",)),
    ]
    assert [cell.scenario for cell in cells(["unshaped"], [], [])] == list(USUAL)
    assert cells(["unshaped"], ["cold3"], ["skopeo"]) == ()


def test_ways_take_turns_in_being_first_and_what_is_no_matter_of_time_is_measured_once():
    """The first of a scenario finds other caches than the last, so none is always the first."""
    order = turns(cells(["1gbit"], ["cold"], ["ship", "watched", "pipeline"]), 3)

    assert [turn.way for turn in order] == [
        *("ship", "watched", "pipeline"),
        *("pipeline", "ship"),
        *("pipeline", "ship"),
    ]
    assert {"watched"} == ONCE


def test_one_link_is_done_before_the_next():
    """A link is shaped once."""
    order = turns([*MUST_SHOW, *cells(["1gbit"], ["small3"], [])], 2)

    links = [turn.cell.link for turn in order]
    assert links == sorted(links, key=["1gbit", "100mbit"].index)
    assert len(order) == 2 * sum(len(cell.ways) for cell in MUST_SHOW) - 1 + 2 * 3


def test_what_it_must_show_is_all_that_the_figures_are_made_of():
    """Nothing of it is left out by the selection that is named after it."""
    there = {(cell.link, cell.scenario.key, way) for cell in MUST_SHOW for way in cell.ways}
    assert ("1gbit", "cold", "built") in there
    assert ("1gbit", "library", "minimize") in there
    assert ("100mbit", "library", "ship") in there
    assert all(cell.scenario.reference in cell.ways for cell in MUST_SHOW)


def test_names_on_the_command_line():
    """A group stands for its members; a name that nothing has is refused with those that there are."""
    assert several(["a", "b"], {"all": ["a", "b"]}, "all") == ["a", "b"]
    with pytest.raises(argparse.ArgumentTypeError, match=r"c is none of all, a, b"):
        several(["a", "b"], {"all": ["a", "b"]}, "a,c")
    chosen = parser().parse_args(["--scenarios", "growth,cold", "--links", "1gbit-sender", "--ways", "ship,skopeo"])
    assert chosen.scenarios == [*(each.key for each in GROWTH), "cold"]
    assert (chosen.links, chosen.ways) == (["1gbit-sender"], ["ship", "skopeo"])


def test_rates_of_links():
    """In bytes a second, whichever end is shaped."""
    assert rate("1gbit") == rate("1gbit-sender") == 125e6
    assert rate("100mbit") == 12.5e6
    assert rate("unshaped") is None
