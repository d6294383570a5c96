"""Completion in the real shells: what appears when TAB is pressed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sistership.start.completion import SHELLS, script

MATRIX = """\
version: 1
forks: {upstream: {git: https://example.invalid/llama.cpp}}
variants: {alpha: {}, beta: {}}
hosts: {gpu-one: {}, gpu-two: {}, nas: {}}
groups: {workers: [gpu-two]}
"""


def needs(shell: str) -> pytest.MarkDecorator:
    """Skip, and say so, where a shell is not installed."""
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"{shell} is not installed: its completion is untested"
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project, and `sistership` on PATH in bin/."""
    (tmp_path / "buildmatrix.yaml").write_text(MATRIX)
    (tmp_path / "other.yaml").write_text(MATRIX.replace("gpu-", "cpu-"))
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "sistership"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sistership "$@"\n')
    command.chmod(0o755)
    for shell in SHELLS:
        (tmp_path / f"completion.{shell}").write_text(script(shell))
    return tmp_path


def environ(project: Path) -> dict[str, str]:
    """A quiet terminal, our program first on PATH."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "COVERAGE"))}
    source = str(Path(__file__).parents[2] / "src")
    path = f"{project / 'bin'}:{os.environ['PATH']}"
    return {**kept, "PYTHONPATH": source, "PATH": path, "TERM": "dumb", "HOME": str(project), "LC_ALL": "C"}


class Terminal:
    """A shell on a pseudo-terminal: keys in, screen text out."""

    def __init__(self, argv: list[str], project: Path) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(project)
            os.execvpe(argv[0], argv, environ(project))
        self.seen = ""

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.fd, keys.encode())

    def wait(self, pattern: str, seconds: float = 10) -> str:
        """The screen's text once it matches; fails when it does not."""
        end = time.monotonic() + seconds
        while not re.search(pattern, shown(self.seen)):
            left = end - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                self.seen += os.read(self.fd, 65_536).decode(errors="replace")
        found, self.seen = shown(self.seen), ""
        return found

    def close(self) -> None:
        """End the shell."""
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def shown(text: str) -> str:
    """What stands on the screen after these bytes: a backspace moves the cursor, what follows replaces."""
    cells: list[str] = []
    at = 0
    for sign in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07", "", text):
        if sign == "\b":
            at = max(0, at - 1)
        else:
            cells[at:] = [sign, *cells[at + 1 :]]
            at += 1
    return "".join(cells)


#: What is typed, and what stands on the line after TAB.
COMPLETED = [
    ("sistership ver", "sistership verify "),
    ("sistership ship --ho", "sistership ship --hosts "),
    ("sistership ship --hosts wo", "sistership ship --hosts workers "),
    ("sistership ship --hosts nas,wo", "sistership ship --hosts nas,workers "),
    ("sistership ship --hosts nas,^wo", "sistership ship --hosts nas,^workers "),
    ("sistership ship --hosts=wo", "sistership ship --hosts=workers "),
    ("sistership build --variant be", "sistership build --variant beta "),
    ("sistership ship --matrix oth", "sistership ship --matrix other.yaml "),
    ("sistership ship --matrix=oth", "sistership ship --matrix=other.yaml "),
    ("sistership ship --matrix other.yaml --hosts cpu-o", "sistership ship --matrix other.yaml --hosts cpu-one "),
    ("sistership build --source up", "sistership build --source upstream="),
    ("sistership completion z", "sistership completion zsh "),
    ("sistership diff al", "sistership diff alpha "),
    ("sistership diff oth", "sistership diff other.yaml "),
]


def press_tab(terminal: Terminal, typed: str, expected: str) -> None:
    """Type, press TAB, and see the line completed; then leave the line."""
    terminal.type(f"{typed}\t")
    terminal.wait(re.escape(expected))
    terminal.type("\x15\n")
    terminal.wait(r"READY> $")


@needs("bash")
def test_bash_completes_while_typing(project: Path) -> None:
    """bash, with readline and a terminal: verbs, flags, names in lists, files, words after =."""
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], project)
    try:
        terminal.type("bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; . ./completion.bash\n")
        terminal.type("PS1='READY''> '\n")
        terminal.wait(r"READY> $")
        for typed, expected in COMPLETED:
            press_tab(terminal, typed, expected)
        terminal.type("sistership ship --hosts gpu-\t\t")
        assert "gpu-two" in terminal.wait(r"gpu-one\s+gpu-two")
    finally:
        terminal.close()


@needs("zsh")
def test_zsh_completes_while_typing(project: Path) -> None:
    """zsh, with its line editor and a terminal: the same words, and what they mean beside them."""
    terminal = Terminal(["zsh", "-f", "-i"], project)
    try:
        terminal.type("unsetopt prompt_sp prompt_cr zle_bracketed_paste; unset zle_bracketed_paste\n")
        terminal.type("autoload -U compinit && compinit -u -D; source ./completion.zsh; PS1='READY''> '\n")
        terminal.wait(r"READY> $")
        for typed, expected in COMPLETED:
            press_tab(terminal, typed, expected)
        terminal.type("sistership ship --hosts gpu-\t\t")
        assert "gpu-two  -- host" in terminal.wait(r"gpu-one  -- host[\s\S]+gpu-two  -- host")
    finally:
        terminal.close()


@needs("fish")
def test_fish_completes(project: Path) -> None:
    """fish answers with the same words and their meaning; its own `complete -C` is what TAB shows."""
    asked = "; ".join(f"complete -C '{typed}'; echo ---" for typed, _ in COMPLETED)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source completion.fish; {asked}"],
        cwd=project,
        env=environ(project),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers = done.stdout.split("---\n")
    for (typed, expected), answer in zip(COMPLETED, answers, strict=False):
        last = expected.rstrip().split(" ")[-1]
        assert last in [line.split("\t")[0] for line in answer.splitlines()], (typed, answer)


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_parse(project: Path, shell: str) -> None:
    """Each script is accepted by its shell's own parser."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its completion is untested")
    subprocess.run([shell, "-n", f"completion.{shell}"], cwd=project, check=True, timeout=30)
