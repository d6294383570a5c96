"""The canonical form of a layer: one meaning, one tar."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given, settings

from sistership.errors import BuildError
from sistership.image.layer import layer_size, read_layer, write_layer
from sistership.image.tree import EMPTY, Node, changes, lay

from .savefile import Item, directory, hardlink, sha, span_of, symlink, tar_of, whiteout
from .trees import STYLES, Style, Tree, apply, changed_paths, express, meaning, pairs, whole


def base(tree: Tree) -> Node:
    """The tree that a base layer makes."""
    return _over(EMPTY, whole(tree), own=False)


def _over(lower: Node, layer: bytes, *, own: bool = True) -> Node:
    return lay(lower, read_layer(span_of(layer), lower, where="layer 2", own=own)) or EMPTY


def canonical(lower: Node, layer: bytes) -> bytes:
    """The canonical tar of a raw layer."""
    difference = changes(lower, _over(lower, layer))
    found = b"".join(write_layer(difference))
    assert layer_size(difference) == len(found)
    return found


def base_of(items: list[Item]) -> Node:
    """The tree that a base layer with these entries makes."""
    return _over(EMPTY, tar_of(items), own=False)


@settings(max_examples=150, deadline=None)
@given(pairs(), STYLES, STYLES)
def test_builders_agree(pair: tuple[Tree, Tree], one: Style, other: Style) -> None:
    """Whatever a builder's habits, the same change of the same tree gives the same bytes."""
    lower, upper = pair
    tree = base(lower)
    assert canonical(tree, express(lower, upper, one)) == canonical(tree, express(lower, upper, other))


@settings(max_examples=100, deadline=None)
@given(pairs(), STYLES)
def test_means_what_the_builder_meant(pair: tuple[Tree, Tree], style: Style) -> None:
    """Unpacked over the base, the canonical layer gives the tree that the raw layer was made from."""
    lower, upper = pair
    layer = canonical(base(lower), express(lower, upper, style))
    assert meaning(apply(lower, layer, strict=True)) == meaning(upper)


@settings(max_examples=60, deadline=None)
@given(pairs(), STYLES)
def test_canonical_again_is_the_same(pair: tuple[Tree, Tree], style: Style) -> None:
    """The canonical form of a canonical layer is that layer."""
    lower, upper = pair
    tree = base(lower)
    layer = canonical(tree, express(lower, upper, style))
    assert canonical(tree, layer) == layer


@settings(max_examples=60, deadline=None)
@given(pairs(), STYLES)
def test_holds_changes_and_their_ancestors_only(pair: tuple[Tree, Tree], style: Style) -> None:
    """An entry is there because it changed, or because something below it did."""
    lower, upper = pair
    layer = canonical(base(lower), express(lower, upper, style))
    with tarfile.open(fileobj=io.BytesIO(layer), encoding="utf-8", errors="surrogateescape") as tar:
        names = [name.encode("utf-8", "surrogateescape") for name in tar.getnames()]
    needed = changed_paths(lower, upper)
    leaves = [name for name in names if not any(other.startswith(name + b"/") for other in names)]
    assert names == sorted(names)
    assert all(name in needed or name.rpartition(b"/")[2].startswith(b".wh.") for name in leaves)


def test_the_form_itself_never_changes() -> None:
    """The digest of one layer with everything in it is pinned: another one would re-send every image."""
    lower = base_of([directory(b"etc"), Item(b"etc/old"), directory(b"tmp", 0o1777)])
    layer = tar_of(
        [
            directory(b"etc"),
            whiteout(b"etc/old"),
            directory(b"opt", 0o2711, uid=7, gid=3_000_000),
            Item(b"opt/app", data=b"x" * 600, mode=0o4755, xattrs=(("security.capability", "cap"),)),
            hardlink(b"opt/also", b"opt/app"),
            symlink(b"opt/up", b"../../up"),
            Item(b"opt/" + b"n" * 120),
            Item(b"tmp/x", data=b"1"),
        ]
    )
    assert sha(canonical(lower, layer)) == "sha256:937937e66c6d4cbbd467fd0d13cbb0580fbfab1b281bf3e26b338563c59fb421"


def test_first_name_in_byte_order_is_the_file() -> None:
    """In a group of hard links the builder's order does not matter."""
    layer = canonical(EMPTY, tar_of([Item(b"z", data=b"1"), hardlink(b"a", b"z"), hardlink(b"m", b"a")]))
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert [(info.name, info.islnk(), info.linkname) for info in tar] == [
            ("a", False, ""),
            ("m", True, "a"),
            ("z", True, "a"),
        ]


def test_ancestors_keep_their_attributes() -> None:
    """/tmp stays 1777 and /root 0700: classic engines unpack a layer alone and would make them 0755."""
    lower = base_of([directory(b"tmp", 0o1777), directory(b"root", 0o700)])
    layer = canonical(lower, tar_of([Item(b"tmp/x"), Item(b"root/x")]))
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert {info.name: info.mode for info in tar if info.isdir()} == {"tmp": 0o1777, "root": 0o700}


def test_a_file_capability_alone_is_a_change() -> None:
    """Security xattrs are part of the meaning."""
    lower = base_of([Item(b"app", data=b"x")])
    layer = canonical(lower, tar_of([Item(b"app", data=b"x", xattrs=(("security.capability", "cap"),))]))
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert [info.pax_headers for info in tar] == [{"SCHILY.xattr.security.capability": "cap"}]


def test_nothing_changed_is_an_empty_difference() -> None:
    """A layer that only touches what is there has no canonical layer at all."""
    items = [directory(b"etc"), Item(b"etc/passwd", data=b"root")]
    lower = base_of(items)
    assert changes(lower, _over(lower, tar_of(items))) == []


def test_a_base_may_hold_what_own_layers_may_not() -> None:
    """Devices, absolute names and attributes of a base are as they were pulled, and hosts have them already."""
    odd = [Item(b"/abs"), Item(b"null", tarfile.CHRTYPE, device=(1, 3)), Item(b"x", xattrs=(("user.note", "x"),))]
    assert set(base_of(odd).children) == {b"abs", b"null", b"x"}


def test_the_deepest_tree_is_laid_and_compared() -> None:
    """The deepest name that is read needs no more stack than there is."""
    layer = tar_of([Item(b"d/" * 199 + b"x", data=b"1")])
    written = canonical(EMPTY, layer)
    assert canonical(EMPTY, written) == written


def test_whiteouts_in_a_base_may_name_nothing() -> None:
    """Layers of a base are taken as engines take them, with redundant whiteouts and old plumbing."""
    tree = base_of([whiteout(b"no/such/file"), directory(b".wh..wh.plnk"), Item(b".wh..wh.plnk/1"), Item(b"kept")])
    assert set(tree.children) == {b"kept"}


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([Item(b"dev/null", tarfile.CHRTYPE, device=(1, 3))], "device or a pipe"),
        ([Item(b"disk", tarfile.BLKTYPE, device=(8, 1))], "device or a pipe"),
        ([Item(b"pipe", tarfile.FIFOTYPE)], "device or a pipe"),
        ([Item(b"a/../../etc/passwd")], r"\.\. in its name"),
        ([hardlink(b"a", b"../b")], r"\.\. in its name"),
        ([Item(b"/etc/passwd")], "absolute name"),
        ([Item(b"b"), hardlink(b"a", b"/b")], "absolute name"),
        ([Item(b"a", xattrs=(("user.note", "x"),))], r"extended attribute user\.note"),
        (
            [Item(b"a", xattrs=(("security.selinux", "x"), ("security.capability", "y")))],
            r"attribute security\.selinux",
        ),
        ([Item(b"d/" * 200 + b"x")], "too deep"),
        ([Item(b"n" * 260)], "too long"),
        ([Item(b".wh.ghost")], "deletes nothing"),
        ([Item(b".wh.lower", data=b"content")], "no empty file"),
        ([directory(b".wh.lower")], "no empty file"),
        ([Item(b".wh.")], r"begins with \.wh\."),
        ([Item(b".wh..wh.plnk")], r"begins with \.wh\."),
        ([Item(b".wh.d/x")], r"begins with \.wh\."),
        ([hardlink(b"a", b"missing")], "file that is not there"),
        ([hardlink(b"a", b"folder")], "a directory"),
        ([Item(b"link/x")], "entries below it"),
        ([Item(b"lower/x")], "entries below it"),
    ],
)
def test_refuses_what_engines_treat_differently(items: list[Item], said: str) -> None:
    """What cannot be made equal everywhere is an error that names the path and the layer."""
    lower = base_of([Item(b"lower"), directory(b"folder"), symlink(b"link", b"folder")])
    with pytest.raises(BuildError, match=said) as error:
        read_layer(span_of(tar_of(items)), lower, where="layer 2 (COPY a b)", own=True)
    assert error.value.where == "layer 2 (COPY a b)"
    assert error.value.hint
