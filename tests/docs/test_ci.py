"""The documented pipelines: they load, hang together, and every command in them is one that sistership takes."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from invoke.parser import Parser

from sistership.tasks.namespace import namespace

CI = Path(__file__).parents[2] / "docs" / "ci"
GITHUB = CI / "github-actions.yml"
GITLAB = CI / "gitlab-ci.yml"
FILES = [GITHUB, GITLAB]
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")


def load(path: Path) -> dict[str, Any]:
    """The document; duplicate keys are none that yaml would tell, so they are looked for in the nodes."""
    for node in walk(yaml.compose(path.read_text(), Loader=yaml.SafeLoader)):
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), f"{path.name}:{node.start_mark.line + 1}: a key occurs twice"
    found: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    return found


def walk(node):
    """Every node of a document."""
    yield node
    for child in node.value if isinstance(node, yaml.CollectionNode) else ():
        for part in child if isinstance(child, tuple) else (child,):
            yield from walk(part)


def scripts(path: Path) -> list[str]:
    """Every shell script of a pipeline."""
    if path == GITHUB:
        return [step["run"] for job in load(path)["jobs"].values() for step in job["steps"] if "run" in step]
    document = load(path)
    lines = [*document["default"]["before_script"]]
    for value in document.values():
        lines += value.get("script", []) if isinstance(value, dict) else []
    return lines


def commands(path: Path) -> list[list[str]]:
    """Every `sistership …` of a pipeline as argv, without redirections."""
    found = []
    for script in scripts(path):
        for part in re.split(r"[;\n|]|&&", script):
            words = shlex.split(part.removeprefix(" ").strip())
            if "sistership" in words and "install" not in words:
                words = words[words.index("sistership") + 1 :]
                ends = [at for at, word in enumerate(words) if word.startswith(">")]
                found.append(words[: ends[0]] if ends else words)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_is_taken(path: Path) -> None:
    """The command line's own parser reads every verb and flag; required values are there."""
    parser = Parser(contexts=namespace().to_contexts())
    found = commands(path)
    assert {words[0] for words in found} >= {"lock", "matrix", "build", "export", "import", "plan", "ship", "verify"}
    for words in found:
        (context,) = parser.parse_argv(words)
        assert context.name == words[0], words
        assert not context.missing_positional_args, words


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_scripts_are_shell(path: Path) -> None:
    """Every script parses, and no expression is pasted into one: values come in through the environment."""
    for script in scripts(path):
        assert not EXPRESSION.search(script), script
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=20)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secrets(path: Path) -> None:
    """No secret is asked for, none stands there, and none could be told."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    assert not re.search(r"secrets\.|password|passwd|private.key|BEGIN |_KEY\b", text, re.IGNORECASE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_lines_fit(path: Path) -> None:
    """Comments can be read without scrolling."""
    assert [line for line in path.read_text().splitlines() if len(line) > 125] == []


def test_github_jobs_hang_together() -> None:
    """Every job that is needed exists, every output that is read is written, every action has its version."""
    jobs = load(GITHUB)["jobs"]
    for name, job in jobs.items():
        needs = job.get("needs", [])
        needs = [needs] if isinstance(needs, str) else needs
        assert set(needs) <= set(jobs), name
        text = yaml.dump(job)
        for other, output in re.findall(r"needs\.(\w+)\.outputs\.(\w+)", text):
            assert other in needs, f"{name} reads {other}, which it does not need"
            assert output in jobs[other]["outputs"]
        for step, output in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", text):
            (run,) = [each["run"] for each in job["steps"] if each.get("id") == step]
            assert '--format github >> "$GITHUB_OUTPUT"' in run, output
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1, step
            assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
        assert "runs-on" in job


def test_github_matrix_is_what_the_verb_prints() -> None:
    """The names that jobs read are those that `matrix --format github` writes; the empty one is compared as text."""
    from sistership.build.jobs import Job, github  # noqa: PLC0415 - only here

    job = Job("a", "linux/amd64", "i", "t", None, "b", built=False, stored=False, hosts=())
    text = GITHUB.read_text()
    for key in re.findall(r"\bmatrix\.(\w+)", re.sub(r"outputs\.matrix|steps\.matrix\.\w+", "", text)):
        assert f'"{key}":' in github([job]), key
    empty = github([]).removeprefix("matrix=")
    assert text.count(f"if: needs.plan.outputs.matrix != '{empty}'") == 2


def test_gitlab_jobs_hang_together() -> None:
    """Every job has a stage of the list, and every variable that a script reads is set."""
    document = load(GITLAB)
    jobs = {name: job for name, job in document.items() if isinstance(job, dict) and "script" in job}
    assert [job["stage"] for job in jobs.values()] == document["stages"]
    for job in jobs.values():
        rows = job.get("parallel", {}).get("matrix", [{}])
        known = {"PWD", "PATH", "file", "RUNNER", *document["variables"], *(key for row in rows for key in row)}
        for script in job["script"]:
            assert set(re.findall(r"\$(\w+)", script)) <= known, script
