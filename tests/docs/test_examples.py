"""The examples of the pages: every command line parses, and those that need no host are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from invoke.parser import Parser

from sistership.matrix.load import load
from sistership.recipe.render import dockerfile
from sistership.tasks.namespace import namespace

from .pages import DOCS, EXAMPLE, PAGES, README, Block, Step, blocks, consoles, example_project, matches, run, steps

CONTEXTS = namespace().to_contexts()
COMMANDS = [(block, step) for block in consoles() for step in steps(block) if step.words[0] == "sistership"]
MATRICES = [
    block
    for page in (*PAGES, README)
    for block in blocks(page)
    if block.kind == "yaml" and block.text.startswith("version:")
]


@pytest.mark.parametrize(("block", "step"), COMMANDS, ids=[f"{block.name}:{step.command}" for block, step in COMMANDS])
def test_command_line_is_one_of_ours(block: Block, step: Step) -> None:
    """The parser of the command line takes it."""
    del block
    words = [word for word in step.words[1:] if word != "--version"]
    parsed = Parser(contexts=CONTEXTS).parse_argv(words)
    assert [context.name for context in parsed][1:] == []


@pytest.mark.parametrize("block", consoles("run"), ids=lambda block: block.name)
def test_example_prints_what_the_page_shows(block: Block, tmp_path: Path) -> None:
    """Run in the project of the examples, without any host."""
    environ = example_project(tmp_path)
    for step in steps(block):
        run(step, tmp_path, environ)


def test_marks_are_known() -> None:
    """A block is run, run on the practice fleet, or only parsed; a typing error in its mark would leave it out."""
    marks = {block.mark for page in (*PAGES, README) for block in blocks(page)}
    assert marks <= {"", "run", "fleet", "matrix"}
    assert len(consoles("run")) >= 10
    assert len(consoles("fleet")) >= 15


@pytest.mark.parametrize("block", MATRICES, ids=lambda block: block.name)
def test_matrix_of_a_page_loads_and_renders(block: Block, tmp_path: Path) -> None:
    """A matrix on a page, taken verbatim, is valid, and each of its variants renders."""
    path = tmp_path / "buildmatrix.yaml"
    path.write_text(block.text)
    matrix = load(path)
    for variant in matrix.variants.values():
        for platform in variant.platforms:
            text = dockerfile(matrix, variant, platform, None)
            assert f"{variant.base.runtime.partition('@')[0]}" in text


def test_readme_has_a_matrix() -> None:
    """The matrix of the README is among those that are loaded."""
    assert [block.page for block in MATRICES].count(README) == 1


def test_example_project_is_the_one_that_the_index_links() -> None:
    """The matrix of the examples is a file of its own, valid YAML with the hosts that the pages name."""
    assert f"({EXAMPLE.name})" in (DOCS / "index.md").read_text()
    hosts = yaml.safe_load(EXAMPLE.read_text())["hosts"]
    assert list(hosts) == ["gpu-main", "gpu-worker", "old-box"]


def test_pages_hold_no_place_of_this_machine() -> None:
    """No folder and no address of the machine where examples were recorded."""
    for page in (*PAGES, README):
        found = re.findall(r"/(?:work|tmp)/\w+|\b172\.\d+\.\d+\.\d+\b|\b10\.\d+\.\d+\.\d+\b", page.read_text())
        assert [word for word in found if word != "/tmp/f"] == [], page.name


def test_comparison_of_output_can_fail() -> None:
    """Digests, sizes and widths may differ; words, verdicts and the number of lines may not."""
    page = "old-box    0 %    0 B   ok\n…\nend 9fe948eec57d\n"
    assert matches(page, "old-box  0 %  0 B  ok\nmore\nmore\nend 0123456789ab\n")
    assert not matches(page, "old-box  0 %  0 B  missing\nend 0123456789ab\n")
    assert not matches(page, "old-box  0 %  0 B  ok\nend 0123456789ab\nmore\n")
    assert not matches(page, "old-box  7 %  0 B  ok\nend 0123456789ab\n")
    assert matches("log: …\n", "log: /any/where\n")
