"""`push`, by the command line, against a registry in this process."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.tasks.conftest import Built


@pytest.fixture(scope="module")
def fake() -> ModuleType:
    """The registry of the registry's own tests."""
    path = Path(__file__).parents[1] / "registry" / "fake.py"
    spec = importlib.util.spec_from_file_location("fake_registry", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        # Its dataclasses look themselves up while they are made.
        patch.setitem(__import__("sys").modules, "fake_registry", module)
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def registered(built: Built, fake: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Built, object]]:
    """The project with a registry in its matrix, and that registry."""
    monkeypatch.setenv("DOCKER_CONFIG", str(built.folder))
    with fake.registry() as server:
        matrix = built.folder / "buildmatrix.yaml"
        matrix.write_text(
            matrix.read_text().replace("    tag: v1\n", f"    tag: v1\n    registry: {server.host}/a/b\n")
        )
        yield built, server


def test_push_says_what_to_pull(registered: tuple[Built, object]) -> None:
    """First what would go, then it goes, then nothing is left to go; the digest is that of the lock."""
    built, server = registered
    image = built.image()
    source, tag = f"{server.host}/a/b@{image.manifest}", f"{server.host}/a/b:{image.config[7:19]}"
    shown = built.json("push", "--dry-run")
    assert (shown["pushed"], server.taken) == (False, 0)
    pushed = built.json("push", "--variant", "alpha")
    assert pushed["images"][0]["bytes"] == server.taken == shown["images"][0]["bytes"] > 0
    assert (pushed["images"][0]["source"], pushed["images"][0]["tag"]) == (source, tag)
    said = built.run("push").stdout.splitlines()
    assert said == ["alpha (linux/amd64): 0 B pushed", f"  {source}", f"  {tag}"]
    assert set(server.manifests["a/b"]) == {image.manifest, image.config[7:19]}


def test_variant_without_a_registry_is_refused(built: Built) -> None:
    """Selected or not, there is nowhere to push; the next step is in the message."""
    for words in (("push",), ("push", "--variant", "alpha")):
        assert "registry: HOST/REPOSITORY" in built.run(*words, code=2).stderr


def test_missing_blob_of_the_store_is_told_before_anything_is_sent(registered: tuple[Built, object]) -> None:
    """Exit 22, and the registry was not asked for anything."""
    built, server = registered
    blob = built.folder / "store" / "blobs" / "sha256" / built.image().layers[0].digest[7:]
    blob.unlink()
    assert "missing or damaged in the store" in built.run("push", code=22).stderr
    assert server.seen == []


def test_registry_does_not_change_the_recipe(registered: tuple[Built, object]) -> None:
    """A registry that is added to a built variant builds nothing anew: the lock still answers (the host does not)."""
    built, _ = registered
    assert built.json("plan", code=21)["images"][0]["recipe"] == built.key
