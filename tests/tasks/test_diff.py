"""`diff` between files, built variants, entries of the lock and what hosts hold, in any mix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.tasks.conftest import Built

OLD = "0" * 64


@pytest.fixture
def two(built: Built, make: SimpleNamespace) -> Built:
    """The project with a second image in its lock, of another program."""
    built.build(make.good, b"#!another", recipe=OLD)
    return built


def paths(document: dict[str, list[dict[str, str]]]) -> list[str]:
    """Paths that differ."""
    return [each["path"] for each in document["differences"]]


def test_one_image_in_every_form_is_the_same(built: Built, make: SimpleNamespace) -> None:
    """Store, export, docker save, a host's engine: every pair of them is the same, exit 0."""
    built.run("export", "--variant", "alpha", "--output", "export.tar")
    layers, config = built.layers()
    make.saved(built.folder / "saved.tar", layers, config)
    built.holds(layers, config, "alpha:v1")
    words = ["alpha", "export.tar", "saved.tar", "gpu-a:alpha", built.key[:12]]
    for number, word in enumerate(words):
        for other in words[number:]:
            assert built.run("diff", word, other).stdout.startswith(f"same: {word} and {other} are"), (word, other)


def test_replaced_tag_on_a_host_is_named_down_to_the_file(built: Built, make: SimpleNamespace) -> None:
    """A changed file in a layer of its own, as `docker commit` leaves it, is compared with the one below."""
    layers, config = built.layers()
    top = make.tar_of({"app/bin/llama-cli": b"#!changed", "app/new": b"x"})
    built.holds([*layers, top], make.layer_on_top(config, top), "alpha:v1")
    document = built.json("diff", "alpha", "gpu-a:alpha", code=14)
    kinds = {each["path"]: each["kind"] for each in document["differences"]}
    assert kinds["/app/bin/llama-cli"] == "content"
    assert kinds["/app/new"] == "added"
    assert "alpha:v1" not in kinds
    turned = built.json("diff", "gpu-a:alpha:v1", "alpha", code=14)
    assert {each["kind"] for each in turned["differences"] if each["path"] == "/app/new"} == {"removed"}


def test_file_and_entry_of_the_lock(two: Built) -> None:
    """A file against digits of the lock: the program that differs, and nothing else."""
    two.run("export", "--variant", "alpha", "--output", "export.tar")
    document = two.json("diff", "export.tar", OLD[:12], code=14)
    assert paths(document) == ["/app/bin/llama-cli"]
    assert (document["a"]["name"], document["b"]["name"]) == ("export.tar", OLD[:12])
    assert document["unread"] == []


def test_entries_without_blobs_are_compared_by_what_the_lock_says(two: Built) -> None:
    """Two entries, one of which the store lost: files by hash, and it is said that no bytes were compared."""
    lost = two.image().layers[-2].digest
    (two.folder / "store" / "blobs" / "sha256" / lost[7:]).unlink()
    document = two.json("diff", "alpha", OLD[:12], code=14)
    assert "/app/bin/llama-cli" in paths(document)
    assert "the bytes" in document["unread"][0]


def test_lost_image_against_a_host(two: Built) -> None:
    """A recorded image without blobs against a host: layers by digest, files by the lock's hashes, said so."""
    layers, config = two.layers()
    two.holds(layers, config, "alpha:v1")
    (two.folder / "store" / "blobs" / "sha256" / two.records[OLD]["layers"][2]["digest"][7:]).unlink()
    document = two.json("diff", "gpu-a:alpha", OLD[:12], code=14)
    found = [each for each in document["differences"] if each["path"] == "/app/bin/llama-cli"]
    assert [each["kind"] for each in found] == ["content"]
    assert any("hashes" in words for words in document["unread"])
    assert "/etc/release" not in paths(document)
    again = two.json("diff", OLD[:12], "gpu-a:alpha", code=14)
    assert [each["detail"].split()[1] for each in again["differences"] if each["kind"] == "content"] == [
        two.records[OLD]["files"]["/app/bin/llama-cli"][:12]
    ]


def test_word_that_means_two_things(built: Built) -> None:
    """A file with the name of a variant or of a host's image is told apart, and how to say which: exit 2."""
    layers, config = built.layers()
    built.holds(layers, config, "alpha:v1")
    built.run("export", "--variant", "alpha", "--output", "export.tar")
    for name in ("alpha", "gpu-a:alpha"):
        (built.folder / "export.tar").rename(built.folder / name)
        error = built.run("diff", name, "export.tar", code=2).stderr
        assert f"{name}: there is a file of that name" in error
        assert f"./{name}" in error
        assert built.run("diff", f"./{name}", built.key[:12]).stdout.startswith("same:")
        (built.folder / name).rename(built.folder / "export.tar")


def test_two_files_need_no_project(built: Built) -> None:
    """Without a matrix two files are compared; another word then says what is missing."""
    built.run("export", "--variant", "alpha", "--output", "export.tar")
    (built.folder / "buildmatrix.yaml").unlink()
    built.run("diff", "export.tar", "export.tar")
    assert "buildmatrix.yaml" in built.run("diff", "export.tar", "alpha", code=2).stderr


def test_host_without_the_image(built: Built) -> None:
    """Exit 22; an ID that several images begin with is not guessed."""
    layers, config = built.layers()
    built.holds(layers, config, "other:1")
    built.run("diff", "alpha", "gpu-a:alpha:v9", code=22)
    assert built.run("diff", "alpha", f"gpu-a:{built.image().config[7:19]}").stdout.startswith("same:")
