"""Findings from what hosts say: every situation is a file of tests/cases/doctor/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sistership.host.kinds import commands
from sistership.matrix.model import Base, Cuda, Host, Variant
from sistership.start import inquiry
from sistership.start.findings import Finding, Level
from sistership.start.inquiry import Answer
from sistership.start.judge import Wanted, judge, one_daemon_two_names, skew_of, whose_clock

CASES = sorted((Path(__file__).parents[1] / "cases" / "doctor").glob("*.txt"))
VARIANTS = [{"name": "cuda", "toolkit": "12.8.1", "archs": ["89", "120"]}, {"name": "cpu"}]


def variant(row: dict[str, Any]) -> Variant:
    """A variant with what doctor looks at."""
    cuda = Cuda(row["toolkit"], tuple(row["archs"])) if "toolkit" in row else None
    backend = "cuda" if cuda else "cpu"
    return Variant(row["name"], "fork", "main", row["name"], "1", backend, cuda, Base("a:1", "b:1"))


def wanted(row: dict[str, Any]) -> Wanted:
    """What the matrix wants of the host of a case; its name is always gpu-a."""
    variants = tuple(variant(each) for each in row.pop("variants", VARIANTS))
    builds = tuple(row.pop("builds", ()))
    gpu = tuple(row.pop("gpu", ()))
    return Wanted(Host("gpu-a", ssh="gpu-a", gpu=gpu, **row), variants, builds)


def shown(findings: list[Finding]) -> str:
    """Findings as the cases write them."""
    lines = []
    for each in findings:
        lines.append(f"{each.level} {each.subject}: {each.what}")
        if each.cure:
            lines.append(f"  next: {each.cure}")
    return "\n".join(lines)


def read(path: Path) -> tuple[Wanted, Answer, str]:
    """A case: what is wanted, the answer, the findings."""
    _, rest = path.read_text().split("=== host\n")
    host, rest = rest.split("=== answer\n")
    text, expected = rest.split("=== findings\n")
    want = wanted(yaml.safe_load(host) or {})
    own = inquiry.own_answer(commands(want.host), want.host, "\n" + text, "")
    return want, replace(inquiry.parse("\n" + text), own=own), expected.strip()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    """A host's answer leads to exactly these findings, each that is not fine with its cure."""
    want, answer, expected = read(path)
    found = judge(want, answer, 0.0)
    assert shown(found) == expected
    assert all((each.cure is None) == (each.level is Level.OK) for each in found)
    assert all(each.code == (21 if each.level is Level.PROBLEM else 0) for each in found)


def test_every_case_shows_something() -> None:
    """The cases are found, and each level occurs among them."""
    text = "".join(path.read_text() for path in CASES)
    assert len(CASES) > 30
    assert all(f"\n{level} " in text for level in Level)


@pytest.mark.parametrize(
    ("clock", "expected"), [(None, 0), (1000, 0), (1005, 0), (999, 0), (1100, 95), (900, -99), (1006, 1)]
)
def test_skew_is_only_what_is_certain(clock: int | None, expected: float) -> None:
    """A slow answer is no wrong clock: asked at 1000, answered at 1005, any reading between is right."""
    assert skew_of(clock, 1000.0, 1005.0) == expected


def test_a_wrong_clock_is_a_warning() -> None:
    """A clock that is off is told with its distance and its direction."""
    want, answer, _ = read(next(path for path in CASES if path.stem == "gpu"))
    ahead, behind = judge(want, answer, 7300.0)[-1], judge(want, answer, -45.0)[-1]
    assert (ahead.level, ahead.what) == (Level.WARNING, "2 h ahead of this machine")
    assert (behind.level, behind.what) == (Level.WARNING, "45 s behind this machine")


@pytest.mark.parametrize(
    ("skews", "expected"),
    [([], None), ([90.0], None), ([90.0, 95.0], -92.5), ([90.0, -90.0], None), ([90.0, 0.0], None), ([9.0, 9.0], None)],
)
def test_when_all_hosts_differ_it_is_our_clock(skews: list[float], expected: float | None) -> None:
    """Two hosts that agree with each other and not with us point at this machine."""
    assert whose_clock([(f"h{number}", skew) for number, skew in enumerate(skews)]) == expected


def said(daemon: str, boot: str) -> Answer:
    """An answer of which only the engine's ID and the run of the kernel matter."""
    return Answer(info={"ID": daemon}, boot=boot)


def test_two_names_for_one_engine_are_noticed() -> None:
    """The same ID under the same run of a kernel is one machine; under another it is a cloned disk; none is no ID."""
    answers = [("a", said("x", "1")), ("b", said("y", "2")), ("c", said("x", "1")), ("d", said("x", "3"))]
    found = one_daemon_two_names([*answers, ("e", said("", "")), ("f", said("", ""))])
    assert [(each.host, each.level) for each in found] == [("c", Level.WARNING), ("d", Level.WARNING)]
    assert "same engine as a" in found[0].what
    assert "cloned disk" in found[1].what
