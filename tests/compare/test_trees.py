"""Two layers, path by path."""

from __future__ import annotations

import tarfile
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sistership.compare import Kind, trees
from sistership.compare.layers import LayerSource, differing
from sistership.errors import BuildError

from .made import Item, elf, scratch, span, tar

FOLDER, LINK, SYMLINK = tarfile.DIRTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE


def found(a: list[Item], b: list[Item]) -> list[tuple[str, str]]:
    """Path and kind of every difference."""
    return [(one.path, one.kind.value) for one in trees.between(span(tar(a)), span(tar(b)), scratch)]


def source(number: int, data: bytes | None, *, base: bool = False, name: str = "COPY") -> LayerSource:
    """A layer whose bytes are these."""
    opener = None if data is None else lambda: nullcontext(span(data))
    return LayerSource(number, name, base, f"sha256:{number:064x}", opener)


@pytest.mark.parametrize(
    ("one", "other", "kinds"),
    [
        (Item("x", b"1"), Item("x", b"2"), ["content"]),
        (Item("x", b"1"), Item("x", b"1", mode=0o755), ["mode"]),
        (Item("x", b"1"), Item("x", b"1", uid=1000), ["owner"]),
        (Item("x", b"1"), Item("x", b"1", xattrs=(("security.capability", "c"),)), ["xattr"]),
        (Item("x", b"1"), Item("x", type=FOLDER), ["type"]),
        (Item("x", type=SYMLINK, link="a"), Item("x", type=SYMLINK, link="b"), ["link"]),
        (Item("x", b"1", mode=0o755), Item("x", b"2", uid=1), ["mode", "owner", "content"]),
        (Item("x", b"1", mtime=1), Item("x", b"1", mtime=2), []),
    ],
)
def test_each_attribute(one, other, kinds):
    """Every attribute that differs is one difference; times are the layer's, not the file's."""
    assert found([one], [other]) == [("/x", kind) for kind in kinds]


def test_added_and_removed():
    """What only one side has, whiteouts among it, in the order of paths."""
    a = [Item("a"), Item(".wh.gone"), Item("both")]
    b = [Item("both"), Item("c", b"123")]
    assert found(a, b) == [("/.wh.gone", "removed"), ("/a", "removed"), ("/c", "added")]


def test_hard_links():
    """A copy in place of a hard link is told as such; equal bytes are no difference of content."""
    a = [Item("a", b"1"), Item("b", type=LINK, link="a")]
    assert found(a, [Item("a", b"1"), Item("b", b"1")]) == [("/b", "link")]
    assert found(a, [Item("a", b"1"), Item("b", b"2")]) == [("/b", "link"), ("/b", "content")]
    assert found(a, [Item("a", b"2"), Item("b", type=LINK, link="a")]) == [("/a", "content")]


def test_a_difference_says_where_and_why():
    """Layer, instruction, path, section and cause come together."""
    a, b = (tar([Item("app/x", elf({".rodata": f"{way}/src/a.c\0".encode()}))]) for way in ("/home/ann", ""))
    (one,) = trees.compare((source(4, a, name="COPY --from=build /out/x/ /"), source(5, b)), scratch)
    assert (one.layer, one.instruction, one.path) == (4, "COPY --from=build /out/x/ /", "/app/x")
    assert one.parts[0].place == (".rodata",)
    assert [cause.id for cause in one.causes] == ["source-path"]


@pytest.mark.parametrize(
    ("a", "b", "kind", "word", "cause"),
    [
        ([Item("x"), Item("y")], [Item("y"), Item("x")], Kind.ORDER, "from /x on", "entry-order"),
        ([Item("x", mtime=0)], [Item("x", mtime=60)], Kind.TIMES, "1970-01-01T00:01:00Z", "file-times"),
        ([Item("x", uname="ann")], [Item("x", uname="root")], Kind.NAMES, "/x ann: and root:", "owner"),
    ],
)
def test_what_is_of_the_whole_layer(a, b, kind, word, cause):
    """Order, times and names of owners are told once for a layer, with their first example."""
    (one,) = trees.compare((source(1, tar(a)), source(2, tar(b))), scratch)
    assert one.kind is kind
    assert word in one.detail
    assert [found.id for found in one.causes] == [cause]


def test_another_way_to_write_it():
    """Equal entries in other bytes are never silent."""
    long = Item("n" * 120)
    a, b = tar([long]), tar([long], tarfile.GNU_FORMAT)
    assert a != b
    (one,) = trees.compare((source(1, a), source(2, b)), scratch)
    assert one.kind is Kind.FORM


def test_layers_that_are_not_there():
    """A layer of one side, a layer without bytes and a base's layer are one line each."""
    details = []
    for pair in (
        (source(3, b""), None),
        (None, source(3, b"")),
        (source(1, None), source(2, b"")),
        (source(1, b"", base=True), source(2, b"", base=True)),
    ):
        (one,) = trees.compare(pair, scratch)
        assert (one.kind, one.path) == (Kind.LAYER, "")
        details.append(one.detail)
    assert details[0] == "A alone has this layer"
    assert details[1] == "B alone has this layer"
    assert details[2].endswith("its bytes are not at hand")
    assert details[3].startswith("the base image's own layer")


def test_only_so_many_files_are_looked_into(monkeypatch):
    """A layer where everything differs is not taken apart file by file; each path is told all the same."""
    monkeypatch.setattr(trees, "DEEPEST", 2)
    a, b = ([Item(f"{name}", data) for name in range(5)] for data in (b"1", b"2"))
    all_of_them = list(trees.between(span(tar(a)), span(tar(b)), scratch))
    assert [bool(one.parts) for one in all_of_them] == [True, True, False, False, False]


def test_damaged_layers_are_refused():
    """A cut layer is an error, not a list of removed files."""
    whole = tar([Item("x", b"1" * 2000)])
    with pytest.raises(BuildError):
        list(trees.between(span(whole), span(whole[:1024]), scratch))


NAMES = st.sampled_from(["a", "b", "c/d", "c/e"])
ITEMS = st.dictionaries(NAMES, st.tuples(st.binary(max_size=8), st.sampled_from([0o644, 0o755]), st.integers(0, 1)))


@settings(max_examples=80, deadline=None)
@given(ITEMS, ITEMS)
def test_nothing_is_missed_and_nothing_invented(mine, theirs):
    """The differences are exactly those of the two sets of files, and swapping the sides swaps added and removed."""
    a, b = (
        [Item(name, data, mode=mode, uid=uid) for name, (data, mode, uid) in side.items()] for side in (mine, theirs)
    )
    forth, back = found(a, b), found(b, a)
    wanted = []
    for name in sorted({*mine, *theirs}):
        if name not in theirs or name not in mine:
            wanted.append((f"/{name}", "removed" if name in mine else "added"))
            continue
        rows = zip(("content", "mode", "owner"), mine[name], theirs[name], strict=True)
        wanted += [(f"/{name}", kind) for kind, one, two in rows if one != two]
    assert sorted(forth) == sorted(wanted)
    swap = {"added": "removed", "removed": "added"}
    assert sorted(forth) == sorted((path, swap.get(kind, kind)) for path, kind in back)


def numbers(a: list[LayerSource], b: list[LayerSource]) -> list[tuple[int | None, int | None]]:
    """The pairs by number."""
    return [(one.number if one else None, two.number if two else None) for one, two in differing(a, b)]


def layer(number: int, digest: int, name: str, *, base: bool = False) -> LayerSource:
    """A layer without bytes."""
    return LayerSource(number, name, base, f"sha256:{digest:064x}", None)


def test_equal_layers_are_no_pairs():
    """Layers with one diffID need no look, wherever they are."""
    a = [layer(1, 1, "base layer 1", base=True), layer(2, 2, "COPY lib"), layer(3, 3, "COPY bin")]
    b = [layer(1, 1, "base layer 1", base=True), layer(2, 3, "COPY bin"), layer(3, 9, "COPY lib")]
    assert numbers(a, b) == [(2, 3)]


def test_the_rest_goes_by_place():
    """Layers of other instructions are compared in their order, base with base; what is over stands alone."""
    a = [layer(1, 1, "base layer 1", base=True), layer(2, 2, "COPY one"), layer(3, 3, "COPY two")]
    b = [layer(1, 8, "base layer 1", base=True), layer(2, 9, "COPY other")]
    assert numbers(a, b) == [(1, 1), (2, 2), (3, None)]
    assert numbers(b, a) == [(1, 1), (2, 2), (None, 3)]
