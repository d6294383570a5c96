"""An image comes back from what a host saved of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sistership.errors import BuildError, IdentityError
from sistership.image import archive, compression
from sistership.image.compression import unpack_zstd
from sistership.image.layout import Store
from sistership.image.recover import restore

from .samples import image, save
from .savefile import Save, write_files

if TYPE_CHECKING:
    from pathlib import Path

    from sistership.image.identity import Image


class Canonical(Save):
    """A save of the canonical image itself, with its config byte for byte."""

    raw = b""

    @property
    def config(self) -> bytes:
        """The canonical config."""
        return self.raw


def saved(made: Image, store: Store) -> Canonical:
    """What an engine that holds the image saves."""
    layers = []
    for layer in made.layers:
        with store.path(layer.digest).open("rb") as blob:
            layers.append(b"".join(unpack_zstd(blob, "")))
    again = Canonical(layers)
    again.raw = store.read(made.config)
    return again


@pytest.mark.parametrize("form", ["legacy", "oci", "gzip"])
def test_comes_back_from_any_engine(form: str, store: Store, tmp_path: Path) -> None:
    """The same zstd library makes the same blobs, so the whole record is equal."""
    made = image(store, tmp_path)
    again = saved(made, store)
    path = tmp_path / "back.tar"
    if form == "legacy":
        again.legacy(path)
    else:
        again.oci(path, "plain" if form == "oci" else form)
    other = Store(tmp_path / "other")
    assert restore(path, made, other) == made
    assert other.image_complete(made, deep=True) == []


def test_blobs_an_engine_kept_are_taken_as_they_are(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The containerd store saves the very blobs that were shipped: the manifest stays the same with any library."""
    made = image(store, tmp_path)
    path = tmp_path / "back.tar"
    with path.open("wb") as out:
        archive.write(archive.pieces(made, store, name="a.local/x:1", plain=False), store, out)
    monkeypatch.setattr(compression, "LEVEL", 1)
    assert restore(path, made, Store(tmp_path / "other")) == made


def test_another_library_changes_manifest_and_blobs_alone(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Config, diffIDs and plain manifest are what was expected, and the store is complete."""
    made = image(store, tmp_path)
    path = saved(made, store).legacy(tmp_path / "back.tar")
    monkeypatch.setattr(compression, "LEVEL", -5)
    other = Store(tmp_path / "other")
    found = restore(path, made, other)
    assert (found.config, found.diff_ids, found.manifest_plain) == (made.config, made.diff_ids, made.manifest_plain)
    assert found.manifest != made.manifest
    assert other.image_complete(found, deep=True) == []


def test_another_image_is_refused(store: Store, tmp_path: Path) -> None:
    """Identity is the config digest, not the name."""
    made = image(store, tmp_path)
    path = save().legacy(tmp_path / "raw.tar")
    with pytest.raises(IdentityError, match="another one"):
        restore(path, made, store)


def test_a_record_with_other_layers_is_refused(store: Store, tmp_path: Path) -> None:
    """A damaged record does not make an image with fewer layers than its config names."""
    made = image(store, tmp_path)
    path = saved(made, store).legacy(tmp_path / "back.tar")
    with pytest.raises(IdentityError):
        restore(path, replace(made, layers=made.layers[:2]), store)


def test_a_damaged_layer_is_refused(store: Store, tmp_path: Path) -> None:
    """The right config does not vouch for the layers."""
    made = image(store, tmp_path)
    again = saved(made, store)
    again.layers[1] = again.layers[1].replace(b"\x7fELF", b"\x7fELG", 1)
    with pytest.raises(BuildError, match="diffID"):
        restore(again.oci(tmp_path / "back.tar"), made, Store(tmp_path / "other"))


def test_a_file_without_an_image_is_refused(store: Store, tmp_path: Path) -> None:
    """A save of nothing restores nothing."""
    made = image(store, tmp_path)
    with pytest.raises(BuildError, match="no image"):
        restore(write_files(tmp_path / "x.tar", {}), made, store)
