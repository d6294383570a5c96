"""Reading a matrix: text → nodes → rows → values, and every problem at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sistership.errors import MatrixError, UsageError
from sistership.matrix import inventory, names, nodes
from sistership.matrix.context import Context
from sistership.matrix.findings import Findings
from sistership.matrix.model import Matrix, Variant
from sistership.matrix.shape import UNREADABLE, shaped
from sistership.matrix.variants import variant

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sistership.matrix.schema import MatrixFile

VERSION = "1"


def load(path: Path) -> Matrix:
    """Read and check a matrix.

    Args:
        path: buildmatrix.yaml; its folder is the project.

    Raises:
        MatrixError: anything is wrong in it; carries all problems.
        UsageError: there is no such file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "name another with --matrix FILE, or go to the folder of your project"
        raise UsageError(f"cannot read the matrix {path}: {reason}", hint=hint) from None
    return parse(content, path)


def parse(content: bytes, path: Path) -> Matrix:
    """The matrix in `content`, as if it stood at `path` (relative paths and patches are looked up from there).

    Raises:
        MatrixError: see `load`.
    """
    document = nodes.read(content, _shown(path))
    shape = shaped(document)
    findings = Findings(document, path.absolute().parent, shape.reported)
    matrix = _resolve(shape.rows, path, findings)
    problems = [*document.problems, *shape.problems, *findings.problems]
    if problems:
        raise MatrixError(problems)
    return matrix


def _shown(path: Path) -> str:
    """The path as messages show it: short where it lies below the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


def _resolve(rows: MatrixFile, path: Path, findings: Findings) -> Matrix:
    if rows.version not in {VERSION, UNREADABLE}:
        findings.problem(("version",), f'version "{rows.version}" is unknown', f"write version: {VERSION}")
    forks = {name: inventory.fork(name, row, findings) for name, row in rows.forks.items()}
    if rows.ssh_config is not None:
        findings.check(("ssh_config",), rows.ssh_config, inventory.check_path)
    hosts = {name: inventory.host(name, row, rows.ssh_config, findings) for name, row in rows.hosts.items()}
    groups = inventory.groups(rows.groups, findings)
    context = Context(rows.defaults, hosts, rows.builder, findings)
    variants = {name: variant(name, row, context) for name, row in rows.variants.items()}
    readable = isinstance(findings.document.data, dict) and not findings.document.problems
    if readable and not findings.written("variants") and not findings.was_reported(("variants",)):
        findings.problem(("variants",), "the matrix has no variant", "add one under variants:")
    _images_differ(variants.values(), findings)
    platforms = dict.fromkeys(platform for row in variants.values() for platform in row.platforms)
    return Matrix(
        path=path.absolute(),
        project=findings.project,
        forks=forks,
        variants=variants,
        hosts=hosts,
        groups=groups,
        builders=inventory.builders(("builder",), rows.builder, platforms, hosts, findings),
        warnings=tuple(sorted(findings.warnings, key=lambda found: (found.line, found.column, found.message))),
    )


def _images_differ(variants: Iterable[Variant], findings: Findings) -> None:
    """No two variants may make the same image:tag, however it is spelt."""
    first: dict[str, str] = {}
    for row in variants:
        try:
            name = f"{names.parse_reference(row.image).repository}:{row.tag}"
        except names.TextError:
            continue
        other = first.setdefault(name, row.name)
        if other != row.name and row.tag != UNREADABLE:
            line = findings.document.mark(("variants", other), key=True).line
            message = f'the image {row.image}:{row.tag} is also that of variant "{other}" (line {line})'
            findings.problem(("variants", row.name, "tag"), message, "give one of them another tag or image")
