"""A comparison for people, at most a screen, and as JSON, all of it."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from sistership.compare.model import Cause, Comparison, Difference, Kind, Part, Side, What

#: Of the JSON document; schemas/diff.schema.json describes it.
VERSION: Final = 1

#: Strings per side and part in the JSON document.
_EXAMPLES: Final = 8
_NAMED: Final = 4
_TOLD: Final = 2
_NARROW: Final = 40
_INDENT: Final = "    "
_DIGEST: Final = re.compile(r"\b[0-9a-f]{64}\b")


def text(comparison: Comparison, width: int | None = None, *, height: int = 24) -> str:
    """The comparison in words: per cause one path with layer, part, cause and cure; the rest is counted.

    Args:
        comparison: what to tell.
        width: of the terminal in columns, None for no limit.
        height: lines to stay within, as far as one block and the count of the rest need no more.
    """
    if comparison.same:
        return f"same: {comparison.a.name} and {comparison.b.name} are {_short(comparison.a.config)}"
    lines = list(_wrapped(_headline(comparison), width, ""))
    above = ""
    groups = grouped(comparison.differences)
    left: list[list[Difference]] = []
    for number, group in enumerate(groups):
        heading = _heading(group[0])
        rows = [*([(heading, "")] if heading != above else []), *_block(group)]
        block = [line for row, indent in rows for line in _wrapped(row, width, indent)]
        if number and (left or len(lines) + len(block) + _rest_size(comparison, groups[number + 1 :]) > height):
            left.append(group)
        else:
            lines += block
            above = heading
    lines += [line for row in _rest(left, comparison) for line in _wrapped(row, width, "")]
    return "\n".join(lines)


def grouped(differences: Iterable[Difference]) -> list[list[Difference]]:
    """Differences that have the same causes in the same kind of place, the most telling group first."""
    keyed = sorted(differences, key=_key)
    groups = [list(group) for _, group in groupby(keyed, key=_key)]
    return sorted(groups, key=lambda group: (_weight(group[0]), -len(group)))


def json(comparison: Comparison) -> dict[str, Any]:
    """The document of schemas/diff.schema.json, ready for `json.dumps`."""
    counts = Counter(cause.id for difference in comparison.differences for cause in difference.causes)
    return {
        "version": VERSION,
        "type": "diff",
        "same": comparison.same,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        "differences": [_difference(difference) for difference in comparison.differences],
        "causes": [_cause(cause, counts[cause.id]) for cause in comparison.causes],
        "unread": list(comparison.unread),
    }


def _key(difference: Difference) -> tuple[object, ...]:
    ids = tuple(cause.id for cause in difference.causes)
    # without a cause each kind is told once
    return ids, "" if ids else difference.kind.value


def _weight(difference: Difference) -> tuple[bool, bool, bool]:
    """Files whose cause is known first, then other contents, then what follows from them, fields last."""
    known = any(not cause.consequence for cause in difference.causes)
    follows = bool(difference.causes) and not known
    field = difference.kind in {Kind.CONFIG, Kind.INPUT}
    return field, follows, not known


def _headline(comparison: Comparison) -> str:
    layers = {found.layer for found in comparison.differences if found.layer is not None}
    paths = {found.path for found in comparison.differences if found.layer is not None and found.path}
    fields = sum(found.layer is None for found in comparison.differences)
    what = [_count(len(layers), "layer"), _count(len(paths), "path"), _count(fields, "field")]
    a, b = comparison.a, comparison.b
    told = ", ".join(filter(None, what)) or "config digest or platform"
    return f"different in {told}: A is {a.name} ({_short(a.config)}), B is {b.name} ({_short(b.config)})"


def _heading(shown: Difference) -> str:
    return f"layer {shown.layer}  {shown.instruction}" if shown.layer is not None else "fields"


def _block(group: Sequence[Difference]) -> Iterator[tuple[str, str]]:
    shown = group[0]
    more = f"  and {_count(len(group) - 1, 'more')} the same way" if len(group) > 1 else ""
    place = shown.path or "the layer itself"
    detail = _DIGEST.sub(lambda found: found[0][:12], shown.detail)
    yield f"{place}: {shown.kind.value}{', ' + detail if detail else ''}{more}", "  "
    if shown.parts:
        yield from _part(shown.parts[0])
        others = [" > ".join(part.place) for part in shown.parts[1:]]
        if others:
            beyond = len(others) - _NAMED
            yield f"also {', '.join(others[:_NAMED])}{f' and {beyond} more' if beyond > 0 else ''}", _INDENT
    told = [cause for cause in shown.causes if not cause.consequence] or shown.causes
    for cause in told[:_TOLD]:
        yield f"why   {cause.why}", _INDENT
        yield f"cure  {cause.cure}", _INDENT
    if told[_TOLD:]:
        yield f"then  {', '.join(cause.id for cause in told[_TOLD:])}", _INDENT


def _part(part: Part) -> Iterator[tuple[str, str]]:
    place = " > ".join(part.place) or "its bytes"
    # The sizes of a text are those of the file, told above.
    detail = part.note if part.what is What.LINES else part.detail
    yield f"{place}: {detail or 'differs'}", _INDENT
    for side, texts in zip("AB", part.only, strict=True):
        if texts:
            yield f"{side} {texts[0]}", _INDENT + "  "


def _rest(left: Sequence[Sequence[Difference]], comparison: Comparison) -> Iterator[str]:
    if left:
        kinds = Counter(difference.kind.value for group in left for difference in group)
        counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
        yield f"and {sum(kinds.values())} more: {counts}; --json has them all"
    if comparison.unread:
        yield f"not looked into: {', '.join(comparison.unread)}"


def _rest_size(comparison: Comparison, later: Sequence[Sequence[Difference]]) -> int:
    return bool(later) + bool(comparison.unread)


def _wrapped(row: str, width: int | None, indent: str) -> list[str]:
    # names and lines of files may hold anything, also what a terminal obeys
    row = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in row)
    if width is None:
        return [indent + row]
    room = max(_NARROW, width) - len(indent)
    label = row[:6] if row.startswith(("why  ", "cure ")) else ""
    hang = indent + " " * (len(label) or 2)
    lines = textwrap.wrap(row, room, subsequent_indent=" " * (len(hang) - len(indent)), break_on_hyphens=False)
    return [indent + line for line in lines]


def _count(number: int, word: str) -> str:
    if not number:
        return ""
    return f"{number} {word}" if number == 1 or word == "more" else f"{number} {word}s"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _side(side: Side) -> dict[str, Any]:
    return {"name": side.name, "config": side.config, "platform": side.platform}


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "layer": difference.layer,
        "instruction": difference.instruction,
        "path": difference.path,
        "kind": difference.kind.value,
        "detail": difference.detail,
        "parts": [_document(part) for part in difference.parts],
        "causes": [cause.id for cause in difference.causes],
    }


def _document(part: Part) -> dict[str, Any]:
    return {
        "place": list(part.place),
        "what": part.what.value,
        "detail": part.detail,
        "sizes": list(part.sizes),
        "differing": part.differing,
        "first": part.first,
        "only_a": list(part.only[0][:_EXAMPLES]),
        "only_b": list(part.only[1][:_EXAMPLES]),
    }


def _cause(cause: Cause, paths: int) -> dict[str, Any]:
    return {
        "id": cause.id,
        "why": cause.why,
        "cure": cause.cure,
        "source": cause.source,
        "consequence": cause.consequence,
        "differences": paths,
    }
