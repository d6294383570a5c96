"""`--variant` and `--hosts`: names, groups and globs, separated by commas; `^` leaves out."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from sistership.errors import UsageError
from sistership.matrix.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sistership.matrix.model import Host, Matrix, Variant

_GLOB: Final = frozenset("*?[")


def variants(matrix: Matrix, text: str | None) -> tuple[Variant, ...]:
    """The variants that `text` selects, in the order of the matrix; None selects all.

    Raises:
        UsageError: the selector is empty, begins with a dash, names something unknown or leaves nothing.
    """
    chosen = _chosen(text, matrix.variants, {}, "variant", "--variant")
    return tuple(matrix.variants[name] for name in chosen)


def hosts(matrix: Matrix, text: str | None, flag: str = "--hosts") -> tuple[Host, ...]:
    """The hosts that `text`, the value of `flag`, selects, in the order of the inventory; None selects all.

    Raises:
        UsageError: see `variants`.
    """
    chosen = _chosen(text, matrix.hosts, matrix.groups, "host or group", flag)
    return tuple(matrix.hosts[name] for name in chosen)


def _chosen(
    text: str | None, known: Iterable[str], groups: Mapping[str, tuple[str, ...]], kind: str, flag: str
) -> list[str]:
    names = list(known)
    if text is None:
        return names
    items = [item.strip() for item in text.split(",")]
    for item in items:
        if item in {"", "^"}:
            raise UsageError(f'{flag} "{text}" has an empty part', hint=f"name a {kind}, or leave {flag} out for all")
        if item.startswith("-"):
            why = "the value of an option cannot begin with a dash"
            raise UsageError(f'{flag} "{item}" is not a {kind}', why=why, hint=f"put a value after {flag}")
    taken = {name for item in items if item[0] != "^" for name in _matches(item, names, groups, kind, flag)}
    left_out = {name for item in items if item[0] == "^" for name in _matches(item[1:], names, groups, kind, flag)}
    if all(item[0] == "^" for item in items):
        taken = set(names)
    chosen = [name for name in names if name in taken - left_out]
    if not chosen:
        raise UsageError(f'{flag} "{text}" leaves out everything it names', hint="leave out less")
    return chosen


def _matches(
    item: str, names: list[str], groups: Mapping[str, tuple[str, ...]], kind: str, flag: str
) -> tuple[str, ...]:
    if item in names:
        return (item,)
    if item in groups:
        return groups[item]
    found = tuple(name for name in names if fnmatchcase(name, item)) if _GLOB & set(item) else ()
    if not found:
        hint = nearest(item, [*names, *groups])
        raise UsageError(f'{flag}: no {kind} "{item}"', hint=hint or "the matrix names none")
    return found
