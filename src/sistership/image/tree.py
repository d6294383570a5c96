"""The merged file system below a layer, and what one layer means for it.

A tree is immutable and shares what a layer leaves alone, so laying a layer over it costs what the layer touches,
and comparing two trees skips what they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from sistership.image.spans import Span
from sistership.image.tarstream import Kind


@dataclass(frozen=True, slots=True, eq=False)
class Inode:
    """Attributes and content of a file; hard links share one. Times are no part of it."""

    kind: Kind
    mode: int
    uid: int
    gid: int
    link: bytes = b""
    device: tuple[int, int] = (0, 0)
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    content: Span | None = None

    @property
    def size(self) -> int:
        """Bytes of content."""
        return self.content.size if self.content else 0

    def same(self, other: Inode) -> bool:
        """Whether both mean the same: type, mode, owners, link target, device, xattrs and content."""
        if self is other:
            return True
        return self._attributes() == other._attributes() and (
            self.content is None or other.content is None or self.content.same_bytes(other.content)
        )

    def _attributes(self) -> tuple[object, ...]:
        return (self.kind, self.mode, self.uid, self.gid, self.link, self.device, self.xattrs, self.size)


#: What classic engines make of a parent directory that no layer names.
IMPLICIT: Final = Inode(Kind.DIRECTORY, 0o755, 0, 0)


_NOTHING: Final[Mapping[bytes, Node]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A name in a tree: its inode and, for a directory, what is in it."""

    inode: Inode
    children: Mapping[bytes, Node] = field(default_factory=lambda: _NOTHING)

    @property
    def is_directory(self) -> bool:
        """Whether names can be below it."""
        return self.inode.kind is Kind.DIRECTORY

    def find(self, path: bytes) -> Node | None:
        """The node at a normalised path, itself for the empty path; symlinks are not followed."""
        node: Node | None = self
        for name in path.split(b"/") if path else ():
            node = node.children.get(name) if node else None
        return node

    def below(self, path: bytes) -> Iterator[tuple[bytes, Node]]:
        """Everything below this node with its path; ``path`` is the node's own."""
        for name, child in self.children.items():
            here = join(path, name)
            yield here, child
            yield from child.below(here)


EMPTY: Final = Node(IMPLICIT)


@dataclass(slots=True)
class Overlay:
    """What a layer says of one name.

    Args:
        inode: the new file, or None when the layer has no entry for the name itself.
        whiteout: the name is removed from the tree below before anything of this layer is put there.
        opaque: the same for everything in the directory.
        children: what the layer says of the names in it.
    """

    inode: Inode | None = None
    whiteout: bool = False
    opaque: bool = False
    children: dict[bytes, Overlay] = field(default_factory=dict)

    @property
    def adds(self) -> bool:
        """Whether the layer puts something here or below; whiteouts alone put nothing."""
        return self.inode is not None or self.opaque or self.adds_below

    @property
    def adds_below(self) -> bool:
        """Whether the layer puts something below this name."""
        return any(child.adds for child in self.children.values())

    def at(self, path: bytes) -> Overlay:
        """The place for a normalised path, made when it is not there."""
        place = self
        for name in path.split(b"/") if path else ():
            place = place.children.setdefault(name, Overlay())
        return place


def lay(lower: Node | None, layer: Overlay) -> Node | None:
    """The tree after a layer; None when nothing is left at this name.

    Entries of a layer hide what is below them whatever their order, as the OCI image specification says of whiteouts.
    """
    under = None if layer.whiteout else lower
    directory = under if under is not None and under.is_directory else None
    if layer.inode is not None and layer.inode.kind is not Kind.DIRECTORY and not layer.adds_below:
        return Node(layer.inode)
    if directory is None and not layer.adds:
        return under
    visible = directory.children if directory and not layer.opaque else _NOTHING
    children = dict(visible)
    for name, part in layer.children.items():
        child = lay(visible.get(name), part)
        if child is None:
            children.pop(name, None)
        else:
            children[name] = child
    if layer.inode is not None and layer.inode.kind is Kind.DIRECTORY:
        return Node(layer.inode, children)
    return Node(directory.inode if directory else IMPLICIT, children)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two trees.

    Args:
        path: where.
        lower: what was there, None when nothing.
        upper: what is there now, None when it was removed.
        changed: False for a directory that is only named because something in it changed.
    """

    path: bytes
    lower: Node | None
    upper: Node | None
    changed: bool


def changes(lower: Node, upper: Node) -> list[Change]:
    """What leads from one tree to the other, with every directory above each change, in no particular order.

    The root directory itself is never part of it: no builder writes its attributes reliably.
    """
    return list(_inside(b"", lower, upper))


def _inside(path: bytes, lower: Node | None, upper: Node) -> Iterator[Change]:
    before = lower.children if lower else {}
    if before is upper.children:
        return
    for name, old in before.items():
        if name not in upper.children:
            yield Change(join(path, name), old, None, changed=True)
    for name, new in upper.children.items():
        was = before.get(name)
        if was is not new:
            yield from _at(join(path, name), was, new)


def _at(path: bytes, lower: Node | None, upper: Node) -> Iterator[Change]:
    changed = lower is None or not upper.inode.same(lower.inode)
    inside = list(_inside(path, lower, upper)) if upper.is_directory else []
    if changed or inside:
        yield Change(path, lower, upper, changed)
    yield from inside


def join(directory: bytes, name: bytes) -> bytes:
    """The path of a name in a directory."""
    return directory + b"/" + name if directory else name
