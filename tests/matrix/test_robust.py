"""Whatever a file holds, reading it ends in a Matrix or in problems with places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sistership.errors import MatrixError
from sistership.matrix.load import parse
from sistership.matrix.nodes import read

PROJECT = Path(__file__).parents[2]
MATRIX = PROJECT / "buildmatrix.yaml"
REAL = read(MATRIX.read_bytes(), "buildmatrix.yaml").data
TREE = {
    "version": "1",
    "defaults": {"options": {"rpc": "on"}, "cmake": {"A": "1"}, "platforms": ["linux/amd64"], "packages": ["cmake"]},
    "forks": REAL["forks"],
    "variants": {name: REAL["variants"][name] for name in ("upstream", "sample")},
    "hosts": {name: REAL["hosts"][name] for name in ("gpu-main", "builder")},
    "groups": {"all": ["gpu-main", "builder"]},
    "builder": {"linux/amd64": "gpu-main"},
    "ssh_config": "conf",
}


def paths(value, path=()):
    """Every path of a tree."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from paths(below, (*path, key))


def replaced(path, value):
    """The tree with another value at one path, as YAML (JSON is YAML)."""
    tree = json.loads(json.dumps(TREE))
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return json.dumps(tree).encode()


def outcome(content):
    """The problems of a file, () when it has none."""
    try:
        parse(content, MATRIX)
    except MatrixError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("value", [{}, [], None, "", {"x": {}}, [[None]]], ids=json.dumps)
def test_any_value_anywhere(value):
    """Another kind of value at any place gives problems, each told once, never a traceback."""
    assert outcome(json.dumps(TREE).encode()) == ()
    for path in paths(TREE):
        problems = outcome(replaced(path, value))
        assert len(set(problems)) == len(problems), path
        assert not any("\0" in str(problem) for problem in problems), path


@settings(max_examples=60)
@given(st.data())
def test_any_damage(data):
    """A file with a piece cut out or doubled reads, or says where it does not."""
    text = MATRIX.read_text()
    start = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.integers(0, 200))
    filling = data.draw(st.sampled_from(["", "\n", ": ", "- ", "{", "]", "\t", "*cuda", "&x ", "'", "<<: ", "? "]))
    outcome((text[:start] + filling + text[start + piece :]).encode())
