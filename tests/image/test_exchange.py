"""Exports: written, read back, and refused when anything in them is not as it was."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from sistership.errors import IdentityError, SistershipError
from sistership.image import exchange
from sistership.image.canonical import canonicalise
from sistership.image.contents import file_hashes
from sistership.image.exported import Exported, parse
from sistership.image.imports import opened
from sistership.image.layout import Store

from .samples import CREATED, INSTRUCTIONS, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "ab" * 32
LABELS = {
    "org.opencontainers.image.created": CREATED,
    "org.opencontainers.image.title": "llamacpp-rpc",
    "org.opencontainers.image.version": "v1",
    "dev.sistership.archs": "89;120",
    "dev.sistership.recipe": KEY,
    "dev.sistership.variant": "alpha",
}
NAMES = {"variant": "alpha", "image": "llamacpp-rpc", "tag": "v1", "created": CREATED, "archs": ["89", "120"]}


@pytest.fixture
def exported(store: Store, tmp_path: Path) -> Exported:
    """A built image as the lock records it; its blobs are in the store."""
    path = save().legacy(tmp_path / "save.tar")
    made = canonicalise(path, instructions=INSTRUCTIONS, created=CREATED, labels=LABELS, store=store)
    record = {**made.to_json(), **NAMES, "files": file_hashes(made, store)}
    return Exported(KEY, record, {"commit": "c" * 40})


@pytest.fixture
def file(exported: Exported, store: Store, tmp_path: Path) -> Path:
    """Its export."""
    return exchange.write(exported, store, tmp_path / "out" / "alpha.tar").path


def members(path: Path) -> dict[str, bytes]:
    """Name → bytes, in order."""
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def rewrite(path: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """The same file with other members."""
    found = members(path)
    change(found)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in found.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    exchange.sidecar(path).unlink(missing_ok=True)
    return path


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The same file with another identity."""

    def edit(found: dict[str, bytes]) -> None:
        document = json.loads(found["sistership.json"])
        change(document)
        found["sistership.json"] = json.dumps(document).encode()

    return rewrite(path, edit)


def take(path: Path, store: Store) -> Exported:
    """Import the file into a store."""
    with opened(path) as found:
        found.check()
        found.take(store)
        return found.exported


def blobs(store: Store) -> set[str]:
    """Everything that a store holds."""
    return {path.name for path in (store.root / "blobs" / "sha256").iterdir()}


def test_round_trip(exported: Exported, file: Path, store: Store, tmp_path: Path) -> None:
    """An empty store becomes whole, lists the image, and exports the same bytes again."""
    other = Store(tmp_path / "other")
    assert take(file, other) == exported
    assert other.image_complete(exported.image, deep=True) == []
    assert other.get(KEY) == exported.image
    assert blobs(other) == blobs(store)
    again = exchange.write(exported, other, tmp_path / "again.tar")
    assert again.path.read_bytes() == file.read_bytes()


def test_importing_twice_changes_nothing(file: Path, tmp_path: Path) -> None:
    """What the store has is not written again."""
    other = Store(tmp_path / "other")
    take(file, other)
    before = {path: path.stat().st_ino for path in (other.root / "blobs" / "sha256").iterdir()}
    take(file, other)
    assert {path: path.stat().st_ino for path in (other.root / "blobs" / "sha256").iterdir()} == before


def test_is_an_archive_that_engines_load(exported: Exported, file: Path) -> None:
    """Beside the identity it is exactly the archive: blobs first, names last, one unique name."""
    names = list(members(file))
    assert names[-4:] == ["sistership.json", "oci-layout", "index.json", "manifest.json"]
    assert all(name.startswith("blobs/sha256/") for name in names[:-4])
    (docker,) = json.loads(members(file)["manifest.json"])
    assert docker["RepoTags"] == [exported.release.unique]


def test_sum_beside_it(file: Path) -> None:
    """`sha256sum -c` accepts the file beside it, and so does import."""
    beside = exchange.sidecar(file)
    assert subprocess.run(["sha256sum", "-c", beside.name], cwd=file.parent, check=False).returncode == 0
    assert exchange.check_sum(file) == hashlib.sha256(file.read_bytes()).hexdigest()
    assert exchange.check_sum(file, beside.read_text()[:64].upper())


@pytest.mark.parametrize("source", ["beside", "flag"])
def test_wrong_sum_is_refused(file: Path, source: str) -> None:
    """The sum of another file is told, whichever way it came."""
    if source == "beside":
        exchange.sidecar(file).write_text("0" * 64 + "  alpha.tar\n")
    with pytest.raises(SistershipError, match="damaged") as raised:
        exchange.check_sum(file, "1" * 64 if source == "flag" else None)
    assert ("--sha256" if source == "flag" else "alpha.tar.sha256") in str(raised.value)


def test_every_flipped_byte_is_noticed(file: Path, tmp_path: Path) -> None:
    """A changed byte anywhere in a blob or in the identity is refused, and the store lists nothing of it."""
    data = file.read_bytes()
    exchange.sidecar(file).unlink()
    end = data.index(b'"resolved"')  # what follows is proven by the recipe key, or has no meaning here
    for at in range(200, end, max(1, end // 60)):
        changed = bytearray(data)
        changed[at] ^= 1
        file.write_bytes(changed)
        other = Store(tmp_path / f"other{at}")
        try:
            found = take(file, other)
        except SistershipError:
            assert other.records() == ()
        else:
            assert not any(data[at : at + 1]), f"byte {at} of {found.key} went unnoticed"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_cut_file_is_refused(file: Path, share: float) -> None:
    """A download that stopped is told as such."""
    data = file.read_bytes()
    file.write_bytes(data[: int((len(data) - 1024) * share)])
    with pytest.raises(SistershipError, match=r"damaged|no export") as raised, opened(file):
        pass
    assert "copy or download it again" in str(raised.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["record"].update(variant="beta"), "variant beta"),
        (lambda d: d["record"].update(tag="v2"), "tag v2"),
        (lambda d: d.update(recipe="cd" * 32), "recipe"),
        (lambda d: d["record"].update(archs=["89"]), "archs 89"),
        (lambda d: d["record"].update(created="2020-01-01T00:00:00Z"), "created"),
        (lambda d: d["record"].update(platform="linux/arm64"), "platform"),
        (lambda d: d["record"].update(manifest_plain="sha256:" + "0" * 64), "manifest_plain"),
        (lambda d: d["record"]["layers"][1].update(created_by="COPY other /"), "layers"),
        (lambda d: d["record"]["layers"][0].update(base=False), "layers"),
    ],
)
def test_another_identity_is_refused(file: Path, tmp_path: Path, change: Any, said: str) -> None:
    """A record that is not that of the image beside it: exit 23, whichever field differs."""
    other = Store(tmp_path / "other")
    with pytest.raises(IdentityError, match=said) as raised:
        take(edited(file, change), other)
    assert raised.value.code == 23
    assert str(file) in str(raised.value)
    assert blobs(other) == set()


def test_other_file_hashes_are_refused(file: Path, tmp_path: Path) -> None:
    """What `verify --deep` would compare with is computed anew; a wrong list is not listed in the store."""
    other = Store(tmp_path / "other")
    with pytest.raises(IdentityError, match="file hashes"):
        take(edited(file, lambda d: d["record"]["files"].update({"/x": "0" * 64})), other)
    assert other.records() == ()


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "blobs/sha256/../../evil", "blobs/sha256/" + "g" * 64])
def test_strange_names_are_refused(file: Path, tmp_path: Path, name: str) -> None:
    """No name outside the fixed set is accepted, and none is ever used as a path."""
    with pytest.raises(SistershipError, match="damaged"):
        take(rewrite(file, lambda found: found.update({name: b"x"})), Store(tmp_path / "other"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_links_and_folders_are_refused(file: Path, kind: bytes) -> None:
    """Every entry is a file: a link could point anywhere."""
    with tarfile.open(file, "a", format=tarfile.USTAR_FORMAT) as tar:
        info = tarfile.TarInfo("blobs/sha256/" + "0" * 64)
        info.type, info.linkname = kind, "oci-layout"
        tar.addfile(info)
    with pytest.raises(SistershipError, match="something else than a file"), opened(file):
        pass


def test_same_name_twice_is_refused(file: Path) -> None:
    """Two readers could take two different ones."""
    with tarfile.open(file, "a", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("sistership.json"))
    with pytest.raises(SistershipError, match="twice"), opened(file):
        pass


@pytest.mark.parametrize("change", ["missing", "more"])
def test_blobs_are_exactly_the_images(exported: Exported, file: Path, tmp_path: Path, change: str) -> None:
    """A layer that is missing, or a blob that belongs to nothing, is told."""
    layer = f"blobs/sha256/{exported.image.layers[0].digest[7:]}"
    extra = f"blobs/sha256/{hashlib.sha256(b'x').hexdigest()}"
    changes = {"missing": lambda found: found.pop(layer), "more": lambda found: found.update({extra: b"x"})}
    with pytest.raises(SistershipError, match="is missing" if change == "missing" else "belongs to no part"):
        take(rewrite(file, changes[change]), Store(tmp_path / "other"))


def test_layer_that_unpacks_to_something_else(exported: Exported, file: Path, tmp_path: Path) -> None:
    """Blob and record may agree and still not be the layer that the config names."""
    first, second = exported.image.layers[1:3]

    def swap(document: dict[str, Any]) -> None:
        one, other = document["record"]["layers"][1:3]
        for name in ("digest", "size"):
            one[name], other[name] = other[name], one[name]

    assert first.digest != second.digest
    with pytest.raises(SistershipError):
        take(edited(file, swap), Store(tmp_path / "other"))


def test_other_files_are_no_exports(tmp_path: Path) -> None:
    """What `docker save` wrote, and any other file, is told what it lacks."""
    path = save().legacy(tmp_path / "save.tar")
    with pytest.raises(SistershipError, match="no export of sistership"), opened(path):
        pass
    (tmp_path / "note.txt").write_text("hello\n" * 500)
    with pytest.raises(SistershipError, match="damaged"), opened(tmp_path / "note.txt"):
        pass


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "kind"),
        ('{"kind": "sistership-image", "version": 2}', "version 2"),
        ('{"kind": "sistership-image", "version": 1}', "record"),
        ('{"kind": "sistership-image", "version": 1, "record": {}, "recipe": "x"}', "recipe key"),
        (f'{{"kind": "sistership-image", "version": 1, "record": {{}}, "recipe": "{KEY}"}}', "variant"),
    ],
)
def test_identity_that_cannot_be_read(text: str, said: str) -> None:
    """Every shape but ours is refused with what is wrong."""
    with pytest.raises(SistershipError, match=said):
        parse(text.encode(), "sistership.json")


def test_full_disk_leaves_the_old_file(
    exported: Exported, file: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails on the way says where and what to do; the old export stays, nothing lies beside it."""
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exchange.os, "fsync", full)
    with pytest.raises(SistershipError, match="cannot be written") as raised:
        exchange.write(exported, store, file)
    assert "No space left on device" in str(raised.value)
    assert "--output" in str(raised.value)
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["alpha.tar", "alpha.tar.sha256"]


def test_too_small_disk_is_told_before_writing(
    exported: Exported, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes needed and bytes free, before the first is written; the same for an import's store."""
    path = tmp_path / "out.tar"
    monkeypatch.setattr(exchange.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(SistershipError, match="does not fit") as raised:
        exchange.write(exported, store, path)
    assert "0 MiB are free" in str(raised.value)
    monkeypatch.undo()
    exchange.write(exported, store, path)
    monkeypatch.setattr("sistership.image.imports.shutil.disk_usage", lambda _: type("Usage", (), {"free": 10}))
    with pytest.raises(SistershipError, match="does not fit into the store"):
        take(path, Store(tmp_path / "other"))


def test_damaged_store_writes_no_export(exported: Exported, store: Store, tmp_path: Path) -> None:
    """A blob with a wrong byte ends the export before its name appears."""
    path = store.path(exported.image.layers[-1].digest)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(SistershipError, match="damaged"):
        exchange.write(exported, store, tmp_path / "new" / "out.tar")
    assert list((tmp_path / "new").iterdir()) == []
