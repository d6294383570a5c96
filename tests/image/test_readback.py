"""What is in the store after a build is refused unless it is in canonical form."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sistership.errors import BuildError
from sistership.image.contents import file_hashes
from sistership.image.documents import canonical_json, config_document, image_of
from sistership.image.pack import layer_of, pack
from sistership.image.readback import read_back
from sistership.image.tarstream import Kind
from sistership.image.tarwrite import END, layer_header, padding

from .samples import BASE, CREATED, image, save
from .savefile import Item, directory, hardlink, sha, symlink, tar_of, whiteout

if TYPE_CHECKING:
    from pathlib import Path

    from sistership.image.identity import Image
    from sistership.image.layout import Store

APP = layer_header(b"app/", Kind.DIRECTORY, mode=0o755)


def file(name: bytes, data: bytes = b"", **more: Any) -> bytes:
    """A file as the canonical form has it."""
    return layer_header(name, Kind.FILE, mode=0o644, size=len(data), **more) + data + padding(len(data))


def patched(header: bytes, at: int, value: bytes) -> bytes:
    """A one-block header with other bytes in one place and the right checksum."""
    block = bytearray(header)
    block[at : at + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def stored(store: Store, *own: bytes, base: tuple[bytes, ...] = (), **config: Any) -> Image:
    """An image of these layers, every document as it should be but for `config`."""
    tars = [*base, *own]
    layers = [
        layer_of(
            pack(store, sha(tar), len(tar), lambda tar=tar: iter([tar])),  # type: ignore[misc]
            base=number < len(base),
            created_by=f"base layer {number + 1}" if number < len(base) else f"COPY {number}",
        )
        for number, tar in enumerate(tars)
    ]
    document = config_document(
        {"architecture": "amd64", "os": "linux", "config": {}},
        created=CREATED,
        labels={},
        base_layers=len(base),
        own=[(layer.created_by, True) for layer in layers if not layer.base],
        diff_ids=[layer.diff_id for layer in layers],
    )
    text = canonical_json(json.loads(document) | config)
    made, *manifests = image_of(text, layers)
    for data in (text, *manifests):
        store.add(data)
    return made


def line(data: bytes, path: bytes) -> bytes:
    """A line of `sha256sum`."""
    return hashlib.sha256(data).hexdigest().encode() + b"  " + path + b"\n"


def listed(*lines: bytes) -> bytes:
    """The canonical entries of a list of hashes."""
    share = b"".join(
        layer_header(name, Kind.DIRECTORY, mode=0o755) for name in (b"app/share/", b"app/share/sistership/")
    )
    return share + file(b"app/share/sistership/30-bin.sha256", b"".join(lines))


def test_what_canonicalise_made_is_accepted(store: Store, tmp_path: Path) -> None:
    """Links, deletions, long names and capabilities included; the hashes are those that the lock gets."""
    made = save()
    made.layers[1] = tar_of(
        [
            whiteout(b"etc/os-release"),
            directory(b"opt", 0o2711, uid=7, gid=3_000_000),
            Item(b"opt/z", data=b"x" * 600, mode=0o4755, xattrs=(("security.capability", "cap"),)),
            hardlink(b"opt/a", b"opt/z"),
            symlink(b"opt/up", b"../../up"),
            Item(b"opt/" + b"n" * 255, data=b"long"),
            Item(b"opt/\xff\xfe"),
        ]
    )
    found = image(store, tmp_path, made)
    assert read_back(found, store) == file_hashes(found, store)
    assert read_back(found, store)["/opt/a"] == hashlib.sha256(b"x" * 600).hexdigest()


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (file(b"b") + file(b"a") + END, "/a comes after /b"),
        (file(b"a") + file(b"a") + END, "/a comes after /a"),
        (file(b"app/x") + END, "/app/x comes without the directory it is in"),
        (patched(file(b"a"), 136, b"00000000001\0") + END, "another time than the one constant"),
        (patched(file(b"a"), 265, b"root") + END, "/a names its owners"),
        (patched(file(b"a"), 297, b"staff") + END, "/a names its owners"),
        (patched(file(b"a"), 100, b"0100644\0") + END, "header of /a is written another way"),
        (patched(file(b"a"), 108, b"     0 \0") + END, "header of /a is written another way"),
        (patched(APP, 0, b"app\0") + END, "header of /app is written another way"),
        (file(b".wh.a") + END, r"header of /\.wh\.a is written another way"),
        (file(b".wh..wh..opq") + END, "no deletion of one name"),
        (layer_header(b"null", Kind.CHARACTER, device=(1, 3)) + END, "is a device or a pipe"),
        (layer_header(b"b", Kind.HARDLINK, link=b"a") + END, "hard link to /a, which is no file before it"),
        (file(b"a", b"x")[:-1] + b"!" + END, "not filled up with zeros"),
        (file(b"a") + END[:512], "not the end of a tar"),
        (file(b"a") + END + END, "not the end of a tar"),
        (END, "it is empty"),
        (file(b"a", b"x" * 2000)[:1024], "cut"),
    ],
)
def test_every_other_form_is_refused(layer: bytes, said: str, store: Store) -> None:
    """Order, time, owners, ancestors, headers, kinds, links and the end: each fault is told with its layer."""
    with pytest.raises(BuildError, match=said) as error:
        read_back(stored(store, APP + file(b"app/fine") + END, layer), store)
    assert error.value.where == "layer 2 (COPY 1)"
    assert error.value.hint


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (file(b"app/x", b"1"), file(b"app/x", b"2")),
        (file(b"app/x"), layer_header(b"app/.wh.x", Kind.FILE)),
        (layer_header(b"app/.wh.x", Kind.FILE), file(b"app/x")),
        (file(b"app/x"), layer_header(b"app/x/", Kind.DIRECTORY, mode=0o755)),
    ],
)
def test_a_path_in_two_own_layers_is_refused(first: bytes, second: bytes, store: Store) -> None:
    """Only directories may be in several."""
    with pytest.raises(BuildError, match="/app/x is in layer 1 too"):
        read_back(stored(store, APP + first + END, APP + second + END), store)


def test_base_layers_may_have_any_form(store: Store) -> None:
    """They are as they were pulled."""
    found = stored(store, APP + file(b"app/x", b"1") + END, base=(tar_of([Item(b"z"), Item(b"a"), Item(b"app/x")]),))
    assert list(read_back(found, store)) == ["/app/x"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"history": []}, "damaged"),
        ({"history": [{"created": CREATED, "created_by": "COPY 7"}]}, "do not describe the same layers"),
        ({"history": [{"created": "2031-01-01T00:00:00Z", "created_by": "COPY 0"}]}, "more than one date"),
        ({"rootfs": {"diff_ids": ["sha256:" + "0" * 64]}}, "do not describe the same layers"),
        ({"created": None}, "more than one date"),
    ],
)
def test_config_and_history_agree_with_the_layers(config: dict[str, Any], said: str, store: Store) -> None:
    """A config that says something else of the layers is no canonical image."""
    with pytest.raises(BuildError, match=said):
        read_back(stored(store, APP + END, **config), store)


def test_documents_have_one_spelling(store: Store) -> None:
    """The same values with another spacing, in config or manifest, have another digest on every engine."""
    found = stored(store, APP + END)
    for name, said in (("config", "config is not in the one spelling"), ("manifest", "manifests are not")):
        text = json.dumps(json.loads(store.read(getattr(found, name)))).encode()
        with pytest.raises(BuildError, match=said):
            read_back(replace(found, **{name: store.add(text)}), store)


def test_another_layer_under_the_blob_is_found(store: Store) -> None:
    """The diffID is computed again from what is there."""
    found, other = (stored(store, APP + file(b"app/x", data) + END) for data in (b"1", b"2"))
    store.path(found.layers[0].digest).write_bytes(store.path(other.layers[0].digest).read_bytes())
    with pytest.raises(BuildError, match="its bytes have diffID"):
        read_back(found, store)


def test_lists_of_the_build_stage_agree(store: Store) -> None:
    """Every listed file is there with its hash, a hard link under both its names, in whichever layer."""
    link = layer_header(b"app/y", Kind.HARDLINK, mode=0o644, link=b"app/x")
    lists = listed(line(b"1", b"/app/x"), line(b"1", b"/app/y"), line(b"2", b"/app/two words"))
    found = stored(store, APP + file(b"app/two words", b"2") + END, APP + lists + file(b"app/x", b"1") + link + END)
    assert set(read_back(found, store)) == {"/app/x", "/app/two words", "/app/share/sistership/30-bin.sha256"}


@pytest.mark.parametrize("there", [file(b"app/x", b"old"), b""])
def test_a_lost_file_is_found(there: bytes, store: Store) -> None:
    """The containerd store loses a second write of equal size and time: the list knows what should be there."""
    made = stored(store, APP + listed(line(b"new", b"/app/x")) + there + END)
    with pytest.raises(BuildError, match="/app/x is not the file that the build stage made") as error:
        read_back(made, store)
    assert error.value.where == "/app/share/sistership/30-bin.sha256"
    assert hashlib.sha256(b"new").hexdigest()[:12] in str(error.value)


def test_what_the_base_holds_already_counts(store: Store) -> None:
    """An equal file of the base is in no own layer; one that differs was lost."""
    base = (tar_of([directory(b"app"), Item(b"app/x", data=b"old")]),)
    own = [APP + listed(line(data, b"/app/x")) + END for data in (b"old", b"new")]
    assert read_back(stored(store, own[0], base=base), store)
    with pytest.raises(BuildError, match="not the file"):
        read_back(stored(store, own[1], base=base), store)


@pytest.mark.parametrize("text", [b"no hash\n", b"\\" + b"0" * 64 + b"  /a\\nb\n", b"0" * 64 + b"  relative\n"])
def test_a_list_that_cannot_be_read_is_refused(text: bytes, store: Store) -> None:
    """A line that is skipped would be a file that is not compared."""
    with pytest.raises(BuildError, match="list of hashes cannot be read"):
        read_back(stored(store, APP + listed(text) + END), store)


def test_the_base_of_the_samples_is_no_canonical_layer(store: Store) -> None:
    """A builder's own layer, taken as it is, does not pass."""
    with pytest.raises(BuildError, match="not in canonical form"):
        read_back(stored(store, BASE), store)
