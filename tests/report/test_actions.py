"""GitHub Actions."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from sistership.errors import MatrixError, Problem, ShipError
from sistership.report import events
from sistership.report.actions import Actions, command, harmless, wanted

HOST = events.HostDone("gpu-a", "x:1", "missing", 22, error=events.Trouble("missing", "gpu-a", "nothing", "ship"))


def told(*happened: events.Event, quiet: bool = False, workspace: Path | None = None) -> list[str]:
    """The lines that events make."""
    out = io.StringIO()
    actions = Actions(out, quiet=quiet, workspace=workspace)
    for event in happened:
        actions.tell(event)
    actions.close()
    return out.getvalue().splitlines()


def test_only_there() -> None:
    """GITHUB_ACTIONS=true, and nothing else, means GitHub Actions."""
    assert wanted({"GITHUB_ACTIONS": "true"})
    assert not wanted({"CI": "true"})
    assert not wanted({"GITHUB_ACTIONS": ""})


def test_escapes() -> None:
    """Messages and properties are escaped as the runner decodes them."""
    assert command("error", "50 %\r\nlost", {"file": "a,b:c%.yaml", "line": 3, "col": None}) == (
        "::error file=a%2Cb%3Ac%25.yaml,line=3::50 %25%0D%0Alost"
    )
    assert command("group", "a: b") == "::group::a: b"


def test_matrix_problems_show_at_their_lines(tmp_path: Path) -> None:
    """Each problem is an annotation with file from the checkout, line and column."""
    file = str(tmp_path / "sub" / "buildmatrix.yaml")
    error = MatrixError([Problem(file, 7, 5, "unknown key comit", "commit"), Problem(file, 9, 1, "no base", None)])
    assert told(events.Failed.of(error), workspace=tmp_path) == [
        "::error file=sub/buildmatrix.yaml,line=7,col=5::unknown key comit%0Anext: commit",
        "::error file=sub/buildmatrix.yaml,line=9,col=1::no base",
    ]


@pytest.mark.parametrize(
    ("where", "properties"),
    [
        ("buildmatrix.yaml:12:7", "file=buildmatrix.yaml,line=12,col=7"),
        ("sample.patch:3", "file=sample.patch,line=3"),
        ("gpu-a", "title=gpu-a"),
    ],
)
def test_errors_with_and_without_a_place(where: str, properties: str) -> None:
    """`file:line:column` becomes a place, a host a title; why and next are in the message."""
    failed = events.Failed.of(ShipError("lost", where=where, why="full", hint="ship"))
    assert told(failed) == [f"::error {properties}::lost%0Awhy: full%0Anext: ship"]


def test_error_without_any_place() -> None:
    """An error of no place has no properties."""
    assert told(events.Failed.of(ShipError("lost"))) == ["::error::lost"]


def test_one_group_for_each_variant() -> None:
    """A group opens with each variant, closes before the next and at the end, and errors stand outside."""
    lines = told(
        events.Begin("a:1", "a"),
        events.Step("gpu-a", "loading"),
        events.Begin("b:1", "b"),
        events.Failed.of(ShipError("lost")),
    )
    assert lines == [
        "::group::a:1",
        "gpu-a          loading",
        "::endgroup::",
        "::group::b:1",
        "::endgroup::",
        "::error::lost",
    ]


def test_failed_host_is_an_annotation() -> None:
    """A host that failed is an error with its name as title; one that is well is a line."""
    assert told(HOST, quiet=True) == ["::error title=gpu-a%3A missing::missing%0Awhy: nothing%0Anext: ship"]
    assert told(events.HostDone("gpu-a", "x:1", "ok", 0)) == ["gpu-a          ok"]


def test_warning_is_an_annotation() -> None:
    """A warning of the matrix shows at its line."""
    assert told(events.Warned(Problem("m.yaml", 2, 3, "old", None))) == ["::warning file=m.yaml,line=2,col=3::old"]


def test_quiet_is_annotations_only() -> None:
    """--quiet: no groups and no progress."""
    assert told(events.Begin("a", "a"), events.Step("h", "x"), quiet=True) == []


@pytest.mark.parametrize("text", ["::add-mask::x", "  ::set-output name=x::y", "a ##[error]b", "a\n::stop-commands::x"])
def test_text_of_others_is_no_command(text: str) -> None:
    """What a host or a compiler prints is never taken for a workflow command."""
    for line in told(events.Step("", text)):
        assert not line.lstrip(" \t").startswith("::")
        assert "##[" not in line
    assert harmless("a :: b") == "a :: b"
