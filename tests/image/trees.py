"""Random pairs of file trees, and the ways in which different builders write the step from one to the other."""

from __future__ import annotations

import io
import random
import tarfile
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from .savefile import Item, tar_of, whiteout

NAMES = (b"a", b"b", b"a-b", b"a.b", b"-x", b".dot", b"with space", b"\xc3\xa4", b"\xff\xfe", b"n" * 120, b"m" * 255)
NAMES += (b".wh", b"...", b"new\nline", b"quote'\"\\", b"path=a", b"\x01\x7f")
OWNERS = (0, 7, 65534, 2**21 + 5, 3_000_000)


@dataclass(frozen=True)
class File:
    """What one path is; equal ``ino`` means hard links of one file."""

    type: bytes
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    data: bytes = b""
    link: bytes = b""
    xattrs: tuple[tuple[str, str], ...] = ()
    ino: int = 0

    @property
    def meaning(self) -> File:
        """All that counts; hard links are compared by content."""
        return replace(self, ino=0)


Tree = dict[bytes, File]


@dataclass(frozen=True)
class Style:
    """A builder's habits, all of which were seen in real exports."""

    type_bits: bool
    names: bool
    opaque: bool
    touched: bool
    ancestors: bool
    link_lower: bool
    whiteout_replaced: bool
    gnu: bool
    mtime: int
    seed: int


STYLES = st.builds(
    Style,
    *[st.booleans()] * 8,
    mtime=st.integers(0, 2**31),
    seed=st.integers(0, 2**16),
)

_OWNER = st.sampled_from(OWNERS)
_XATTRS = st.sampled_from([(), (), (), (("security.capability", "\x01\x02\x02 x"),)])
_FILES = st.builds(
    File,
    st.just(tarfile.REGTYPE),
    mode=st.sampled_from([0o644, 0o600, 0o4755, 0o2711, 0o000]),
    uid=_OWNER,
    gid=_OWNER,
    data=st.sampled_from([b"", b"x", b"y", b"z" * 513, b"w" * 1024]),
    xattrs=_XATTRS,
)
_LINKS = st.builds(
    File,
    st.just(tarfile.SYMTYPE),
    mode=st.just(0o777),
    uid=_OWNER,
    gid=_OWNER,
    link=st.sampled_from([b"a", b"../../up", b"/abs/./x", b"\xfe\xff", b"l" * 150]),
)
_DIRECTORIES = st.builds(
    File, st.just(tarfile.DIRTYPE), mode=st.sampled_from([0o755, 0o700, 0o1777, 0o2711]), uid=_OWNER, gid=_OWNER
)
_ANY = st.one_of(_FILES, _LINKS, _DIRECTORIES, _DIRECTORIES)
_PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)


def parent(path: bytes) -> bytes:
    """The directory of a path."""
    return path.rpartition(b"/")[0]


def is_dir(tree: Tree, path: bytes) -> bool:
    """Whether names can be below a path."""
    return path == b"" or (path in tree and tree[path].type == tarfile.DIRTYPE)


def below(tree: Tree, path: bytes) -> list[bytes]:
    """Every path below this one."""
    return [other for other in tree if other.startswith(path + b"/")]


def put(tree: Tree, path: bytes, file: File) -> None:
    """Put a file, with directories above it and nothing below it unless it stays a directory."""
    above = path.split(b"/")[:-1]
    for depth in range(1, len(above) + 1):
        ancestor = b"/".join(above[:depth])
        if not is_dir(tree, ancestor):
            tree[ancestor] = File(tarfile.DIRTYPE, 0o750)
    if file.type != tarfile.DIRTYPE:
        drop(tree, path)
    tree[path] = file


def drop(tree: Tree, path: bytes) -> None:
    """Remove a path and everything below it."""
    for other in [path, *below(tree, path)]:
        tree.pop(other, None)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """A lower tree and an upper one made from it: added, removed, replaced, chmodded, hard linked."""
    counter = iter(range(1, 10_000))
    lower: Tree = {}
    for path, file in draw(st.lists(st.tuples(_PATHS, _ANY), max_size=8)):
        put(lower, path, replace(file, ino=next(counter)))
    _link_some(draw, lower)
    upper = dict(lower)
    for path, file in draw(st.lists(st.tuples(_PATHS, _ANY), max_size=6)):
        put(upper, path, replace(file, ino=next(counter)))
    for path in draw(st.lists(st.sampled_from(sorted(upper)), max_size=3)) if upper else []:
        if draw(st.booleans()):
            drop(upper, path)
        elif path in upper and upper[path].type == tarfile.REGTYPE:
            changed = replace(upper[path], mode=0o711)
            for other in [other for other, file in upper.items() if file.ino == upper[path].ino]:
                upper[other] = changed
    _link_some(draw, upper)
    return lower, upper


def _link_some(draw: st.DrawFn, tree: Tree) -> None:
    for _ in range(draw(st.integers(0, 2))):
        files = sorted(path for path, file in tree.items() if file.type == tarfile.REGTYPE)
        if files:
            source = tree[draw(st.sampled_from(files))]
            put(tree, draw(_PATHS), source)


def changed_paths(lower: Tree, upper: Tree) -> set[bytes]:
    """Paths that are new or mean something else."""
    return {path for path, file in upper.items() if path not in lower or lower[path].meaning != file.meaning}


def express(lower: Tree, upper: Tree, style: Style) -> bytes:
    """The layer between two trees as a builder with these habits writes it."""
    chance = random.Random(style.seed)
    listed = changed_paths(lower, upper)
    opaque: set[bytes] = set()
    removed = {path for path in lower if path not in upper}
    if style.opaque:
        opaque = {parent(path) for path in removed} - {b""}
        opaque = {path for path in opaque if is_dir(lower, path) and is_dir(upper, path)}
        listed |= {path for folder in opaque for path in below(upper, folder)}
    covered = {path for folder in opaque for path in below(lower, folder)}
    gone = {path for path in removed - covered if is_dir(upper, parent(path)) and is_dir(lower, parent(path))}
    if style.whiteout_replaced:
        gone |= {path for path in listed & set(lower) - covered if lower[path].type != upper[path].type}
    if style.touched:
        listed |= {path for path in upper if chance.random() < 0.5}
    if style.ancestors:
        needed = listed | gone | opaque
        listed |= {ancestor for path in needed for ancestor in upper if path.startswith(ancestor + b"/")}
    items = [whiteout(path) for path in gone] + [Item(folder + b"/.wh..wh..opq", mode=0o600) for folder in opaque]
    chance.shuffle(items)
    items += _entries(lower, upper, listed, style, chance)
    return tar_of(
        [replace(item, mtime=style.mtime, names=("root", "daemon") if style.names else ("", "")) for item in items],
        form=tarfile.GNU_FORMAT if style.gnu and not _needs_pax(items) else tarfile.PAX_FORMAT,
        type_bits=style.type_bits,
    )


def whole(tree: Tree) -> bytes:
    """A base layer that makes this tree out of nothing."""
    plain = Style(*[False] * 8, mtime=5, seed=0)
    return express({}, tree, plain)


def _entries(lower: Tree, upper: Tree, listed: set[bytes], style: Style, chance: random.Random) -> list[Item]:
    """Parents first, siblings in any order; the first name of a hard-linked file carries it, unless the lower does."""
    order = sorted(listed, key=lambda path: (path.count(b"/"), chance.random()))
    carrier: dict[int, bytes] = {}
    if style.link_lower:
        for path, file in upper.items():
            # Only what the lower tree really holds there can be linked to.
            same = path in lower and lower[path].ino == file.ino
            if path not in listed and file.type == tarfile.REGTYPE and same:
                carrier[file.ino] = path
    items = []
    for path in order:
        file = upper[path]
        first = carrier.setdefault(file.ino, path) if file.type == tarfile.REGTYPE else path
        if first != path:
            items.append(Item(path, tarfile.LNKTYPE, mode=file.mode, uid=file.uid, gid=file.gid, link=first))
        else:
            items.append(Item(path, file.type, file.data, file.mode, file.uid, file.gid, file.link, file.xattrs))
    return items


def _needs_pax(items: list[Item]) -> bool:
    return any(item.xattrs for item in items)


def apply(tree: Tree, layer: bytes, *, strict: bool) -> Tree:
    """What an engine makes of a layer, read with tarfile; ``strict`` wants every parent in the layer itself."""
    found = dict(tree)
    with tarfile.open(fileobj=io.BytesIO(layer), encoding="utf-8", errors="surrogateescape") as tar:
        members = [(info.name.encode("utf-8", "surrogateescape"), info) for info in tar]
        listed = {name for name, _ in members}
        for name in listed:
            assert not strict or not parent(name) or parent(name) in listed
            last = name.rpartition(b"/")[2]
            if last.startswith(b".wh."):
                drop(found, (parent(name) + b"/" + last[4:]).lstrip(b"/"))
        for name, info in members:
            if not name.rpartition(b"/")[2].startswith(b".wh."):
                put(found, name, _file(found, tar, info))
    return found


def _file(found: Tree, tar: tarfile.TarFile, info: tarfile.TarInfo) -> File:
    link = info.linkname.encode("utf-8", "surrogateescape")
    if info.islnk():
        return found[link]
    data = tar.extractfile(info).read() if info.isreg() else b""  # type: ignore[union-attr]
    key = "SCHILY.xattr."
    xattrs = tuple(
        sorted((name.removeprefix(key), value) for name, value in info.pax_headers.items() if name.startswith(key))
    )
    return File(info.type, info.mode, info.uid, info.gid, data, link if info.issym() else b"", xattrs, ino=id(info))


def meaning(tree: Tree) -> Tree:
    """The tree without inode numbers."""
    return {path: file.meaning for path, file in tree.items()}
