"""What a pull leaves on a host besides the image's own names, and that clearing it up spoils nothing.

The shell runs for real; the engine's CLI is a stand-in that keeps its names in a file, and forgets names by digest as
the containerd store does: with them goes every tag of the same repository that names the same image.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.host.inventory import Peer
from sistership.image.identity import Image, Layer
from sistership.image.layout import Store
from sistership.image.release import Release
from sistership.registry.place import Place
from sistership.report.listeners import Silent
from sistership.ship.host import Shipped, ship_host
from sistership.ship.pulled import pulled_name_goes
from sistership.ship.road import Road
from sistership.verify.verdict import Kind


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


REPOSITORY = "registry.lan:5000/team/sample"
IMAGE = Image(digest("e"), "linux/amd64", digest("f"), digest("0"),
              (Layer(digest("1"), digest("a"), 100, 300, False, "COPY lib"),))  # fmt: skip
SOURCE = f"{REPOSITORY}@{IMAGE.manifest}"
ROAD = Road(Place("registry.lan:5000", "team/sample"))

ENGINE = """#!/bin/sh
names={folder}/names
list() {{ grep "$1" @ "$names" | sed 's/.*/"&"/' | paste -s -d , -; }}
for last; do :; done
case "$1 $2" in
"version "*) echo '{{"Version":"28.5.1","Os":"linux","Arch":"amd64"}}' ;;
"info "*) case "$3" in
    *Root*) echo / ;;
    *) echo '{{"ID":"A","DriverStatus":[["driver-type","io.containerd.snapshotter.v1"]]}}' ;;
    esac ;;
"pull "*) echo "$last" >> "$names" ;;
"tag "*) echo "$last" >> "$names" ;;
"image ls") [ ! -s "$names" ] || echo {id} ;;
"image inspect")
    [ -s "$names" ] || exit 1
    case "$4" in
    *json*) printf '{{"Id":"{id}","RepoTags":[%s],"RepoDigests":[%s],%s}}\\n' "$(list -v)" "$(list -e)" '{rest}' ;;
    *) grep -qxF "$last" "$names" && echo {id} ;;
    esac ;;
"image rm")
    grep -vxF "$last" "$names" | {{ grep -v "^{forgets}:" || :; }} > "$names.new"
    mv "$names.new" "$names" ;;
"create "*) echo container ;;
"rm "*) ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def peer(peer: Peer, stage: Path, tmp_path: Path) -> Peer:
    """This machine, whose engine has no image."""
    del stage  # it is enough that it is there
    (tmp_path / "names").touch()
    engine(tmp_path)
    return peer


def engine(folder: Path, forgets: str = REPOSITORY) -> None:
    """Make the stand-in engine.

    Args:
        forgets: pattern of the repositories whose tags go with a name by digest.
    """
    rest = {"RootFS": {"Layers": IMAGE.diff_ids}, "Os": "linux", "Architecture": "amd64", "Config": {}}
    text = ENGINE.format(folder=folder, id=IMAGE.manifest, rest=json.dumps(rest)[1:-1], forgets=forgets)
    (folder / "docker").write_text(text)
    (folder / "docker").chmod(0o755)


def shipped(peer: Peer, folder: Path, reference: str) -> tuple[Shipped, set[str]]:
    """Ship the image by the registry under a name. Returns how it ended, and every name the host has then."""
    release = Release("sample", "9" * 64, reference, IMAGE)
    done = ship_host(peer, [release], Store(folder / "store"), Silent(), road=ROAD)
    return done, set((folder / "names").read_text().split()) - {release.unique}


def test_tag_in_the_registrys_repository_survives_the_ship(peer: Peer, tmp_path: Path) -> None:
    """People's name and registry are one repository: the name by digest stays, for its removal would take the tag."""
    done, names = shipped(peer, tmp_path, f"{REPOSITORY}:v1")
    assert (done.code, done.verdict.kind, done.sent) == (0, Kind.OK, 100)
    assert names == {f"{REPOSITORY}:v1", SOURCE}


def test_name_by_digest_goes_where_nobody_needs_it(peer: Peer, tmp_path: Path) -> None:
    """Under another repository's name the host keeps that name alone."""
    done, names = shipped(peer, tmp_path, "sample:v1")
    assert (done.code, names) == (0, {"sample:v1"})


def test_verdict_is_of_the_host_as_it_is_left(peer: Peer, tmp_path: Path) -> None:
    """An engine that forgets more than it was told to is not called ok: the host is asked after the last removal."""
    engine(tmp_path, forgets=".*")
    done, names = shipped(peer, tmp_path, "sample:v1")
    assert (done.verdict.kind, done.code, names) == (Kind.MISSING, 22, set())


def test_name_that_was_there_is_left(peer: Peer, tmp_path: Path) -> None:
    """Somebody pulled the image by digest before: only the tag is set, and that name is not ours to remove."""
    (tmp_path / "names").write_text(f"{SOURCE}\n")
    done, names = shipped(peer, tmp_path, "sample:v1")
    assert (done.code, done.sent, names) == (0, 0, {"sample:v1", SOURCE})


@pytest.mark.parametrize(
    ("source", "tags", "before", "goes"),
    [
        ("ghcr.io/x/y", ["llama:v1", "ghcr.io/x/other:v1", "ghcr.io/x/y/z:v1"], "", True),
        ("ghcr.io/x/y", ["llama:v1", "ghcr.io/x/y:nightly"], "", False),
        ("docker.io/team/llama", ["team/llama:v1"], "", False),
        ("docker.io/library/llama", ["llama:v1"], "", False),
        ("docker.io/team/llama", ["llama:v1"], "team/llama", False),
        ("docker.io/team/llama", ["llama:v1"], "team/other", True),
    ],
)
def test_repositories_are_compared_as_engines_write_them(source: str, tags: list[str], before: str, goes: bool) -> None:
    """Any tag of the image in the source's repository, or the same name before the pull, keeps the name by digest."""

    def host(*images: HeldImage) -> HostFacts:
        return HostFacts("28.5.1", "containerd", "ID", "linux/amd64", None, None, False, {}, frozenset(), images)

    digests = (f"{before}@{IMAGE.manifest}",) if before else ()
    was = HeldImage(IMAGE.manifest, (), IMAGE.diff_ids, "linux/amd64", {}, "", digests=digests)
    held = HeldImage(IMAGE.manifest, tuple(tags), IMAGE.diff_ids, "linux/amd64", {}, "")
    release = Release("sample", "9" * 64, "llama:v1", IMAGE)
    assert pulled_name_goes(f"{source}@{IMAGE.manifest}", release, host(was), host(held)) is goes
