"""From text with positions to typed rows: every fault of shape at once, in the words of a matrix.

A faulty value is reported and then replaced by `UNREADABLE` (or left out), so that everything else is still checked.
A file with any problem never becomes a Matrix, so the replacement cannot escape.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError

from sistership.errors import Problem
from sistership.matrix.names import nearest
from sistership.matrix.nodes import Document, Path, Value
from sistership.matrix.schema import MatrixFile, PatchRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_core import ErrorDetails

#: Stands for a text that was faulty and is reported already.
UNREADABLE: Final = "\0"

_SINGULAR: Final = {"forks": "fork", "variants": "variant", "hosts": "host", "groups": "group"}
_SECTIONS: Final = ("defaults", *_SINGULAR)
_KINDS: Final = {"string_type": "text", "list_type": "a list", "tuple_type": "a list", "dict_type": "a mapping"}
_ROUNDS: Final = 12  # a fault is at most this many levels below what can be left out


def subject(path: Path) -> str:
    """Whose fault it is, as the beginning of a message: `variant "alpha": `."""
    if len(path) > 1 and path[0] in _SINGULAR:
        return f'{_SINGULAR[str(path[0])]} "{path[1]}": '
    return "defaults: " if path[:1] == ("defaults",) else ""


def inside(path: Path) -> str:
    """The keys below the row, dotted: `cuda.archs[0]`; "" for the row itself."""
    if len(path) < 2:  # noqa: PLR2004 - a section or a key of the top level
        return "" if path == ("defaults",) else ".".join(map(str, path))
    parts = path[2:] if path[0] in _SINGULAR else path[1:] if path[0] == "defaults" else path
    text = "members" if path[0] == "groups" else ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


@dataclass(frozen=True)
class Shaped:
    """The file's rows, the problems of its shape (besides the document's own), and the paths they are about."""

    rows: MatrixFile
    problems: tuple[Problem, ...]
    reported: frozenset[Path]


def shaped(document: Document) -> Shaped:
    """The rows of a document, with what is wrong in their shape."""
    shaper = _Shaper(document)
    rows = shaper.result()
    return Shaped(rows, tuple(shaper.problems), frozenset(shaper.reported))


class _Shaper:
    def __init__(self, document: Document) -> None:
        self._document = document
        self.reported: set[Path] = set()
        self.problems: list[Problem] = []

    def result(self) -> MatrixFile:
        data = self._document.data
        if not isinstance(data, dict):
            what = "the file is empty" if data is None else "the file must be a mapping"
            self._report((), what, 'begin with "version: 1"')
        data = copy.deepcopy(data) if isinstance(data, dict) else {"version": UNREADABLE}
        self._nulls(data, ())
        for _ in range(_ROUNDS):
            try:
                return MatrixFile.model_validate(data)
            except ValidationError as error:
                for detail in error.errors(include_url=False):
                    path = detail["loc"]
                    self._explain(detail, path)
                    _replace(data, path, missing=detail["type"] == "missing")
        return MatrixFile(version=UNREADABLE)

    def _nulls(self, value: Value, path: Path) -> None:
        """A key without a value is an empty section or host; anywhere else it is a fault."""
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value or []))
        for key, item in items:
            here: Path = (*path, key)
            if str(key).startswith("x-") and path[:1] not in {("hosts",), ("groups",)}:
                continue
            if item is None:
                empty = here[0] in _SECTIONS if len(here) == 1 else len(here) == 2 and here[0] == "hosts"  # noqa: PLR2004
                if empty:
                    value[key] = {}  # type: ignore[index]
                    continue
                hint = "give it a value or take the line out; quote it if it is a name"
                self._report(here, f"{subject(here)}{inside(here)} has no value", hint)
                if isinstance(value, dict):
                    del value[str(key)]
                elif isinstance(value, list) and isinstance(key, int):
                    value[key] = UNREADABLE
            elif isinstance(item, (dict, list)):
                self._nulls(item, here)

    def _explain(self, detail: ErrorDetails, path: Path) -> None:
        if any(path[:length] in self.reported for length in range(1, len(path) + 1)):
            return
        explain = _EXPLANATIONS.get(detail["type"], _explain_other)
        message, hint = explain(detail, path)
        if detail["type"] == "missing" and self._is_misspelt(path):
            self.reported.add(path)
            return
        self._report(path, message, hint, key=detail["type"] in {"extra_forbidden", "missing"})

    def _is_misspelt(self, path: Path) -> bool:
        """Whether an unknown key beside it was surely meant: its own problem names this key."""
        siblings = self._document.data
        for part in path[:-1]:
            siblings = siblings[part] if isinstance(siblings, (dict, list)) else None  # type: ignore[index]
        fields = set(_fields(path[:-1]))
        unknown = [name for name in siblings or {} if isinstance(name, str) and name not in fields]
        return any(nearest(name, fields) == f'did you mean "{path[-1]}"?' for name in unknown)

    def _report(self, path: Path, message: str, hint: str | None, *, key: bool = False) -> None:
        self.reported.add(path)
        self.problems.append(self._document.problem(path, message, hint, key=key))


def _replace(data: dict[str, Any], path: Path, *, missing: bool) -> None:
    """Leave the value at `path` out of `data`, or put UNREADABLE where one is needed."""
    parent: Any = data
    for part in path[:-1]:
        below = parent.get(part) if isinstance(parent, dict) else parent[part]
        if isinstance(below, str):  # a scalar that stands for a list of one
            break
        parent = below
    else:
        part = path[-1]
        if missing or (isinstance(parent, list) and parent[int(part)] != UNREADABLE):
            parent[part] = UNREADABLE
        elif isinstance(parent, list):
            parent[int(part)] = {"file": UNREADABLE, "why": UNREADABLE}
        else:
            parent.pop(part, None)


def _model_at(path: Path) -> Any:
    found: Any = MatrixFile
    for part in path:
        if isinstance(found, type) and issubclass(found, BaseModel):
            field = found.model_fields.get(str(part))
            found = field.annotation if field else None
        else:
            found = get_args(found)[-1 if get_origin(found) is dict else 0] if get_args(found) else None
        if type(None) in get_args(found):  # X | None
            found = next((arg for arg in get_args(found) if _is_row(arg)), found)
    return found


def _is_row(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _fields(path: Path) -> Mapping[str, Any]:
    model = _model_at(path)
    return model.model_fields if _is_row(model) else {}


def _explain_unknown(_: ErrorDetails, path: Path) -> tuple[str, str | None]:
    within = inside(path[:-1])
    place = f" in {within}" if within else ""
    return f'{subject(path)}unknown key "{path[-1]}"{place}', nearest(str(path[-1]), _fields(path[:-1]))


def _explain_missing(_: ErrorDetails, path: Path) -> tuple[str, str | None]:
    field = _fields(path[:-1]).get(str(path[-1]))
    hint = f"add {path[-1]}: {field.description}" if field and field.description else None
    return f'{subject(path)}"{inside(path)}" is missing', hint


def _explain_row(_: ErrorDetails, path: Path) -> tuple[str, str | None]:
    fields = _fields(path)
    if PatchRow.model_fields.keys() == fields.keys():
        return f"{subject(path)}{inside(path)} must say its file and why", 'write {file: name.patch, why: "…"}'
    name = f"{inside(path)} ".lstrip()
    return f"{subject(path)}{name}must be a mapping", f"its keys: {', '.join(fields)}"


def _explain_choice(detail: ErrorDetails, path: Path) -> tuple[str, str | None]:
    expected = detail["ctx"]["expected"].replace("'", "")
    return f'{subject(path)}{inside(path)} must be {expected}, not "{detail["input"]}"', None


def _explain_flag(detail: ErrorDetails, path: Path) -> tuple[str, str | None]:
    given = detail["input"] if isinstance(detail["input"], str) else _kind(detail["input"])
    return f"{subject(path)}{inside(path)} must be true or false, not {given}", None


def _explain_other(detail: ErrorDetails, path: Path) -> tuple[str, str | None]:
    wanted = _KINDS.get(detail["type"])
    if wanted is None:
        return f"{subject(path)}{inside(path)}: {detail['msg']}", None
    name = f"{inside(path)} ".lstrip()
    return f"{subject(path)}{name}must be {wanted}, not {_kind(detail['input'])}", None


def _kind(value: object) -> str:
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, (list, tuple)) else "text"


_EXPLANATIONS: Final[dict[str, Callable[[ErrorDetails, Path], tuple[str, str | None]]]] = {
    "extra_forbidden": _explain_unknown,
    "missing": _explain_missing,
    "model_type": _explain_row,
    "literal_error": _explain_choice,
    "flag": _explain_flag,
}
