"""The patch series of a variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sistership import resources
from sistership.matrix import names
from sistership.matrix.model import PatchRef
from sistership.matrix.shape import UNREADABLE

if TYPE_CHECKING:
    from sistership.matrix.findings import Findings
    from sistership.matrix.nodes import Path
    from sistership.matrix.schema import VariantRow


def patches(path: Path, row: VariantRow, findings: Findings) -> tuple[PatchRef, ...]:
    """The patches of the variant at `path`; each must exist, hold something and say why it is there."""
    seen: set[str] = set()
    for index, patch in enumerate(row.patches):
        where: Path = (*path, "patches", index, "file")
        if patch.why != UNREADABLE and not patch.why.strip():
            findings.problem((*path, "patches", index, "why"), "why is empty", "say what goes wrong without the patch")
        if not findings.check(where, patch.file, names.check_file):
            continue
        if patch.file in seen:
            findings.problem(where, f'patch "{patch.file}" is listed twice', "take one out")
        seen.add(patch.file)
        if row.fork in findings.written("forks"):
            _check_content(where, row.fork, patch.file, findings)
    return tuple(PatchRef(patch.file, patch.why) for patch in row.patches)


def _check_content(path: Path, fork: str, file: str, findings: Findings) -> None:
    folder = f"patches/{fork}"
    found = resources.find(findings.project, folder, file)
    if found is None:
        beside = findings.project / folder
        there = sorted(other.name for other in beside.glob("*.patch")) if beside.is_dir() else []
        hint = names.nearest(file, there) or f"put it into {folder}/"
        findings.problem(path, f"there is no patch {folder}/{file}", hint)
    elif not found.read_bytes().strip():
        findings.problem(path, f"the patch {folder}/{file} is empty", "write it again with git diff, or take it out")
