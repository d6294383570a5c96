"""Trees and what leads from one to the next."""

from __future__ import annotations

from sistership.image.tarstream import Kind
from sistership.image.tree import EMPTY, IMPLICIT, Inode, Node, Overlay, changes, lay

from .savefile import span_of

DIRECTORY = Inode(Kind.DIRECTORY, 0o700, 1, 1)


def file(data: bytes = b"", mode: int = 0o644) -> Inode:
    """A file with this content."""
    return Inode(Kind.FILE, mode, 0, 0, content=span_of(data))


def over(lower: Node | None, **what: Inode | None) -> Node:
    """A tree after a layer; ``a_b`` stands for a/b, None for a whiteout."""
    layer = Overlay()
    for name, inode in what.items():
        place = layer.at(name.replace("_", "/").encode())
        place.inode, place.whiteout = inode, inode is None
    found = lay(lower, layer)
    assert found
    return found


def paths(tree: Node) -> set[bytes]:
    """All paths of a tree."""
    return {path for path, _ in tree.below(b"")}


def test_a_directory_keeps_what_is_in_it() -> None:
    """A layer that changes a directory's attributes does not empty it; a file in its place does."""
    tree = over(EMPTY, d=DIRECTORY, d_x=file())
    assert paths(over(tree, d=IMPLICIT)) == {b"d", b"d/x"}
    assert paths(over(tree, d=file())) == {b"d"}


def test_missing_parents_are_made() -> None:
    """As classic engines make them: 0755, root."""
    made = over(EMPTY, a_b_c=file()).find(b"a/b")
    assert made
    assert made.inode is IMPLICIT


def test_a_whiteout_hides_only_what_is_below_the_layer() -> None:
    """What the layer itself puts there stays, whatever the order."""
    tree = over(EMPTY, d=DIRECTORY, d_old=file())
    layer = Overlay()
    layer.at(b"d").whiteout = True
    layer.at(b"d").inode = DIRECTORY
    layer.at(b"d/new").inode = file()
    found = lay(tree, layer)
    assert found
    assert paths(found) == {b"d", b"d/new"}


def test_an_opaque_directory_keeps_its_attributes() -> None:
    """Only its content is hidden."""
    tree = over(EMPTY, d=DIRECTORY, d_old=file(), e=file())
    layer = Overlay()
    layer.at(b"d").opaque = True
    found = lay(tree, layer)
    assert found
    assert paths(found) == {b"d", b"e"}
    assert found.children[b"d"].inode is DIRECTORY


def test_whiteouts_of_nothing_make_nothing() -> None:
    """Also in directories that are not there."""
    assert paths(over(EMPTY, a_b_c=None)) == set()
    assert paths(over(over(EMPTY, a=file()), a_b=None)) == {b"a"}


def test_changes_name_what_changed_and_the_way_to_it() -> None:
    """An unchanged directory is there only for what is in it; what a layer leaves alone is not."""
    lower = over(EMPTY, d=DIRECTORY, d_same=file(b"1"), d_gone=file(), e=DIRECTORY, e_f=file(b"1"), x=file())
    upper = over(lower, d_gone=None, d_same=file(b"1"), e_f=file(b"2"), e=DIRECTORY)
    found = {(change.path, change.upper is None, change.changed) for change in changes(lower, upper)}
    assert found == {(b"d", False, False), (b"d/gone", True, True), (b"e", False, False), (b"e/f", False, True)}


def test_nothing_below_a_removed_or_replaced_directory_is_named() -> None:
    """One whiteout, or the new file, says it all."""
    lower = over(EMPTY, d=DIRECTORY, d_x=file(), r=DIRECTORY, r_x=file())
    upper = over(lower, d=None, r=file())
    assert {change.path for change in changes(lower, upper)} == {b"d", b"r"}


def test_same_compares_meaning() -> None:
    """Mode, owners, xattrs, content and link target count one by one; equal content in another place does not."""
    one = file(b"1")
    assert one.same(file(b"1"))
    assert not one.same(file(b"2"))
    assert not one.same(file(b"11"))
    assert not one.same(file(b"1", mode=0o600))
    assert not one.same(Inode(Kind.FILE, 0o644, 1, 0, content=one.content))
    assert not one.same(Inode(Kind.FILE, 0o644, 0, 1, content=one.content))
    assert not one.same(Inode(Kind.FILE, 0o644, 0, 0, xattrs=((b"security.capability", b"x"),), content=one.content))
    link = Inode(Kind.SYMLINK, 0o777, 0, 0, link=b"a")
    assert not link.same(Inode(Kind.SYMLINK, 0o777, 0, 0, link=b"b"))
