"""The schema that editors use: in step with the types, and never stricter than the matrix itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from sistership.errors import MatrixError
from sistership.matrix.load import parse
from sistership.start.init import text as init_text
from sistership.start.schema import matrix_schema, text

ROOT = Path(__file__).parents[2]
CASES = sorted((ROOT / "tests" / "cases" / "matrix").glob("*.yaml"))
VALIDATOR = jsonschema.Draft7Validator(matrix_schema())


class TwelveLoader(yaml.SafeLoader):
    """YAML 1.2's core schema, which editors use: `on`, `no` and dates are text, `12.8` and `true` are not."""


TwelveLoader.yaml_implicit_resolvers = {
    sign: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":timestamp"))]
    for sign, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
TwelveLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def faults(content: str, loader: type[yaml.SafeLoader] = TwelveLoader) -> list[str]:
    """What an editor would underline."""
    document = yaml.load(content, Loader=loader)
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in VALIDATOR.iter_errors(document)]


def test_the_committed_file_is_in_step() -> None:
    """Run `sistership schema --output schemas/buildmatrix.schema.json` after a change of matrix/schema.py."""
    assert (ROOT / "schemas" / "buildmatrix.schema.json").read_text() == text()


def test_it_is_draft_07() -> None:
    """Editors read draft-07: no `$defs`, nothing beside a `$ref`, every reference resolves."""
    schema = matrix_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    assert "$defs" not in json.dumps(schema)

    def walk(value: object) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                assert set(value) == {"$ref"}
                assert value["$ref"].removeprefix("#/definitions/") in schema["definitions"]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(schema)


@pytest.mark.parametrize("loader", [TwelveLoader, yaml.SafeLoader, yaml.BaseLoader], ids=lambda each: each.__name__)
def test_our_own_matrices_are_valid(loader: type[yaml.SafeLoader]) -> None:
    """The matrix of this project and what `init` writes have no fault, however the editor types scalars."""
    assert faults((ROOT / "buildmatrix.yaml").read_text(), loader) == []
    assert faults(init_text([]), loader) == [] or loader is yaml.BaseLoader


def test_both_name_their_schema_in_the_first_line() -> None:
    """Editors find the schema by the first line; the file it names is there."""
    first = (ROOT / "buildmatrix.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=schemas/buildmatrix.schema.json"
    assert (ROOT / first.partition("=")[2]).is_file()
    assert init_text([]).splitlines()[0] == "# yaml-language-server: $schema=buildmatrix.schema.json"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_the_matrix_accepts_the_schema_accepts(path: Path) -> None:
    """No red line under anything that works: every case that loads is valid."""
    content = path.read_bytes()
    try:
        parse(content, path)
    except MatrixError:
        return
    assert faults(content.decode()) == []


SMALL = """\
version: 1
x-base: &base {build: "a:1", runtime: "b:1"}
forks: {f: {git: ./f}}
hosts: %s
variants:
  v: {fork: f, commit: 12e5, image: i, tag: 1.10, backend: cpu, base: *base, options: {rpc: %s}}
"""


@pytest.mark.parametrize(
    ("flag", "hosts"), [("on", "{no: {local: yes}}"), ("ON", ""), ("True", "{a: , b: {gpu: 8.9}}"), ("no", "{x: {}}")]
)
def test_every_spelling_is_accepted_by_both(tmp_path: Path, flag: str, hosts: str) -> None:
    """Flags, numbers as text, empty sections and empty hosts: both the matrix and the schema take them."""
    content = SMALL % (hosts, flag)
    (tmp_path / "f").mkdir()
    parse(content.encode(), tmp_path / "buildmatrix.yaml")
    assert faults(content) == []


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ("comit: x", "variants.v"),
        ("options: {rcp: true}", "variants.v.options"),
        ("backend: rocm", "variants.v.backend"),
        ("options: {rpc: maybe}", "variants.v.options.rpc"),
        ("patches: one.patch", "variants.v.patches"),
    ],
)
def test_mistakes_are_underlined(wrong: str, place: str) -> None:
    """A misspelt key or a wrong kind of value is a fault of the schema, at its place."""
    content = f"version: 1\nvariants:\n  v: {{fork: f, commit: c, image: i, tag: t, {wrong}}}\n"
    assert [fault.partition(":")[0] for fault in faults(content)] == [place]


def test_extensions_and_merges_are_free() -> None:
    """`x-` keys may stand anywhere a row is, and an editor that does not merge `<<` finds no fault in it."""
    content = "version: 1\nx-a: &a {x-b: 1}\ndefaults:\n  x-c: [1]\nforks:\n  f: {git: ./f, x-d: 1}\n"
    assert faults(content) == []
    plain = {"version": 1, "hosts": {"a": {"<<": {"gpu": ["8.9"]}}}}
    assert list(VALIDATOR.iter_errors(plain)) == []
