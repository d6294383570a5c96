"""The model of a ship to many hosts, and how its constants come out of measurements."""

from __future__ import annotations

import pytest
from ship_figures import Row
from ship_model import GBIT, SITES, Constants, Site, by_registry, direct, line, measured, seconds, table
from ship_scenarios import SCENARIOS

FOUND = Constants(host=3.0, load=10e-9, cpu_host=0.5, cpu_byte=2e-9, push=1.0, pull=12e-9)
SIZE = 500e6
PLENTY = Site(sender=1e6 * GBIT, receiver=GBIT, registry=1e6 * GBIT, cpus=1_000_000, jobs=10_000)


def test_one_host_takes_its_own_time_the_link_and_the_load():
    """3 s + 500 MB at 125 MB/s + 500 MB at 10 ns."""
    assert direct(FOUND, Site(), SIZE, 1) == pytest.approx(3 + 4 + 5)


def test_a_wide_link_takes_hosts_side_by_side():
    """With enough of everything all hosts take as long as one."""
    assert direct(FOUND, PLENTY, SIZE, 3000) == pytest.approx(direct(FOUND, PLENTY, SIZE, 1))


def test_hosts_wait_for_their_turn():
    """33 hosts, 16 at once: three times."""
    site = Site(sender=1000 * GBIT, cpus=1000, jobs=16)
    assert direct(FOUND, site, SIZE, 33) == pytest.approx(3 * 12)


def test_the_senders_link_is_shared():
    """30 times 4 s, and what the last host does after it."""
    site = Site(cpus=1000, jobs=1000)
    assert direct(FOUND, site, SIZE, 30) == pytest.approx(30 * 4 + 8)


def test_the_senders_processors_are_shared():
    """300 hosts of 0.5 s and 500 MB at 2 ns, over two processors."""
    site = Site(sender=1000 * GBIT, cpus=2, jobs=1000)
    assert direct(FOUND, site, SIZE, 300) == pytest.approx(300 * 1.5 / 2 + 8)


def test_a_registry_is_fed_once_and_feeds_all():
    """1 s and 4 s for the push; then 30 times 4 s over the registry's link, 3 s and 500 MB at 12 ns after it."""
    site = Site(cpus=1000, jobs=1000)
    assert by_registry(FOUND, site, SIZE, 30) == pytest.approx(5 + 30 * 4 + 9)
    assert by_registry(FOUND, PLENTY, SIZE, 3000) < direct(FOUND, Site(jobs=10_000), SIZE, 3000) / 100


def test_more_hosts_never_take_less():
    """For every site of the table."""
    for name in SITES:
        times = [seconds(name, FOUND, SIZE, count) for count in (1, 2, 16, 17, 300, 3000)]
        assert times == sorted(times)


def test_the_nearest_line():
    """Exact through two points; the least squares through three."""
    assert line([(0, 1), (2, 5)]) == (1, 2)
    assert line([(0, 0), (1, 1), (2, 0)]) == pytest.approx((1 / 3, 0))
    with pytest.raises(ValueError, match="two places"):
        line([(1, 1), (1, 2)])


def row(scenario, way, time, received, cpu):
    """A row over 1 Gbit/s."""
    return Row("1gbit", scenario, way, 1, time, received, cpu, 0.0, 0, None, {})


def measurements():
    """What hosts that behave as the model says would be measured to take."""
    found = []
    for key in ("size16", "size64", "size256", "size1024"):
        size = int(SCENARIOS[key].wanted) * 0.57
        alone = size / GBIT
        found.append(row(key, "ship", 3 + alone + size * 10e-9, size, 0.4 + 0.5 + size * 2e-9))
        found.append(row(key, "registry", 1 + 3 + 2 * alone + size * 12e-9, 2 * size, 1.0))
    per_host = 0.5 + 40e6 * 2e-9
    return found + [row(f"hosts{n}", "ship", 9, n * 40e6, 0.4 + n * per_host) for n in range(1, 7)]


def test_the_constants_come_out_of_what_they_were_put_into():
    """The program's own start is nobody's constant: it does not grow."""
    found = measured(measurements())
    assert found is not None
    assert vars(found) == pytest.approx(vars(FOUND))


def test_no_constants_without_both_kinds_of_growth():
    """One size, or no count of hosts, makes no line."""
    assert measured([each for each in measurements() if each.scenario.startswith("size")]) is None
    assert measured([each for each in measurements() if each.scenario in {"size16", "hosts1", "hosts2"}]) is None
    assert measured([]) is None


def test_the_table_has_a_line_for_each_number_of_hosts():
    """As Markdown, for the page."""
    lines = table(FOUND, SIZE).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 1", "| 3", "| 30", "| 300", "| 3000"]
    assert lines[2].split(" | ")[1] == "12"
