"""The names in a matrix, read without checking it: quick enough for shell completion, silent about faults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

_LIMIT: Final = 1 << 20
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster, where there is one


@dataclass(frozen=True)
class Names:
    """What can stand after --variant, --hosts and --source, in the order of the file."""

    variants: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    forks: tuple[str, ...] = ()


def read(matrix: Path) -> Names:
    """The names of `matrix`; of a file that is missing or no YAML (it is being edited): none."""
    try:
        content = matrix.read_bytes()
        root = yaml.compose(content, Loader=_LOADER) if len(content) <= _LIMIT else None
    except (OSError, yaml.YAMLError, RecursionError, ValueError):
        return Names()
    return Names(*(_keys(root, section) for section in ("variants", "hosts", "groups", "forks")))


def _keys(root: yaml.Node | None, section: str) -> tuple[str, ...]:
    """The keys of one section of the top level, as they are written."""
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == section and isinstance(value, yaml.MappingNode):
            names = (str(name.value) for name, _ in value.value if isinstance(name, yaml.ScalarNode))
            return tuple(name for name in names if name != "<<")
    return ()
