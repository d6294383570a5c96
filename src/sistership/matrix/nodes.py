"""YAML as text with positions: nothing is re-typed, no key is lost.

PyYAML composes the nodes; what they mean is decided here. A commit, `12.10`, `no`, `0755` and `ON` stay the text that
was written. Duplicate keys are refused, also inside a merged anchor; `<<` merges and may be overridden.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import yaml

from sistership.errors import MatrixError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

Value: TypeAlias = "dict[str, Value] | list[Value] | str | None"
Path: TypeAlias = tuple[str | int, ...]

MAX_BYTES: Final = 1 << 20
MAX_VALUES: Final = 20_000
MAX_DEPTH: Final = 40

_MERGE: Final = "tag:yaml.org,2002:merge"
_NULL: Final = "tag:yaml.org,2002:null"
_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("bool", "float", "int", "map", "merge", "null", "seq", "str", "timestamp", "value")
)


@dataclass(frozen=True)
class Mark:
    """A place in the file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """The file's values as dictionaries, lists and text, and where each was written.

    Attributes:
        data: an empty or null plain scalar is None, every other scalar its text.
        keys: path → where the key is.
        values: path → where the value begins.
        problems: duplicate keys and the like, in the order they were met.
    """

    file: str
    data: Value
    keys: dict[Path, Mark] = field(default_factory=dict)
    values: dict[Path, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def mark(self, path: Path, *, key: bool = False) -> Mark:
        """Where `path` is written; for a path that is not in the file, its nearest ancestor's key."""
        if not key and path in self.values:
            return self.values[path]
        for length in range(len(path), 0, -1):
            if path[:length] in self.keys:
                return self.keys[path[:length]]
            if path[:length] in self.values:
                return self.values[path[:length]]
        return Mark(1, 1)

    def problem(self, path: Path, message: str, hint: str | None = None, *, key: bool = False) -> Problem:
        """A problem with the value (or the key) at `path`."""
        mark = self.mark(path, key=key)
        return Problem(self.file, mark.line, mark.column, message, hint)


def read(content: bytes, file: str) -> Document:
    """Read one YAML document.

    Args:
        content: the file's bytes, UTF-8 with or without a byte order mark.
        file: the name that problems show.

    Raises:
        MatrixError: not YAML at all, not UTF-8, or too big; with its position.
    """
    root = _compose(_decode(content, file), file)
    document = Document(file, None)
    if root is None:
        return document
    reader = _Reader(document)
    return Document(file, reader.value(root, ()), document.keys, document.values, document.problems)


def _decode(content: bytes, file: str) -> str:
    if len(content) > MAX_BYTES:
        raise MatrixError([Problem(file, 1, 1, f"the file has more than {MAX_BYTES} bytes", "is it the right file?")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        problem = Problem(file, line, column, "this byte is not UTF-8", "save the file as UTF-8")
        raise MatrixError([problem]) from None


def _compose(text: str, file: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise MatrixError([_syntax(error, file)]) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        message = f"the character {error.character!r} is not allowed in YAML"
        raise MatrixError([Problem(file, line, column, message, "remove it")]) from None
    except RecursionError:
        raise MatrixError([Problem(file, 1, 1, "the values are nested too deeply")]) from None
    return node


def _syntax(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    message = ", ".join(part for part in (error.problem, error.context) if part)
    hint = "indent with spaces" if "\\t" in message else "check the indentation, colons and quotes here and just above"
    return Problem(file, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, f"not YAML: {message}", hint)


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


Entries: TypeAlias = dict[str, tuple[yaml.Node, yaml.Node]]


class _Reader:
    """Turns nodes into values; bounded in size and depth, because an alias may stand for a whole tree."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._entries: dict[int, Entries] = {}
        self._open: set[int] = set()
        self._count = 0
        self._full = False

    def value(self, node: yaml.Node, path: Path) -> Value:
        """The value of `node` as it stands at `path`."""
        self._document.values[path] = _mark(node)
        self._count += 1
        if self._count > MAX_VALUES or len(path) > MAX_DEPTH:
            self._refuse_size(node)
            return None
        if node.tag not in _TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(node, f"the tag {tag} means nothing here", "take it out")
        if isinstance(node, yaml.ScalarNode):
            null = node.tag == _NULL and node.style is None
            return None if null else str(node.value)
        if id(node) in self._open:
            self._refuse(node, "an alias that contains itself", "write the values out")
            return [] if isinstance(node, yaml.SequenceNode) else {}
        self._open.add(id(node))
        try:
            return self._collection(node, path)
        finally:
            self._open.discard(id(node))

    def _collection(self, node: yaml.Node, path: Path) -> Value:
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value) if not self._full]
        result: dict[str, Value] = {}
        for name, (key, value) in self._mapping(node).items():
            if not self._full:
                self._document.keys[*path, name] = _mark(key)
                result[name] = self.value(value, (*path, name))
        return result

    def _mapping(self, node: yaml.Node) -> Entries:
        """The entries of a mapping, with what `<<` merges first and its own keys over them."""
        known = self._entries.get(id(node))
        if known is not None:
            return known
        self._entries[id(node)] = {}  # a mapping that merges itself adds nothing to itself
        merged: Entries = {}
        own: Entries = {}
        for key, value in node.value:
            name = self._name(key)
            if name is None:
                continue
            if name in own:
                self._refuse_duplicate(key, name, own[name][0])
                continue
            own[name] = (key, value)
        for name, (key, value) in list(own.items()):
            if key.tag == _MERGE:
                del own[name]
                for source in self._sources(value):
                    merged = {**self._mapping(source), **merged}
        self._entries[id(node)] = {**merged, **own}
        return self._entries[id(node)]

    def _name(self, key: yaml.Node) -> str | None:
        if isinstance(key, yaml.ScalarNode):
            return str(key.value)
        self._refuse(key, "a key must be plain text", "quote it if it begins with a bracket or brace")
        return None

    def _sources(self, value: yaml.Node) -> Iterator[yaml.MappingNode]:
        items = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for item in items:
            if isinstance(item, yaml.MappingNode):
                yield item
            else:
                self._refuse(item, "<< merges mappings only", "write <<: *anchor or <<: [*one, *two]")

    def _refuse_duplicate(self, key: yaml.Node, name: str, first: yaml.Node) -> None:
        line = _mark(first).line
        hint = "write <<: [*one, *two]" if key.tag == _MERGE else f"keep one of lines {line} and {_mark(key).line}"
        self._refuse(key, f'duplicate key "{name}", first on line {line}', hint)

    def _refuse_size(self, node: yaml.Node) -> None:
        if not self._full:
            self._full = True
            limit = f"more than {MAX_VALUES} values or {MAX_DEPTH} levels once aliases are followed"
            self._refuse(node, limit, "use fewer aliases")

    def _refuse(self, node: yaml.Node, message: str, hint: str) -> None:
        mark = _mark(node)
        problem = Problem(self._document.file, mark.line, mark.column, message, hint)
        if problem not in self._document.problems:
            self._document.problems.append(problem)
