"""`init`: a project's first files. Nothing that exists is ever written over."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from sistership.errors import UsageError
from sistership.resources import bundled
from sistership.start import schema
from sistership.start.inventory import HERE, Row, archs

MATRIX: Final = "buildmatrix.yaml"
IGNORED: Final = ".sistership/"
_EXAMPLES: Final = (
    '# gpu-main: {local: true, gpu: ["12.0"]}',
    '# gpu-worker: {gpu: ["8.9"]}           # an alias of ~/.ssh/config',
)


@dataclass(frozen=True)
class Made:
    """A file that `init` wrote or left as it was, and what to say of it."""

    path: Path
    note: str


def check(folder: Path, *, templates: bool) -> None:
    """Refuse to start where something would be written over.

    Raises:
        UsageError: there is a matrix already, or a folder of templates.
    """
    taken = [name for name in (MATRIX, *(["dockerfiles"] if templates else [])) if (folder / name).exists()]
    if taken:
        hint = f"take another folder: sistership init --output DIR; or move {taken[0]} away"
        raise UsageError(f"{folder / taken[0]} exists; nothing is ever written over", hint=hint)


def text(rows: Sequence[Row], ssh_config: Path | None = None) -> str:
    """The matrix of a new project.

    Args:
        rows: hosts, this machine first.
        ssh_config: where the aliases come from, when that is not the user's own configuration.
    """
    found = archs(rows)
    groups = [each.name for each in rows if each.usable and each.name != HERE]
    fill = {
        "ARCHS": ", ".join(found or ("89", "120a")),
        "ARCHS_WHY": "as found on the hosts below" if found else "nvidia-smi --query-gpu=compute_cap --format=csv",
        "HOSTS": _indented([each.text for each in rows] or list(_EXAMPLES)),
        "GROUPS": _indented([f"workers: [{', '.join(groups)}]" if groups else "# workers: [gpu-worker]"]),
        "BUILDER": _ends(rows, ssh_config),
    }
    template = files("sistership.start").joinpath(MATRIX).read_text()
    return re.sub(r"@([A-Z_]+)@", lambda found: fill[found[1]], template).rstrip("\n") + "\n"


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _ends(rows: Sequence[Row], ssh_config: Path | None) -> str:
    """The keys at the end: who builds, and whose ssh configuration it is."""
    here = next((each for each in rows if each.name == HERE), None)
    able = next((each.name for each in rows if each.builds), None)
    if here is not None and not here.builds and able is not None:
        lines = ["# Who builds. Without this line it is this machine, which has no Docker 23 with buildx."]
        lines += [f"builder: {able}"]
    else:
        lines = ["# Who builds; without this line it is this machine. One for each platform: {linux/arm64: HOST, …}"]
        lines += ["# builder: HOST"]
    if ssh_config is not None:
        lines += ["", "# The ssh configuration of all hosts; without this line it is your own."]
        lines += [f"ssh_config: {ssh_config}"]
    return "\n".join(lines)


def write(folder: Path, content: str, *, templates: bool) -> list[Made]:
    """Write the files of a new project.

    Raises:
        UsageError: see `check`.
        OSError: the folder cannot be written.
    """
    check(folder, templates=templates)
    folder.mkdir(parents=True, exist_ok=True)
    made = [_new(folder / MATRIX, content, "what is built, and where it goes")]
    if (folder / schema.NAME).exists():
        made.append(Made(folder / schema.NAME, "was there, and stays as it is"))
    else:
        made.append(_new(folder / schema.NAME, schema.text(), "lets editors check and complete the matrix"))
    made.append(_ignore(folder / ".gitignore"))
    if templates:
        shutil.copytree(bundled("dockerfiles"), folder / "dockerfiles")
        made.append(Made(folder / "dockerfiles", "templates to change; they come before those of sistership"))
    return made


def _new(path: Path, content: str, note: str) -> Made:
    with path.open("x", encoding="utf-8") as file:
        file.write(content)
    return Made(path, note)


def _ignore(path: Path) -> Made:
    """Add our folder to .gitignore, whose other lines stay."""
    before = path.read_text() if path.exists() else ""
    if IGNORED in before.splitlines():
        return Made(path, f"knows {IGNORED} already")
    gap = "" if not before or before.endswith("\n") else "\n"
    path.write_text(f"{before}{gap}{IGNORED}\n")
    return Made(path, f"{IGNORED} added")


def edits(content: str) -> tuple[int, int]:
    """The lines (from 1) where the two edits are: variants and hosts."""
    lines = content.splitlines()
    return lines.index("variants:") + 1, lines.index("hosts:") + 1
