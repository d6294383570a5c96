"""Every file of tests/cases/matrix: the problems and warnings at its end, all of them, at their places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sistership.errors import MatrixError, Problem
from sistership.matrix.load import load

CASES = Path(__file__).parents[1] / "cases" / "matrix"
EXPECTATION = re.compile(r"#(?P<kind>[!?>]) +(?:(?P<line>\d+):(?P<column>\d+): )?(?P<text>.*)")

Found = tuple[str, int, int, str, str | None]


def expected(case: Path) -> list[Found]:
    """What the last lines of a case say."""
    found: list[Found] = []
    for line in case.read_text().splitlines():
        if match := EXPECTATION.fullmatch(line):
            if match["kind"] == ">":
                found[-1] = (*found[-1][:4], match["text"])
            else:
                found.append((match["kind"], int(match["line"]), int(match["column"]), match["text"], None))
    return found


def told(kind: str, problem: Problem) -> Found:
    """A problem in the form of `expected`."""
    return kind, problem.line, problem.column, problem.message, problem.hint


@pytest.mark.parametrize("case", sorted(CASES.glob("*.yaml")), ids=lambda case: case.stem)
def test_case(case):
    """Loading the file tells exactly what its last lines say."""
    wanted = expected(case)
    try:
        found = [told("?", warning) for warning in load(case).warnings]
    except MatrixError as error:
        found = [told("!", problem) for problem in error.problems]
    assert found == wanted
    assert wanted, "a case without expectations proves nothing"
