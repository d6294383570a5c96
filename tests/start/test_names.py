"""Names for completion: read quickly, silent about faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from sistership.matrix.load import load
from sistership.start.names import Names, read

ROOT = Path(__file__).parents[2]


def test_the_same_names_as_the_matrix_itself() -> None:
    """What completion offers is what the matrix knows."""
    matrix = load(ROOT / "buildmatrix.yaml")
    found = read(ROOT / "buildmatrix.yaml")
    assert found == Names(*(tuple(each) for each in (matrix.variants, matrix.hosts, matrix.groups, matrix.forks)))


@pytest.mark.parametrize(
    "text", ["", "[", "\t: x", "- a", "hosts: [a]", "hosts:", "*x", "hosts: {? [a] : b}", "a: \x00", "x: &x\n  y: *z"]
)
def test_faults_are_silent(tmp_path: Path, text: str) -> None:
    """A matrix that is being edited offers nothing, and no error is seen."""
    path = tmp_path / "buildmatrix.yaml"
    path.write_text(text)
    assert read(path) == Names()
    assert read(tmp_path / "missing.yaml") == Names()
    assert read(tmp_path) == Names()


def test_names_stay_as_written(tmp_path: Path) -> None:
    """`no` and `1.10` are names like any other; a merge is none."""
    path = tmp_path / "buildmatrix.yaml"
    path.write_text("x: &x {a: }\nhosts:\n  no: {}\n  1.10: {}\n  <<: *x\n")
    assert read(path).hosts == ("no", "1.10")
