"""Reading what engines save, and telling what is wrong with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sistership.errors import BuildError
from sistership.image.saved import open_saved

from .samples import BASE, BIN, LIB, save
from .savefile import Save, sha, tar_of, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from sistership.image.layout import Store


def layers(path: Path, store: Store) -> list[bytes]:
    """The uncompressed layers of a save file."""
    with open_saved(path, store.scratch) as found:
        return [b"".join(found.layer(number).chunks()) for number in range(len(found.diff_ids))]


def test_legacy_form_links_equal_layers(store: Store, tmp_path: Path) -> None:
    """Engines before 25 save a repeated layer as a symlink to the first."""
    made = Save([BASE, LIB, BASE, BIN])
    assert layers(made.legacy(tmp_path / "s.tar"), store) == [BASE, LIB, BASE, BIN]


@pytest.mark.parametrize("pack", ["plain", "gzip", "zstd"])
def test_oci_form_in_any_compression(pack: str, store: Store, tmp_path: Path) -> None:
    """Several gzip members and several zstd frames are unpacked to the end."""
    assert layers(save().oci(tmp_path / "s.tar", pack), store) == [BASE, LIB, BIN]


def test_attestations_are_no_images(store: Store, tmp_path: Path) -> None:
    """An export with provenance holds one image still, with and without docker's manifest."""
    for docker in (True, False):
        path = save().oci(tmp_path / "s.tar", attested=True, docker=docker)
        assert layers(path, store) == [BASE, LIB, BIN]


@pytest.mark.parametrize("pack", ["plain", "gzip", "zstd"])
def test_a_wrong_layer_is_found(pack: str, store: Store, tmp_path: Path) -> None:
    """Each layer's bytes are compared with its diffID."""
    made = save()
    made.more = {"rootfs": {"diff_ids": [sha(BASE), sha(b"other"), sha(BIN)]}}
    with pytest.raises(BuildError, match="do not have its diffID") as error:
        layers(made.oci(tmp_path / "s.tar", pack), store)
    assert "layer 2" in str(error.value)


def test_an_incomplete_image_is_found(store: Store, tmp_path: Path) -> None:
    """The containerd store saves an image without its layers and reports success."""
    made = save()
    made.layers = []
    made.more = {"rootfs": {"diff_ids": [sha(BASE), sha(LIB)]}}
    with pytest.raises(BuildError, match="0 of its 2 layers"):
        layers(made.oci(tmp_path / "s.tar"), store)


@pytest.mark.parametrize("cut", [1, 700, 1024, 5000])
def test_a_cut_file_is_found(cut: int, store: Store, tmp_path: Path) -> None:
    """Whatever is missing at the end, it is no image."""
    path = save().legacy(tmp_path / "s.tar")
    data = path.read_bytes().rstrip(b"\0") + bytes(1024)
    path.write_bytes(data[: -1024 - cut])
    with pytest.raises(BuildError, match="damaged tar"):
        layers(path, store)


def test_an_error_inside_the_stream_is_shown(store: Store, tmp_path: Path) -> None:
    """An engine that fails while saving writes its message into the tar."""
    path = tmp_path / "s.tar"
    message = b'{"message":"write /var/lib/docker/tmp: no space left on device"}'
    path.write_bytes(tar_of([])[:0] + message.ljust(600, b"\n"))
    with pytest.raises(BuildError, match="damaged tar"):
        layers(path, store)
    path.write_bytes(message.ljust(600, b"\0"))
    with pytest.raises(BuildError, match="no space left on device"):
        layers(path, store)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no image"),
        ({"manifest.json": b"[]"}, "holds no image"),
        ({"manifest.json": b"{"}, "is no JSON"),
        ({"manifest.json": b"[{}]"}, "metadata lacks"),
        ({"manifest.json": b"[1]"}, "metadata lacks"),
        ({"index.json": b'{"manifests":[{}]}'}, "metadata lacks"),
    ],
)
def test_a_tar_that_is_no_image(files: dict[str, bytes], said: str, store: Store, tmp_path: Path) -> None:
    """Another tar, or half the metadata, gives a sentence and no traceback."""
    with pytest.raises(BuildError, match=said):
        layers(write_files(tmp_path / "s.tar", files), store)


def test_several_images_are_refused(store: Store, tmp_path: Path) -> None:
    """Which one was meant cannot be known."""
    one, two = save(), save()
    two.architecture = "arm64"
    names = {"one.json": one.config, "two.json": two.config}
    listed = [{"Config": name, "Layers": ["l", "l", "l"]} for name in names]
    path = write_files(tmp_path / "s.tar", {**names, "l": BASE, "manifest.json": json.dumps(listed).encode()})
    with pytest.raises(BuildError, match="2 images"):
        layers(path, store)


def test_a_config_that_is_not_what_its_name_says(store: Store, tmp_path: Path) -> None:
    """The digest in a name is checked."""
    name = "0" * 64 + ".json"
    listed = json.dumps([{"Config": name, "Layers": []}]).encode()
    with pytest.raises(BuildError, match="does not have the digest"):
        layers(write_files(tmp_path / "s.tar", {name: save().config, "manifest.json": listed}), store)
