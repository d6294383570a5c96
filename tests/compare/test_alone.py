"""Layers that one image alone has, and images whose bytes are not at hand."""

from __future__ import annotations

import hashlib
import tarfile
from contextlib import contextmanager

from sistership.compare import Kind, hashed, trees
from sistership.compare.layers import LayerSource
from sistership.image.spans import Span

from .made import Item, elf, scratch, tar


def layer(number: int, *items: Item, base: bool = False) -> LayerSource:
    """A layer whose tar is at hand."""
    data = tar(list(items))

    @contextmanager
    def opened():
        with scratch() as file:
            file.write(data)
            file.flush()
            yield Span.whole(file)

    return LayerSource(number, f"step {number}", base, f"sha256:{hashlib.sha256(data).hexdigest()}", opened)


def test_each_file_against_the_one_below() -> None:
    """The topmost version of the other image counts, down to the section; equal files and directories are not named."""
    others = [
        layer(1, Item("app/lib.so", b"base"), base=True),
        layer(2, Item("app/lib.so", elf({".rodata": b"old"})), Item("app/same", b"s")),
        layer(3, Item("app/lib.so", elf({".rodata": b"text one"}))),
    ]
    top = layer(
        4,
        Item("app", type=tarfile.DIRTYPE),
        Item("app/lib.so", elf({".rodata": b"text two"})),
        Item("app/same", b"s"),
        Item("new", b"n"),
    )
    found = list(trees.alone(top, others, scratch, in_a=False))
    assert [(one.path, one.kind) for one in found] == [("/app/lib.so", Kind.CONTENT), ("/new", Kind.ADDED)]
    assert found[0].parts[0].place == (".rodata",)
    assert found[0].parts[0].only == (("text one",), ("text two",))
    assert {(one.layer, one.instruction) for one in found} == {(4, "step 4")}
    turned = list(trees.alone(top, others, scratch, in_a=True))
    assert [one.kind for one in turned] == [Kind.CONTENT, Kind.REMOVED]


def test_base_layers_are_not_looked_into() -> None:
    """A layer of a base is told by its digest; a file that only a base has counts as not there."""
    base = layer(1, Item("etc/x", b"1"), base=True)
    assert list(trees.alone(base, [], scratch, in_a=True)) == []
    (found,) = trees.alone(layer(2, Item("etc/x", b"2")), [base], scratch, in_a=False)
    assert found.kind is Kind.ADDED


def test_files_by_the_hashes_of_the_lock() -> None:
    """Changed, new and missing files of the layers that are no base; a file that a later layer deletes is missing."""
    base = layer(1, Item("etc/x", b"1"))
    own = layer(2, Item("app/same", b"s"), Item("app/other", b"o"), Item("app/gone", b"g"), Item("app/new", b"n"))
    top = layer(3, Item("app/.wh.gone", b""))
    recorded = {f"/app/{name}": hashlib.sha256(data).hexdigest()
                for name, data in {"same": b"s", "other": b"x", "gone": b"g"}.items()}  # fmt: skip
    found = list(hashed.files(recorded, [base, own, top], {base.diff_id}, recorded_in_a=True))
    assert [(one.path, one.kind.value) for one in found] == [
        ("/app/gone", "removed"),
        ("/app/new", "added"),
        ("/app/other", "content"),
    ]
    turned = list(hashed.files(recorded, [base, own, top], {base.diff_id}, recorded_in_a=False))
    assert [one.kind.value for one in turned] == ["added", "removed", "content"]
