"""Where the templates and patches that come with sistership lie: in the wheel, or in the source checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def bundled(name: str) -> Path:
    """Folder `name` ("dockerfiles", "patches") as shipped with this version.

    A wheel carries it as package data; a checkout has it at its top level (the build copies it from there).
    """
    inside = _PACKAGE / "data" / name
    return inside if inside.is_dir() else _PACKAGE.parents[1] / name


def find(project: Path, folder: str, file: str) -> Path | None:
    """`folder/file` of the project, else the one that comes with sistership, else None."""
    for root in (project / folder, bundled(folder)):
        path = root / file
        if path.is_file():
            return path
    return None
