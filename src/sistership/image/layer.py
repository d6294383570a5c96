"""From a layer's tar to its meaning, and from a meaning to the one tar that says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sistership.errors import BuildError
from sistership.image import tarwrite
from sistership.image.spans import Span
from sistership.image.tarstream import Entry, Kind, entries, show
from sistership.image.tree import Change, Inode, Node, Overlay, join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WHITEOUT: Final = b".wh."
_PLUMBING: Final = b".wh..wh."
_OPAQUE: Final = b".wh..wh..opq"
_SPECIAL: Final = (Kind.CHARACTER, Kind.BLOCK, Kind.FIFO)
#: Builders export this one alone (seen with 20.10 and 26.1, both stores); all engines restore it.
_CAPABILITY: Final = b"security.capability"


def read_layer(stream: Span, lower: Node, *, where: str, own: bool) -> Overlay:
    """What a layer says, with hard links resolved to the inodes they share.

    Args:
        stream: the uncompressed tar.
        lower: the tree below, where hard links may point to.
        where: what the layer is, for messages.
        own: refuse what has no canonical form; layers of a base are taken as engines take them.

    Raises:
        BuildError: a damaged tar, or something that engines treat differently.
    """
    layer = Overlay()
    for entry in entries(stream, where):
        directory, _, name = entry.path.rpartition(b"/")
        parts = entry.path.split(b"/")
        if own:
            _refuse_special(entry, where)
            _refuse_xattrs(entry, where)
            _refuse_names(entry, parts, where)
        elif any(part.startswith(_PLUMBING) and part != _OPAQUE for part in parts):
            continue
        if name == _OPAQUE:
            layer.at(directory).opaque = True
        elif name.startswith(_WHITEOUT):
            _take_whiteout(layer, lower, entry, where, own=own)
        else:
            layer.at(entry.path).inode = _inode(entry, layer, lower, where)
    if own:
        _refuse_files_as_parents(layer, lower, where)
    return layer


def write_layer(difference: Iterable[Change]) -> Iterator[bytes]:
    """The canonical tar of a difference, piece by piece: sorted by name, whiteouts explicit, hard links kept.

    The first name in byte order of a group of hard links is the file. The same difference gives the same bytes.
    """
    for part in _parts(difference):
        if isinstance(part, Span):
            yield from part.chunks()
        else:
            yield part


def layer_size(difference: Iterable[Change]) -> int:
    """Bytes that ``write_layer`` gives; no content is read for it."""
    return sum(part.size if isinstance(part, Span) else len(part) for part in _parts(difference))


def _parts(difference: Iterable[Change]) -> Iterator[bytes | Span]:
    """What a canonical tar is made of: headers and padding, and the contents between them."""
    first: dict[int, bytes] = {}
    named = {_tar_name(change): change for change in difference}
    for name in sorted(named):
        change = named[name]
        if change.upper is None:
            yield tarwrite.layer_header(name, Kind.FILE)
            continue
        inode = change.upper.inode
        if inode.kind is Kind.FILE:
            target = first.setdefault(id(inode), name)
            if target != name:
                yield tarwrite.layer_header(
                    name, Kind.HARDLINK, mode=inode.mode, uid=inode.uid, gid=inode.gid, link=target
                )
                continue
        yield from _whole(name, inode)
    yield tarwrite.END


def _whole(name: bytes, inode: Inode) -> Iterator[bytes | Span]:
    yield tarwrite.layer_header(
        name + b"/" if inode.kind is Kind.DIRECTORY else name,
        inode.kind,
        mode=inode.mode,
        uid=inode.uid,
        gid=inode.gid,
        size=inode.size,
        link=inode.link,
        device=inode.device,
        xattrs=inode.xattrs,
    )
    if inode.content:
        yield inode.content
        yield tarwrite.padding(inode.size)


def _tar_name(change: Change) -> bytes:
    if change.upper is not None:
        return change.path
    directory, _, name = change.path.rpartition(b"/")
    return join(directory, _WHITEOUT + name)


def _take_whiteout(layer: Overlay, lower: Node, entry: Entry, where: str, *, own: bool) -> None:
    directory, _, name = entry.path.rpartition(b"/")
    removed = join(directory, name.removeprefix(_WHITEOUT))
    if own and (entry.kind is not Kind.FILE or entry.content is None or entry.content.size):
        raise _refused(where, entry.path, "begins with .wh. and is no empty file", "engines take it for a deletion")
    if own and lower.find(removed) is None:
        raise _refused(where, entry.path, "begins with .wh. and deletes nothing", "engines drop the file in silence")
    layer.at(removed).whiteout = True


def _inode(entry: Entry, layer: Overlay, lower: Node, where: str) -> Inode:
    if entry.kind is Kind.HARDLINK:
        return _linked(entry, layer, lower, where)
    if not entry.path and entry.kind is not Kind.DIRECTORY:
        raise _refused(where, entry.path, "is no directory", "the root of an image has to be one")
    return Inode(entry.kind, entry.mode, entry.uid, entry.gid, entry.link, entry.device, entry.xattrs, entry.content)


def _linked(entry: Entry, layer: Overlay, lower: Node, where: str) -> Inode:
    place: Overlay | None = layer
    for name in entry.link.split(b"/"):
        place = place.children.get(name) if place else None
    below = lower.find(entry.link)
    inode = place.inode if place and place.inode else below.inode if below else None
    if inode is None or inode.kind is Kind.DIRECTORY:
        why = "a directory" if inode else "a file that is not there"
        raise _refused(where, entry.path, f"is a hard link to {show(entry.link)}, {why}", "no engine can unpack it")
    return inode


def _refuse_special(entry: Entry, where: str) -> None:
    if entry.kind in _SPECIAL:
        raise _refused(where, entry.path, "is a device or a pipe", "unprivileged engines cannot make special files")


def _refuse_xattrs(entry: Entry, where: str) -> None:
    for name, _ in entry.xattrs:
        if name != _CAPABILITY:
            what = f"has the extended attribute {name.decode('utf-8', 'backslashreplace')}"
            raise _refused(where, entry.path, what, "builders and engines lose all of them but security.capability")


def _refuse_names(entry: Entry, parts: list[bytes], where: str) -> None:
    if entry.absolute:
        raise _refused(where, entry.path, "has an absolute name", "no builder writes that, and tools differ on it")
    odd = [part for part in parts[:-1] if part.startswith(_WHITEOUT)]
    last = parts[-1]
    if (last.startswith(_PLUMBING) and last != _OPAQUE) or last == _WHITEOUT:
        odd.append(last)
    if odd:
        path = b"/".join(parts)
        raise _refused(where, path, "begins with .wh.", "layers mark deletions that way")


def _refuse_files_as_parents(layer: Overlay, lower: Node | None, where: str, path: bytes = b"") -> None:
    """Engines disagree on an entry below something that is no directory: some follow a link, some replace it."""
    under = None if layer.whiteout else lower
    inode = layer.inode or (under.inode if under else None)
    if inode and inode.kind is not Kind.DIRECTORY and (layer.opaque or layer.adds_below):
        raise _refused(where, path, "is no directory, yet the layer has entries below it", "did it use COPY --link?")
    visible = under.children if under and not layer.opaque else {}
    for name, part in layer.children.items():
        _refuse_files_as_parents(part, visible.get(name), where, join(path, name))


def _refused(where: str, path: bytes, what: str, why: str) -> BuildError:
    return BuildError(
        f"{show(path)} {what}", where=where, why=why, hint="leave it out in the build stage, before the final COPY"
    )
