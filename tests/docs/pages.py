"""The pages of docs/, taken apart: flags in tables, fenced blocks, commands and what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
README = ROOT / "README.md"
EXAMPLE = DOCS / "example.yaml"

_BLOCK = re.compile(r"(?m)^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL)
#: In an expected line: any text; alone on a line: any lines.
ANY = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        mark: of the comment above it: `run`, `fleet`, `matrix` or "".
        kind: `console`, `yaml`, `sh` …
        line: where it begins in the page.
    """

    page: Path
    mark: str
    kind: str
    text: str
    line: int

    @property
    def name(self) -> str:
        """For test ids: page and line."""
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Step:
    """A command of a block, the lines it should print, and its exit code."""

    command: str
    expected: str
    code: int

    @property
    def words(self) -> list[str]:
        """The command as argv."""
        return shlex.split(self.command, comments=True)


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text()
    return [
        Block(page, found["mark"] or "", found["kind"], found["text"], text.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(text)
    ]


def consoles(mark: str | None = None) -> list[Block]:
    """The console blocks of all pages and the README; with `mark` those of that kind."""
    found = [block for page in (*PAGES, README) for block in blocks(page) if block.kind == "console"]
    return found if mark is None else [block for block in found if block.mark == mark]


def steps(block: Block) -> list[Step]:
    """The commands of a console block; `$ echo $?` gives the exit code of the one before."""
    found: list[Step] = []
    for part in re.split(r"(?m)^\$ ", block.text)[1:]:
        command, _, output = part.partition("\n")
        if command == "echo $?":
            found[-1] = Step(found[-1].command, found[-1].expected, int(output))
        else:
            found.append(Step(command, output, 0))
    return found


def section(page: Path, title: str) -> str:
    """The text of a page below `## title`, up to the next title of that level."""
    found = re.search(rf"(?ms)^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page.read_text())
    assert found, f"{page.name} has no section {title}"
    return found[1]


def cells(text: str) -> Iterator[list[str]]:
    """The rows of every table in a text, header and rule left out."""
    for table in re.findall(r"(?m)(?:^\|.*\n?)+", text):
        for row in table.splitlines()[2:]:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def flags(text: str) -> set[str]:
    """The flags in the first cells of tables."""
    return {found for row in cells(text) for found in re.findall(r"--[a-z][a-z0-9-]*", row[0])}


def example_project(folder: Path, fleet: Path | None = None) -> dict[str, str]:
    """Make the project of the examples in a folder; gives the environment for commands in it.

    Args:
        fleet: the checkout whose practice fleet is used; None where nothing is connected.
    """
    (folder / "buildmatrix.yaml").write_text(EXAMPLE.read_text())
    (folder / "ssh_config").write_text("Host gpu-main gpu-worker\n  User me\n")
    if fleet:
        (folder / ".sistership").symlink_to(fleet / ".sistership")
    own = {"SISTERSHIP_STORE": f"{folder}/store", "SISTERSHIP_LOGS": f"{folder}/logs", "NO_COLOR": "1"}
    away = ("GITHUB_ACTIONS", "COLUMNS")
    return {**{key: value for key, value in os.environ.items() if key not in away}, **own, "COLUMNS": "120"}


def run(step: Step, folder: Path, environ: dict[str, str], unless: str = "") -> None:
    """Run a command of a page, and compare what it prints and its exit code.

    A page shows what stays on a terminal (results, then an error), or everything that is said on the way as well.

    Args:
        unless: a pattern of lines that a page passes over.
    """
    words = step.words
    argv = [sys.executable, "-m", "sistership", *words[1:]] if words[0] == "sistership" else words
    done = subprocess.run(
        argv, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=280
    )
    out, err = (each.decode().replace(str(folder), "~/llama") for each in (done.stdout, done.stderr))
    if unless:
        out = re.sub(rf"(?m)^(?:{unless}).*\n", "", out)
    stays = out + re.sub(r"(?s)\A.*?(?=^error: |^log: |\Z)", "", err, flags=re.MULTILINE)
    printed = err + out
    assert done.returncode == step.code, f"$ {step.command}\nexit {done.returncode}\n{printed}"
    fits = matches(step.expected, stays) or matches(step.expected, printed)
    assert fits, f"$ {step.command}\n{printed}\nshould be\n{step.expected}"


def matches(expected: str, printed: str) -> bool:
    """Whether an output is as a page shows it, but for digests, sizes, times and column widths."""
    pattern = ""
    for line in expected.splitlines():
        if line == ANY:
            pattern += "(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in _shape(line).split(ANY)) + "\n"
    shown = "".join(f"{_shape(line)}\n" for line in printed.splitlines())
    return re.fullmatch(pattern, shown) is not None


_SHAPES: Sequence[tuple[str, str]] = (
    (r"\b(?:\d{1,3}\.){3}\d{1,3}\b", "ADDRESS"),
    (r"\blog: \S+", "log: LOG"),
    (r"\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{12})\b", "DIGEST"),
    (r"\b(?:\d+(?:\.\d+)? (?:KiB|MiB|GiB)|[1-9]\d* B)\b", "SIZE"),
    (r"\b\d+\.\d+\.\d+(?:[+~]\S+)?(?= |$)", "VERSION"),
    (r"\b\d+(?:\.\d+)? s\b", "TIME"),
    (r"\bID \S+", "ID ENGINE"),
    (r"  +", "  "),
)


def _shape(line: str) -> str:
    for pattern, word in _SHAPES:
        line = re.sub(pattern, word, line)
    return line.rstrip()
