"""`check`: the report of what was built, of files, and of what hosts hold."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.tasks.conftest import Built

FAILED = "stubs\tfailed\t/app/lib/libcuda.so.1\tno driver library\tit is in the image\tnever copy it\n"


def test_report_of_a_built_variant(built: Built) -> None:
    """A table with every check, what was not judged as such, the counts; exit 0."""
    out = built.run("check", "alpha").stdout
    lines = out.splitlines()
    assert lines[0].startswith("alpha (linux/amd64): alpha:v1  config ")
    assert lines[1].split() == ["CHECK", "RESULT", "SUBJECT", "FOUND"]
    assert "instructions  not judged  /app" in out
    assert lines[-1] == "alpha (linux/amd64): 2 ok, 1 not judged"


def test_document(built: Built) -> None:
    """The same for pipelines, with the recipe key and the config digest, as its schema says."""
    document = built.json("check", "alpha")
    (image,) = document["images"]
    assert (document["exit"], image["result"], image["recipe"]) == (0, "ok", built.key)
    assert image["id"] == built.image().config
    assert [each["result"] for each in image["checks"]] == ["ok", "not judged", "ok"]


def test_failed_check(project: Built, make: SimpleNamespace) -> None:
    """Exit 15; what failed with its file, expected, found and cure."""
    project.build(make.good + FAILED)
    out = project.run("check", "alpha", code=15).stdout
    assert "stubs of /app/lib/libcuda.so.1: expected no driver library, found it is in the image\n" in out
    assert "  next: never copy it\n" in out
    assert "1 failed" in out.splitlines()[-1]
    (image,) = project.json("check", "alpha", code=15)["images"]
    assert image["result"] == "failed"
    assert image["checks"][-1]["cure"] == "never copy it"


def test_image_without_a_report(project: Built) -> None:
    """Built before there were checks, or by someone else: exit 15, and how to get one that was checked."""
    project.build(None)
    out = project.run("check", "alpha", code=15).stdout
    assert "alpha (linux/amd64): the image carries no report of its checks" in out
    assert "next: sistership build --variant alpha" in out
    (image,) = project.json("check", "alpha", code=15)["images"]
    assert (image["result"], image["checks"]) == ("none", [])
    assert image["next"] == "sistership build --variant alpha"


@pytest.mark.parametrize("old", ["89 120", "84e908c625fb60992b4cdef8180fb12fa9b4c4bf"])
def test_report_of_another_recipe_does_not_pass(project: Built, make: SimpleNamespace, old: str) -> None:
    """A good report that was made for other archs or another commit is exit 15, and says so."""
    project.build(make.good.replace(f"\t{old}\t", "\t90\t"))
    out = project.run("check", "alpha", code=15).stdout
    assert "recipe" in out
    assert f"expected {old}, found 90" in out


def test_report_that_cannot_be_read(project: Built, make: SimpleNamespace) -> None:
    """A damaged or newer report is exit 15, never a pass."""
    project.build(make.good.replace("checks 1", "checks 2"))
    assert "version 2" in project.run("check", "alpha", code=15).stdout


@pytest.mark.parametrize("word", ["al*", "^beta,alpha", "KEY", "DIGEST"])
def test_selectors_and_digits(built: Built, word: str) -> None:
    """A glob, a list, digits of the recipe key and of the config digest lead to the same image."""
    words = {"KEY": built.key[:12], "DIGEST": built.image().config[:19]}
    if word == "^beta,alpha":
        built.run("check", word, code=2)  # there is no beta
        return
    (image,) = built.json("check", words.get(word, word))["images"]
    assert image["recipe"] == built.key


def test_word_without_meaning(built: Built) -> None:
    """Neither file nor variant nor host: exit 2, and what could stand there."""
    assert "HOST:VARIANT" in built.run("check", "nonsense", code=2).stderr
    assert "gpu-b is no host of the matrix" in built.run("check", "gpu-b:alpha", code=2).stderr
    built.run("check", "alpha,nonsense", code=2)
    assert 'did you mean "alpha"?' in built.run("check", "alhpa", code=2).stderr
    assert 'did you mean "gpu-a"?' in built.run("check", "gpu-aa:alpha", code=2).stderr


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (b"version: 1\n", "it does not begin as a tar"),
        (b"", "it does not begin as a tar"),
        (b"\x1f\x8b\x08\x00", "gzip -dc wrong.tar > image.tar"),
        (b"\x28\xb5\x2f\xfd", "zstd -dc wrong.tar > image.tar"),
    ],
)
def test_file_that_is_no_image(project: Built, begin: bytes, told: str) -> None:
    """Told before its bytes are read as headers of a tar: exit 1, and how to unpack what is packed."""
    (project.folder / "wrong.tar").write_bytes(begin)
    assert told in project.run("check", "wrong.tar", code=1).stderr
    project.run("diff", "wrong.tar", "wrong.tar", code=1)


def test_store_that_lost_the_image(built: Built) -> None:
    """Without the blobs nothing can be said: exit 11, and what brings them back."""
    (built.folder / "store" / "blobs" / "sha256" / built.image().layers[-1].digest[7:]).unlink()
    assert "sistership build --variant alpha" in built.run("check", "alpha", code=11).stderr


def test_files(built: Built, make: SimpleNamespace) -> None:
    """An export and a file of `docker save` are read without any project around."""
    built.run("export", "--variant", "alpha", "--output", "alpha.tar")
    layers, config = built.layers()
    make.saved(built.folder / "saved.tar", layers, config)
    (built.folder / "buildmatrix.yaml").unlink()
    for name in ("alpha.tar", "saved.tar"):
        (image,) = built.json("check", name)["images"]
        assert (image["name"], image["variant"], image["recipe"]) == (name, "alpha", built.key)
        assert image["result"] == "ok"


def test_image_that_was_changed_after_its_checks(built: Built, make: SimpleNamespace) -> None:
    """A layer on top of a checked image inherits report and labels, and is told: exit 15."""
    layers, config = built.layers()
    top = make.tar_of({"app/bin/llama-cli": b"another"})
    make.saved(built.folder / "changed.tar", [*layers, top], make.layer_on_top(config, top))
    out = built.run("check", "changed.tar", code=15).stdout
    assert "changed.tar: the image was changed after it was checked" in out
    assert "1 of its layers lie above" in out


def test_what_a_host_holds(built: Built) -> None:
    """An image of the lock is read by one file, out of a container that is removed; by variant, reference and ID."""
    layers, config = built.layers()
    built.holds(layers, config, "alpha:v1")
    (built.folder / "engine" / "save.tar").unlink()
    for word in ("gpu-a:alpha", "gpu-a:alpha:v1", f"gpu-a:{built.image().config}"):
        (image,) = built.json("check", word)["images"]
        assert (image["result"], image["name"], image["recipe"]) == ("ok", word, built.key)
    assert (built.folder / "engine" / "asked").read_text().split() == ["create", "rm"] * 3


def test_damaged_report_on_a_host(built: Built, make: SimpleNamespace) -> None:
    """The right ID with another file behind it is exit 15; a file that is missing, too."""
    layers, config = built.layers()
    built.holds(layers, config, "alpha:v1")
    cut = make.good.rpartition("version")[0]
    (built.folder / "engine" / "cp.tar").write_bytes(make.tar_of({"checks.tsv": cut.encode()}))
    assert "not the one that was built" in built.run("check", "gpu-a:alpha", code=15).stdout
    (built.folder / "engine" / "cp.tar").unlink()
    assert "carries no report" in built.run("check", "gpu-a:alpha", code=15).stdout


def test_changed_image_on_a_host(built: Built, make: SimpleNamespace) -> None:
    """An image that the lock does not know is saved and looked into: its inherited report does not pass."""
    layers, config = built.layers()
    top = make.tar_of({"app/bin/llama-cli": b"another"})
    built.holds([*layers, top], make.layer_on_top(config, top), "alpha:v1")
    done = built.run("check", "gpu-a:alpha", code=15)
    assert "gpu-a:alpha: the image was changed after it was checked" in done.stdout
    assert "saving" in done.stderr


def test_host_without_the_image(built: Built) -> None:
    """Exit 22 with the reference that was looked for."""
    layers, config = built.layers()
    built.holds(layers, config, "other:1")
    missing = built.run("check", "gpu-a:alpha", code=22).stderr
    assert "next: sistership ship --variant alpha --hosts gpu-a" in missing
    assert "gpu-a: there is no image alpha:v2" in built.run("check", "gpu-a:alpha:v2", code=22).stderr
    document = json.loads(built.run("check", "gpu-a:beta", "--json", code=22).stdout)
    assert (document["type"], document["exit"]) == ("error", 22)
