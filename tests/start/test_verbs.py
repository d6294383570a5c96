"""`init`, `doctor`, `schema` and `completion` by the command line, without any host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from sistership.matrix.load import load

ROOT = Path(__file__).parents[2]
#: What only some verbs need, and what is slow to import.
HEAVY = (
    "asyncio",
    "docker",
    "email",
    "jinja2",
    "packaging",
    "paramiko",
    "pydantic",
    "rich",
    "ssl",
    "yaml",
    "zstandard",
)


def run(folder: Path, *words: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """`sistership WORDS` in a folder, with places of its own."""
    own = {name: str(folder / ".own" / name) for name in ("SISTERSHIP_STORE", "SISTERSHIP_CACHE", "SISTERSHIP_LOGS")}
    done = subprocess.run(
        [sys.executable, *python, "-m", "sistership", *words],
        cwd=folder,
        env={**os.environ, **own, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done


def test_init_then_the_project_works(tmp_path: Path) -> None:
    """Aliases become hosts, the matrix renders with the templates that come along, and the edits are told."""
    (tmp_path / "ssh").write_text("Host gpu-a gpu-b\nHost *\n  User me\n")
    done = run(tmp_path, "init", "--no-probe", "--ssh-config", "ssh", "--output", "lab")
    assert done.returncode == 0, done.stderr
    assert "Two edits make it yours" in done.stdout
    assert "hosts: here, gpu-a, gpu-b" in done.stdout
    matrix = load(tmp_path / "lab" / "buildmatrix.yaml")
    assert list(matrix.hosts) == ["here", "gpu-a", "gpu-b"]
    assert matrix.groups == {"workers": ("gpu-a", "gpu-b")}
    rendered = run(tmp_path / "lab", "render")
    assert (rendered.returncode, "FROM nvidia/cuda:12.8.1" in rendered.stdout) == (0, True)
    again = run(tmp_path, "init", "--no-probe", "--output", "lab")
    assert (again.returncode, "nothing is ever written over" in again.stderr) == (2, True)


def test_init_says_what_it_cannot_find(tmp_path: Path) -> None:
    """A configuration that was named must be there."""
    done = run(tmp_path, "init", "--ssh-config", "none")
    assert (done.returncode, "there is no such file" in done.stderr) == (2, True)
    assert not (tmp_path / "buildmatrix.yaml").exists()


def test_doctor_without_a_project(tmp_path: Path) -> None:
    """This machine alone is looked at, and how to start is told; asking for hosts is then an error."""
    done = run(tmp_path, "doctor")
    assert done.returncode == 0, done.stdout
    assert "sistership init" in done.stderr
    assert "this machine" in done.stdout
    assert run(tmp_path, "doctor", "--hosts", "x").returncode == 2


def test_doctor_in_json(tmp_path: Path) -> None:
    """One valid document, with a host that does not answer: exit 20."""
    (tmp_path / "ssh").write_text("")
    run(tmp_path, "init", "--no-probe", "--ssh-config", "ssh")
    matrix = tmp_path / "buildmatrix.yaml"
    content = matrix.read_text().replace("hosts:\n", "hosts:\n  lost: {ssh: host.invalid}\n", 1)
    matrix.write_text(f"{content}\nbuilder: lost\n")
    done = run(tmp_path, "doctor", "--json", "--hosts", "lost")
    assert done.returncode == 20, done.stderr
    document = json.loads(done.stdout)
    jsonschema.Draft7Validator(json.loads((ROOT / "schemas" / "doctor.schema.json").read_text())).validate(document)
    assert document["hosts"][0]["reachable"] is False


def test_schema_is_printed_and_written(tmp_path: Path) -> None:
    """The committed schema, byte for byte."""
    expected = (ROOT / "schemas" / "buildmatrix.schema.json").read_text()
    assert run(tmp_path, "schema").stdout == expected
    assert run(tmp_path, "schema", "--output", "s.json").returncode == 0
    assert (tmp_path / "s.json").read_text() == expected


def test_completion_scripts(tmp_path: Path) -> None:
    """A script for each shell; another shell is a usage error."""
    assert "complete -F _sistership sistership" in run(tmp_path, "completion", "bash").stdout
    done = run(tmp_path, "completion", "csh")
    assert (done.returncode, "bash, zsh, fish" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["--list"], ()),
        (["--help", "ship"], ()),
        (["--complete", "zsh", "ship", "--"], ()),
        (["--complete", "zsh", "ship", "--hosts", ""], ("yaml",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_nothing_slow_is_imported(words: list[str], needed: tuple[str, ...]) -> None:
    """What answers at once imports nothing that only the work needs; benchmarks/startup.py has the times."""
    done = run(ROOT, *words, python=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "invoke.program" in imported
    assert sorted(imported & set(HEAVY)) == sorted(needed)


def test_invoke_is_whole_after_the_lean_import() -> None:
    """Nothing but Invoke's own import differs: the real modules are there, and so is its version."""
    code = (
        "import sistership.tasks, importlib.metadata, unittest.mock, invoke;"
        "assert invoke.__version__ == importlib.metadata.version('invoke');"
        "assert unittest.mock.Mock().x;"
        "import yaml; assert yaml.safe_load('a: 1') == {'a': 1};"
        "assert invoke.MockContext(run=invoke.Result('out')).run('x').stdout == 'out'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
