"""From an export to the canonical image."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sistership.errors import BuildError
from sistership.image.archive import Blob, open_blob
from sistership.image.canonical import canonicalise
from sistership.image.contents import file_hashes
from sistership.image.documents import platform_of
from sistership.image.layout import Store
from sistership.image.readback import read_back

from .samples import BASE, BIN, CREATED, INSTRUCTIONS, LIB, image, save
from .savefile import Item, Save, directory, sha, tar_of, whiteout
from .trees import STYLES, Style, Tree, express, pairs, whole

if TYPE_CHECKING:
    from pathlib import Path


#: A layer that no random tree touches.
BIN_APART = tar_of([directory(b"apart"), Item(b"apart/app", data=b"#!", mode=0o755)])


def config_of(store: Store, digest: str) -> dict[str, Any]:
    """The config as JSON."""
    return json.loads(store.read(digest))  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", ["oci plain", "oci gzip", "oci zstd", "attested", "no docker manifest"])
def test_every_form_of_export_gives_one_image(form: str, store: Store, tmp_path: Path) -> None:
    """Legacy, OCI, compressed and attested exports of one image give one Image, manifests included."""
    made, path = save(), tmp_path / "oci.tar"
    match form.split():
        case ["oci", pack]:
            made.oci(path, pack)
        case ["attested"]:
            made.oci(path, "gzip", attested=True)
        case _:
            made.oci(path, attested=True, docker=False)
    found = canonicalise(path, instructions=INSTRUCTIONS, created=CREATED, labels={"a": "recipe"}, store=store)
    assert found == image(Store(tmp_path / "other"), tmp_path)


def test_progress_ends_with_all_layers(store: Store, tmp_path: Path) -> None:
    """Bytes as they were saved, never fewer than before, and all of them at the end; also when no blob is new."""
    path = tmp_path / "oci.tar"
    save().oci(path, "gzip")
    told: list[tuple[int, int]] = []
    for _ in range(2):
        told.clear()
        canonicalise(
            path, instructions=INSTRUCTIONS, created=CREATED, store=store, tell=lambda *done: told.append(done)
        )
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1] > 0


def test_builders_metadata_does_not_count(store: Store, tmp_path: Path) -> None:
    """Time, history, container, version and empty fields of the builder's config are not in the canonical one."""
    made = save()
    made.more = {"created": "1999-01-01T00:00:00Z", "docker_version": "28.5.2", "history": None, "author": "someone"}
    made.runtime |= {"OnBuild": None, "Image": "sha256:1", "Domainname": "", "Cmd": None, "Hostname": "f00d"}
    assert image(store, tmp_path, made) == image(store, tmp_path, save())


def test_config_and_history_come_from_the_recipe(store: Store, tmp_path: Path) -> None:
    """Created, history and labels are the recipe's; what a container inherits is kept."""
    made = save()
    made.runtime |= {"User": "1000:1000", "Entrypoint": ["/x"], "ExposedPorts": {"50052/tcp": {}}, "WorkingDir": "/w"}
    found = image(store, tmp_path, made)
    assert config_of(store, found.config) == {
        "architecture": "amd64",
        "os": "linux",
        "created": CREATED,
        "config": {
            "Env": ["PATH=/bin"],
            "Labels": {"a": "recipe", "b": "base"},
            "User": "1000:1000",
            "Entrypoint": ["/x"],
            "ExposedPorts": {"50052/tcp": {}},
            "WorkingDir": "/w",
        },
        "rootfs": {"type": "layers", "diff_ids": list(found.diff_ids)},
        "history": [
            {"created": CREATED, "created_by": "base layer 1"},
            {"created": CREATED, "created_by": INSTRUCTIONS[0]},
            {"created": CREATED, "created_by": INSTRUCTIONS[1]},
        ],
    }


def test_the_date_changes_no_layer(store: Store, tmp_path: Path) -> None:
    """Another commit date gives another config, and the same layers: nothing is sent again."""
    one = image(store, tmp_path)
    path = save().legacy(tmp_path / "s.tar")
    two = canonicalise(path, instructions=INSTRUCTIONS, created="2027-01-01T00:00:00Z", labels={}, store=store)
    assert one.config != two.config
    assert one.layers == two.layers


def test_base_layers_stay_as_they_are(store: Store, tmp_path: Path) -> None:
    """A base layer keeps its diffID, whatever is odd in it: hosts may have it already."""
    odd = tar_of([Item(b"z", mtime=77), Item(b"a"), whiteout(b"nothing"), Item(b"a", data=b"twice")])
    found = image(store, tmp_path, Save([odd, LIB, BIN]))
    assert found.layers[0].diff_id == sha(odd)
    assert [layer.base for layer in found.layers] == [True, False, False]


def test_a_layer_without_change_goes(store: Store, tmp_path: Path) -> None:
    """It leaves its line in the history, marked empty, and no layer."""
    found = image(store, tmp_path, Save([BASE, LIB, LIB]))
    assert [layer.created_by for layer in found.layers] == ["base layer 1", INSTRUCTIONS[0]]
    assert config_of(store, found.config)["history"][2]["empty_layer"] is True


def test_the_image_is_complete_in_the_store(store: Store, tmp_path: Path) -> None:
    """After canonicalise every blob of the image is there and sound."""
    assert store.image_complete(image(store, tmp_path), deep=True) == []


def test_a_known_layer_is_not_packed_again(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second image with the same layers reuses their blobs, so its manifest stays the same."""
    first = image(store, tmp_path)

    def never(size: int) -> None:
        pytest.fail(f"packed {size} bytes again")

    monkeypatch.setattr("sistership.image.pack.packer", never)
    assert image(store, tmp_path) == first


def test_a_damaged_blob_is_packed_again(store: Store, tmp_path: Path) -> None:
    """A known blob is reused only when its bytes still have its digest."""
    found = image(store, tmp_path)
    path = store.path(found.layers[1].digest)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert store.image_complete(found, deep=True) == [found.layers[1].digest]
    assert image(store, tmp_path) == found
    assert store.image_complete(found, deep=True) == []


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("pack", ["plain", "gzip"])
@pytest.mark.parametrize("part", ["content", "header"])
def test_nothing_of_a_damaged_layer_is_kept(
    number: int, again: bool, pack: str, part: str, store: Store, tmp_path: Path
) -> None:
    """Base or own, new or known to the store, a tar still or none: its layer is named, and nothing of it is kept."""
    if again:
        image(store, tmp_path)

    def kept() -> tuple[int, int]:
        return len(store.blobs()), len(list((store.root / "layers").iterdir()))

    before, made = kept(), save()
    made.more = {"rootfs": {"type": "layers", "diff_ids": [sha(layer) for layer in made.layers]}}
    content = ((b"ID=x", b"ID=y"), (b"ELF", b"ELG"), (b"#!", b"#?"))[number]
    good, bad = content if part == "content" else (b"ustar", b"vstar")
    made.layers[number] = made.layers[number].replace(good, bad, 1)
    with pytest.raises(BuildError, match=f"layer {number + 1}.*do not have its diffID"):
        canonicalise(made.oci(tmp_path / "bad.tar", pack), instructions=INSTRUCTIONS, created=CREATED, store=store)
    assert kept() == tuple(count + (0 if again else number) for count in before)
    assert not any((store.root / "drafts").iterdir())


@pytest.mark.parametrize(
    ("layers", "path"),
    [
        ([[Item(b"f", data=b"1")], [Item(b"f", data=b"2")]], "/f"),
        ([[Item(b"f")], [whiteout(b"f")]], "/f"),
        ([[whiteout(b"old")], [Item(b"old", data=b"2")]], "/old"),
        ([[directory(b"d"), Item(b"d/f")], [whiteout(b"d")]], "/d"),
        ([[directory(b"etc"), Item(b"etc/f")], [Item(b"etc")]], "/etc"),
        ([[Item(b"f")], [directory(b"f")]], "/f"),
    ],
)
def test_refuses_a_path_in_two_own_layers(layers: list[list[Item]], path: str, store: Store, tmp_path: Path) -> None:
    """The containerd store may lose the second write, so there is none."""
    base = tar_of([Item(b"old"), directory(b"etc")])
    made = Save([base, *map(tar_of, layers)])
    with pytest.raises(BuildError, match=f"^{INSTRUCTIONS[1]}: {path}[ /]"):
        image(store, tmp_path, made)


def test_directories_may_be_in_several_layers(store: Store, tmp_path: Path) -> None:
    """Two layers may both change the attributes of one directory."""
    made = Save([BASE, tar_of([directory(b"opt", 0o700)]), tar_of([directory(b"opt", 0o711)])])
    assert len(image(store, tmp_path, made).layers) == 3


def test_refuses_onbuild(store: Store, tmp_path: Path) -> None:
    """A trigger acts in other builds."""
    with pytest.raises(BuildError, match="ONBUILD"):
        image(store, tmp_path, Save([BASE, LIB, BIN], {"OnBuild": ["RUN true"]}))


@pytest.mark.parametrize(
    ("made_by", "fits"),
    [
        (["/bin/sh -c #(nop) ADD file:1 in /", "COPY /out/lib /opt/lib # buildkit", "COPY /out/bin /opt/bin"], True),
        (["/bin/sh -c #(nop) ADD file:1 in /", "RUN /bin/sh -c apt-get update", "COPY /out/lib /opt/lib"], False),
        (["COPY /out/lib /opt/lib # buildkit", "COPY /out/bin /opt/bin"], True),
    ],
)
def test_layers_are_those_of_the_instructions(made_by: list[str], fits: bool, store: Store, tmp_path: Path) -> None:
    """A builder that left a layer out would make one of the base an own one; a history cut short says nothing."""
    made = save()
    made.more = {"history": [{"created_by": line} for line in made_by] + [{"created_by": "ENV A", "empty_layer": True}]}
    if fits:
        assert image(store, tmp_path, made) == image(store, tmp_path)
    else:
        with pytest.raises(BuildError, match="apt-get update"):
            image(store, tmp_path, made)


@settings(max_examples=20, deadline=None)
@given(pairs(), STYLES, STYLES, st.sampled_from(["plain", "gzip", "zstd"]))
def test_one_image_from_every_builder(
    tmp_path_factory: pytest.TempPathFactory, pair: tuple[Tree, Tree], one: Style, other: Style, pack: str
) -> None:
    """Two builders, two forms of export: one config digest, accepted when read back, and canonical once more."""
    folder = tmp_path_factory.mktemp("images")
    store = Store(folder / "store")
    lower, upper = pair
    first = image(store, folder, Save([whole(lower), express(lower, upper, one), BIN_APART]))
    made = Save([whole(lower), express(lower, upper, other), BIN_APART], architecture="amd64")
    again = canonicalise(
        made.oci(folder / "oci.tar", pack),
        instructions=INSTRUCTIONS,
        created=CREATED,
        labels={"a": "recipe"},
        store=store,
    )
    assert again == first
    assert read_back(first, store) == file_hashes(first, store)
    layers = [b"".join(open_blob(store, Blob(layer, plain=True))) for layer in first.layers]
    own = [layer.created_by for layer in first.layers if not layer.base]
    path = Save(layers, config_of(store, first.config)["config"]).legacy(folder / "again.tar")
    once_more = canonicalise(path, instructions=own, created=CREATED, labels={}, store=store)
    assert once_more.layers == first.layers


def test_refuses_fewer_layers_than_instructions(store: Store, tmp_path: Path) -> None:
    """A squashed image has no layer for each instruction."""
    with pytest.raises(BuildError, match="1 layers for 2 instructions"):
        image(store, tmp_path, Save([BASE]))


def test_an_image_from_scratch_has_no_base(store: Store, tmp_path: Path) -> None:
    """All layers may be own ones."""
    assert not any(layer.base for layer in image(store, tmp_path, Save([LIB, BIN])).layers)


def test_platform_names_the_variant() -> None:
    """arm needs its variant, arm64 has only one and is written without."""
    assert platform_of({"os": "linux", "architecture": "arm64", "variant": "v8"}) == "linux/arm64"
    assert platform_of({"os": "linux", "architecture": "arm", "variant": "v7"}) == "linux/arm/v7"
    assert platform_of({"os": "linux", "architecture": "amd64"}) == "linux/amd64"


def test_memory_does_not_grow_with_the_image(tmp_path: Path) -> None:
    """An image of 200 MB is made canonical with less than that, in a process of its own."""
    code = f"""
        import sys
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from sistership.image.canonical import canonicalise
        from sistership.image.layout import Store
        canonicalise(Path(sys.argv[1]), instructions=["COPY big /"], created="x", store=Store(Path(sys.argv[2])))
        print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    """
    big = Save([BASE, tar_of([Item(b"big", data=bytes(200 << 20))])]).oci(tmp_path / "big.tar")
    argv = [sys.executable, "-c", textwrap.dedent(code), str(big), str(tmp_path / "s")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 170 << 10
