"""Bases in the store: fetched by the builder's engine, proven from their pin on, and built upon without a registry."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sistership.build.bases import archive, summary
from sistership.build.builder import digest_of
from sistership.build.offline import lent, offline, releases
from sistership.errors import BuildError, HostUnfitError, LockError
from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.image.bases import Base, kept, manifest_digest, require
from sistership.image.layout import Store
from sistership.image.pack import measure, pack
from sistership.matrix.model import Host
from sistership.recipe.lock import LockedVariant
from sistership.recipe.recipe import recipe_of
from sistership.report.events import Event, Progress
from sistership.report.listeners import Listener, Silent

if TYPE_CHECKING:
    from types import SimpleNamespace

    from sistership.recipe.recipe import Recipe

#: A docker command that answers from files and writes down what it was asked to change.
DOCKER = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1 $2" in
  "buildx imagetools") cat "documents/${5#*@sha256:}" 2>/dev/null || { echo "ERROR: $5: not found" >&2; exit 1; } ;;
  "image inspect") [ -e had ] ;;
  "image rm") shift $(($# - 1)); echo "rm $1" >> changed ;;
  "pull --platform") echo "pull $3 $4" >> changed; [ ! -e refused ] || { echo "no such host" >&2; exit 1; } ;;
  "save "*) cat save.tar ;;
  "info "*) cat info ;;
  "buildx build") cat >/dev/null; cat export.tar ;;
  *) echo "what is $*?" >&2; exit 1 ;;
esac
"""
CONTAINERD = '{"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}'
INDEX = "application/vnd.oci.image.index.v1+json"


def digest(data: bytes) -> str:
    """Of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar_of(**files: bytes) -> bytes:
    """A tar of plain files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


LAYERS = (tar_of(etc=b"ID=x\n"), tar_of(opt=os.urandom(4096)))


@dataclass
class Registry:
    """A base as a registry has it, and a builder in between whose docker command is a script."""

    folder: Path
    peer: Peer
    store: Store
    base: Base

    @property
    def changed(self) -> list[str]:
        """What the engine was asked to change so far."""
        file = self.folder / "changed"
        return file.read_text().splitlines() if file.exists() else []

    def serve(self, document: Any) -> str:
        """Have the registry answer with this for its digest, which is returned."""
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        (self.folder / "documents" / digest(data)[7:]).write_bytes(data)
        return digest(data)

    def offer(self, layers: Sequence[bytes] = LAYERS, **more: Any) -> str:
        """Have the registry hold an image, and the engine save it; gives the manifest's digest."""
        config = self.config(layers, **more)
        self.save(config, layers)
        self.serve(config)
        return self.serve({"config": {"digest": digest(config)}, "layers": [{"digest": "sha256:" + "9" * 64}]})

    @staticmethod
    def config(layers: Sequence[bytes], **more: Any) -> bytes:
        """The config of an image, in the odd spelling that its maker chose."""
        rootfs = {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}
        return json.dumps({"os": "linux", "architecture": "amd64", "rootfs": rootfs, **more}, indent=3).encode()

    def save(self, config: bytes, layers: Sequence[bytes], name: str = "save.tar") -> None:
        """Have the engine print this image."""
        names = [f"{number}.tar" for number in range(len(layers))]
        manifest = json.dumps([{"Config": "c.json", "RepoTags": None, "Layers": names}]).encode()
        files = dict(zip(names, layers, strict=True))
        (self.folder / name).write_bytes(tar_of(**files, **{"c.json": config, "manifest.json": manifest}))


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """A registry with one base of two layers."""
    folder = tmp_path / "engine"
    (folder / "documents").mkdir(parents=True)
    docker = folder / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    (folder / "info").write_text('{"DriverStatus": []}')
    peer = Peer(Host(name="far"), Local("far"), Docker(shlex.quote(str(docker))))
    made = Registry(folder, peer, Store(tmp_path / "store"), Base("", ""))
    made.base = Base(f"reg.example:5000/deep/base:1@{made.offer()}", "linux/amd64")
    return made


@pytest.mark.parametrize(
    ("reference", "repository"),
    [
        ("debian:bookworm@sha256:0", "debian"),
        ("127.0.0.1:5000/practice/build:bookworm@sha256:0", "127.0.0.1:5000/practice/build"),
        ("127.0.0.1:5000/build@sha256:0", "127.0.0.1:5000/build"),
        ("reg.example/a/b@sha256:0", "reg.example/a/b"),
    ],
)
def test_repository_of_a_pin(reference: str, repository: str) -> None:
    """The port of a registry is no tag."""
    assert Base(reference, "linux/amd64").repository == repository


def test_platform_of_an_index() -> None:
    """The manifest of the platform counts, never an attestation; a platform that is not there is named with those."""
    lines = [("unknown", "unknown", None), ("linux", "amd64", None), ("linux", "arm64", "v8"), ("linux", "arm", "v7")]
    index = {
        "mediaType": INDEX,
        "manifests": [
            {"digest": f"sha256:{number:064x}", "platform": {"os": system, "architecture": arch, "variant": variant}}
            for number, (system, arch, variant) in enumerate(lines)
        ],
    }
    document = json.dumps(index).encode()
    for number, platform in enumerate(("linux/amd64", "linux/arm64", "linux/arm/v7"), start=1):
        assert manifest_digest(document, Base("x@sha256:0", platform)) == f"sha256:{number:064x}"
    with pytest.raises(BuildError, match="no image for linux/s390x") as caught:
        manifest_digest(document, Base("x@sha256:0", "linux/s390x"))
    assert caught.value.why == "it has linux/amd64, linux/arm/v7, linux/arm64"


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"schemaVersion": 1, "fsLayers": []}', b'{"manifests": 0}'])
def test_what_is_no_manifest_is_refused(document: bytes) -> None:
    """Nothing, something else, and the schema of before 2017."""
    with pytest.raises(BuildError):
        manifest_digest(document, Base("x@sha256:0", "linux/amd64"))


def test_archived_base_is_proven_from_its_pin(registry: Registry) -> None:
    """Config kept byte for byte, every blob in use, the engine as before, and nothing asked a second time."""
    found = archive(registry.peer, registry.base, registry.store, Silent())
    config = registry.config(LAYERS)
    assert registry.store.read(found.image.config) == config
    assert found.image.diff_ids == tuple(digest(layer) for layer in LAYERS)
    assert found.new == sum(layer.size for layer in found.image.layers)
    assert kept(registry.base, registry.store) == found.image
    blobs = {registry.base.digest, found.image.config, found.image.manifest, found.image.manifest_plain}
    assert registry.store.in_use() == blobs | {layer.digest for layer in found.image.layers}
    assert registry.store.bases() == ((registry.base.reference, "linux/amd64"),)
    name = f"reg.example:5000/deep/base@{registry.base.digest}"
    assert registry.changed == ["pull linux/amd64 " + name, "rm " + name]
    assert archive(registry.peer, registry.base, registry.store, Silent()).new == 0
    assert len(registry.changed) == 2


def test_archiving_tells_how_far_it_is(registry: Registry) -> None:
    """Bytes that were saved while they come, and bytes that are packed, up to the last."""
    told: list[Progress] = []

    class Heard(Listener):
        def tell(self, event: Event) -> None:
            if isinstance(event, Progress):
                told.append(event)

    archive(registry.peer, registry.base, registry.store, Heard())
    size = (registry.folder / "save.tar").stat().st_size
    assert [one.done for one in told if one.step == "saved"][-1] == size
    packed = [(one.done, one.total) for one in told if one.step == "archived"]
    total = sum(map(len, LAYERS))
    assert packed == sorted(packed)
    assert packed[-1] == (total, total)
    assert packed[0][0] < total


def test_damaged_save_is_named_by_whose_it_is(registry: Registry) -> None:
    """Its file has no name that would tell anybody anything."""
    (registry.folder / "save.tar").write_bytes(b"Error response from daemon")
    with pytest.raises(BuildError) as caught:
        archive(registry.peer, registry.base, registry.store, Silent())
    assert str(caught.value).startswith("what far saved: damaged tar")


def test_tag_that_a_registry_does_not_have(registry: Registry) -> None:
    """A pin would not help: the name or the tag is wrong, or gone."""
    with pytest.raises(BuildError) as caught:
        digest_of(registry.peer, "reg.example/none:1")
    assert caught.value.hint == "correct `base:` in the matrix: that registry has no such name or tag"


def test_image_that_was_there_stays_there(registry: Registry) -> None:
    """What the builder's engine had before is not removed from it."""
    (registry.folder / "had").touch()
    archive(registry.peer, registry.base, registry.store, Silent())
    assert [line.split()[0] for line in registry.changed] == ["pull"]


def test_index_is_followed_to_the_platform(registry: Registry) -> None:
    """The engine pulls the platform's manifest by its own digest; both documents are kept, and lead to the config."""
    inner = registry.base.digest
    line = {"digest": inner, "platform": {"os": "linux", "architecture": "amd64"}}
    index = registry.serve({"mediaType": INDEX, "manifests": [line]})
    base = Base(f"reg.example/base:1@{index}", "linux/amd64")
    found = archive(registry.peer, base, registry.store, Silent())
    assert registry.changed[0] == f"pull linux/amd64 reg.example/base@{inner}"
    assert {index, inner} <= registry.store.in_use()
    assert kept(base, registry.store) == found.image


def test_layer_of_an_image_is_not_stored_twice(registry: Registry) -> None:
    """A layer that a built image brought into the store is shared, and does not count as new."""
    diff_id, size = measure([LAYERS[0]])
    packed = pack(registry.store, diff_id, size, lambda: [LAYERS[0]])
    found = archive(registry.peer, registry.base, registry.store, Silent())
    assert found.image.layers[0].digest == packed.digest
    assert found.new == found.image.layers[1].size


def test_another_image_than_the_pinned_one_is_refused(registry: Registry) -> None:
    """An engine that gives other layers, or another config, puts nothing into the index."""
    for layers, more in ((LAYERS[:1], {}), (LAYERS, {"author": "somebody"})):
        registry.save(registry.config(layers, **more), layers)
        with pytest.raises(BuildError, match="another image than the one that is pinned"):
            archive(registry.peer, registry.base, registry.store, Silent())
    assert registry.store.bases() == ()
    assert kept(registry.base, registry.store) is None


def test_answer_with_another_digest_is_refused(registry: Registry) -> None:
    """A proxy that rewrites manifests is found before anything is pulled."""
    (registry.folder / "documents" / registry.base.digest[7:]).write_bytes(b'{"config": {}}')
    with pytest.raises(BuildError, match="something else"):
        archive(registry.peer, registry.base, registry.store, Silent())
    assert registry.changed == []


def test_newline_of_buildx_is_no_difference(registry: Registry) -> None:
    """The document is what has the digest, with or without a line end after it."""
    file = registry.folder / "documents" / registry.base.digest[7:]
    file.write_bytes(file.read_bytes() + b"\n")
    assert archive(registry.peer, registry.base, registry.store, Silent()).image


def test_failures_say_what_to_do(registry: Registry) -> None:
    """A registry that lost the base, and an engine that cannot pull, are told in their own words."""
    gone = Base(f"reg.example/base:1@sha256:{'0' * 64}", "linux/amd64")
    with pytest.raises(BuildError, match="manifest of the base") as caught:
        archive(registry.peer, gone, registry.store, Silent())
    assert "not found" in str(caught.value.why)
    (registry.folder / "refused").touch()
    with pytest.raises(BuildError, match="cannot be fetched") as caught:
        archive(registry.peer, registry.base, registry.store, Silent())
    assert caught.value.why == "no such host"
    assert caught.value.hint


def test_engine_that_saves_without_layers(registry: Registry) -> None:
    """On the containerd store a build exports the base, and the registry gives its config; classic: an error."""
    other = json.dumps(json.loads(registry.config(LAYERS)), sort_keys=True).encode()
    registry.save(other, LAYERS, "export.tar")
    (registry.folder / "save.tar").write_bytes(tar_of(**{"manifest.json": b"[]"}))
    with pytest.raises(BuildError, match="holds no image"):
        archive(registry.peer, registry.base, registry.store, Silent())
    (registry.folder / "info").write_text(CONTAINERD)
    found = archive(registry.peer, registry.base, registry.store, Silent())
    assert registry.store.read(found.image.config) == registry.config(LAYERS)
    assert kept(registry.base, registry.store) == found.image


def test_damaged_layer_is_never_used(registry: Registry) -> None:
    """A flipped bit is found by the checksum, refused with the next step, and mended by archiving again."""
    found = archive(registry.peer, registry.base, registry.store, Silent())
    path = registry.store.path(found.image.layers[1].digest)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert kept(registry.base, registry.store) is None
    with pytest.raises(LockError, match="is damaged in the store") as caught:
        require([registry.base], registry.store, "sample")
    assert "sistership lock --variant sample --archive-bases" in str(caught.value.hint)
    assert archive(registry.peer, registry.base, registry.store, Silent()).image == found.image
    assert require([registry.base], registry.store, "sample") == {registry.base: found.image}


def test_base_that_was_never_archived(registry: Registry) -> None:
    """It is named, with its platform, and with the next step."""
    with pytest.raises(LockError, match=r"base:1@sha256:\w{64} \(linux/amd64\) is not in the store") as caught:
        require([registry.base], registry.store, "sample")
    assert "--archive-bases" in str(caught.value.hint)


def test_layer_packed_anew_keeps_the_base(registry: Registry) -> None:
    """Another zstd library makes another blob of a layer: the same base, under another manifest, and in use again."""
    found = archive(registry.peer, registry.base, registry.store, Silent())
    for form in (found.image.manifest, found.image.manifest_plain):
        registry.store.path(form).unlink()
    assert kept(registry.base, registry.store) == found.image
    assert found.image.manifest in registry.store.in_use()


def test_summary_counts_shared_layers_once(registry: Registry) -> None:
    """Bases, layers and bytes as they lie in the store."""
    first = archive(registry.peer, registry.base, registry.store, Silent())
    second_pin = registry.offer(LAYERS[:1])
    second = archive(registry.peer, Base(f"other@{second_pin}", "linux/amd64"), registry.store, Silent())
    size = sum(layer.size for layer in first.image.layers)
    assert summary([first, second, first]) == f"2 bases, 2 layers, {size} B, of them {size} B new"
    again = archive(registry.peer, registry.base, registry.store, Silent())
    assert summary([again]) == f"1 base, 2 layers, {size} B, none new"


PIN = "reg.example/build:1@sha256:" + "b" * 64
OWN = "sistership.local/base-1:2"


@pytest.mark.parametrize(
    "text",
    [
        f"FROM {PIN}",
        f"from --platform=linux/amd64 {PIN} as Build\nFROM build",
        "FROM scratch",
        f"FROM {PIN} AS a\nFROM scratch\nCOPY --from=a /x /\nCOPY --chown=0:0 --from=0 /y /",
        f"FROM scratch\nCOPY --from={PIN} /x /",
        f"FROM {PIN} AS a\nRUN --mount=type=bind,from=a,target=/a \\\n    --mount=type=bind,from={PIN},source=/x id",
        f"# FROM elsewhere\nFROM {PIN}\nRUN echo FROM x --from=y",
        f"FROM {PIN}\nRUN <<EOT\nfrom os import path\nEOT\nRUN true",
    ],
)
def test_dockerfile_says_the_names_on_the_builder(text: str) -> None:
    """Wherever an image is taken; stages, comments and scripts stay as they are."""
    assert offline(text, {PIN: OWN}) == text.replace(PIN, OWN)


def test_labels_keep_the_pin() -> None:
    """What only mentions a base stays: it would be another image."""
    label = f"LABEL org.opencontainers.image.base.name={PIN}"
    assert offline(f"FROM {PIN}\n{label}", {PIN: OWN}) == f"FROM {OWN}\n{label}"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("FROM debian:bookworm", "debian:bookworm"),
        (f"FROM {PIN}\nCOPY --from=ghcr.example/tool:1 /x /", "ghcr.example/tool:1"),
        (f"FROM {PIN}\nRUN --mount=type=bind,from=tool,target=/t id", "tool"),
        ("ARG BASE\nFROM ${BASE}", r"\$\{BASE\}"),
        ("# syntax=docker/dockerfile:1.7\nFROM scratch", "docker/dockerfile:1.7"),
        (f"FROM {PIN.replace('build', 'other')}", "other"),
    ],
)
def test_what_a_registry_would_be_asked_for_is_refused(text: str, named: str) -> None:
    """A template's own images, frontends and variables are named, and nothing is sent to the builder."""
    with pytest.raises(BuildError, match=named):
        offline(text, {PIN: OWN})


@pytest.fixture
def recipe(make: SimpleNamespace, registry: Registry) -> Recipe:
    """A recipe of the real template, built on the registry's base alone."""
    matrix = make.matrix()
    bases = {"build": registry.base.reference, "runtime": registry.base.reference}
    locked = LockedVariant("0" * 64, "8" * 40, "4" * 40, 7, "2026-05-01T10:00:00Z", bases)
    return recipe_of(matrix, matrix.variants["alpha"], "linux/amd64", locked)


def test_rendered_dockerfile_asks_no_registry(recipe: Recipe, registry: Registry) -> None:
    """Of the template that comes with sistership only the two FROM lines change."""
    sent = offline(recipe.dockerfile, {registry.base.reference: OWN})
    pairs = zip(recipe.dockerfile.splitlines(), sent.splitlines(), strict=True)
    changed = [(old, new) for old, new in pairs if old != new]
    assert [old.split()[0] for old, _ in changed] == ["FROM", "FROM"]
    assert all(OWN in new for _, new in changed)


def test_with_a_registry_nothing_changes(recipe: Recipe, registry: Registry) -> None:
    """Without archived bases the recipe is sent as it is, and the builder is asked nothing."""
    with lent(registry.peer, recipe, None, registry.store, Silent()) as sent:
        assert sent is recipe
    assert registry.changed == []


def test_lent_bases_are_taken_back(recipe: Recipe, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when one of them could not be loaded: both its names are removed from the builder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(registry.folder))
    found = archive(registry.peer, registry.base, registry.store, Silent())
    (registry.folder / "changed").unlink()
    bases = releases(recipe, {registry.base: found.image}, registry.store)
    with pytest.raises(HostUnfitError), lent(registry.peer, recipe, bases, registry.store, Silent()):
        pytest.fail("an engine that answers nothing was built on")
    own = f"sistership.local/base-{recipe.key[:12]}:{found.image.config[7:19]}"
    assert sorted(registry.changed) == sorted([f"rm {own}", f"rm sistership.local/{own}"])
