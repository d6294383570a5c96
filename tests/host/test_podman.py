"""Podman by its CLI: what its answers mean, and what the functions make of names, warnings and containers."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from sistership.errors import HostUnfitError, IdentityError
from sistership.host.docker import Docker
from sistership.host.facts import parse, probe_script
from sistership.host.inventory import connect
from sistership.host.podman import Podman
from sistership.host.transport import Completed
from sistership.matrix.model import Host

from .probes import read, recorded

HOST = Host("h", ssh="h", docker="podman", engine="podman")
ID = "395bbf0423571a0fe8b7cce02be8ba7d20ca98f1977502f59bb5980a3f574cbd"
MANIFEST = "sha256:e9a93bebfc9a44eae7493289c301b6f1e6a8c0baaf6f985117c2db2c0ac39c2a"
WARNING = 'time="2026-11-29T20:00:00Z" level=warning msg="Using cgroups-v1 which is deprecated"'

#: What Podman 5.4.2 answered to a probe: root's with an image that was shipped, a user's own with none.
answer = partial(recorded, "podman")
facts = partial(read, HOST, Podman("podman"))


def test_everything_is_read() -> None:
    """The ID is the config digest and gets its `sha256:`; a name of this machine alone is the one that people write."""
    found = facts(answer("rootful"))
    assert (found.version, found.store, found.engine) == ("5.4.2", "podman", "podman")
    assert (found.platform, found.daemon) == ("linux/amd64", "/var/lib/containers/storage@220:1516545")
    assert found.reads_zstd
    (image,) = found.images
    assert image.id == f"sha256:{ID}"
    assert image.tags == ("difference-sample:v1", "sistership.local/difference-sample:395bbf042357")
    assert image.digests[0] == f"difference-sample@{MANIFEST}"
    assert (len(image.diff_ids), image.platform, image.created) == (3, "linux/amd64", "2026-01-01T00:00:00Z")
    assert found.tagged("difference-sample:v1") is image


def test_three_disks_are_told_apart() -> None:
    """A user's images lie in his home; what is loaded passes through a folder for temporary files, on another disk."""
    found = facts(answer("rootless"))
    assert found.daemon == "/home/rootless/.local/share/containers/storage@220:1516545"
    assert (found.free, found.spool_free) == (58750516 * 1024, 58754444 * 1024)
    assert found.one_disk
    assert found.spool_on == frozenset()
    assert found.images == ()
    assert facts(answer("rootful")).spool_on == {"stage"}
    assert facts(answer("rootless").replace("@@spool\nfuse-overlayfs ", "@@spool\n/dev/vda ")).spool_on == {
        "engine",
        "stage",
    }


def test_partial_answers_are_not_taken_for_answers() -> None:
    """When the images could not be listed nothing is said of the host: exit 23, never "missing"."""
    for broken in (
        answer("rootful").replace("@@images_status\n0", "@@images_status\n125\nError: database is locked"),
        answer("rootful").partition("@@images_status")[0],
    ):
        with pytest.raises(IdentityError) as caught:
            facts(broken)
        assert caught.value.code == 23


@pytest.mark.parametrize(
    ("output", "words", "hint"),
    [
        ("sh: 1: podman: not found", "no podman command", "install Podman"),
        ("sudo: a password is required", "sudo asks for a password", "that user's own images"),
        ("cannot find newuidmap: exec: not found", "no subordinate IDs", "podman system migrate"),
        ("Error: unable to connect to Podman socket: refused", "does not answer", "podman info"),
    ],
)
def test_missing_engine_is_explained(output: str, words: str, hint: str) -> None:
    """Each has its own sentence and a cure that is Podman's."""
    with pytest.raises(HostUnfitError) as caught:
        facts(f"\n@@info\n{output}\n@@info_status\n125\n")
    assert words in caught.value.what
    assert hint in str(caught.value)
    assert caught.value.code == 21


def test_podman_under_dockers_name() -> None:
    """`docker` that is Podman's, or is not there while Podman is, is told with the line of the matrix that cures it."""
    host = Host("gpu-b")
    for said in ("null", "sh: 1: docker: not found"):
        text = f"@@version\n{said}\n@@podman\npodman version 5.4.2\n"
        with pytest.raises(HostUnfitError, match=r"gpu-b: \{engine: podman\}"):
            parse(host, Docker("docker"), Completed(0, text.encode(), ""))


def test_another_exact_name_is_another_image() -> None:
    """Beside a name of this machine alone Podman may hold Docker Hub's: what was asked for is found first."""
    own = answer("rootful").splitlines()[-1]
    other = own.replace(ID, "b" * 64).replace(
        "localhost/difference-sample:v1", "docker.io/library/difference-sample:v1"
    )
    for lines in (f"{own}\n{other}", f"{other}\n{own}"):
        found = facts(answer("rootful").replace(own, lines))
        assert len(found.images) == 2
        for name, digest in (("", ID), ("docker.io/library/", "b" * 64)):
            image = found.tagged(f"{name}difference-sample:v1")
            assert image is not None
            assert image.id == f"sha256:{digest}"


def test_the_engine_is_named_by_a_flag() -> None:
    """sudo and a socket are part of every command."""
    host = Host("h", ssh="h", docker="podman", engine="podman", sudo=True, docker_host="unix:///run/x.sock")
    peer = connect(host)
    assert peer.engine.kind == "podman"
    assert 'engine() { sudo -n podman --url unix:///run/x.sock "$@"; }' in probe_script(peer.engine)
    peer.transport.close()


@pytest.fixture
def run(tmp_path: Path):
    """Run functions on a stand-in for Podman that warns, notes how it was called, and answers by `answers`."""
    podman = tmp_path / "podman"

    def call(script: str, answers: str = "") -> tuple[int, str, list[str]]:
        body = f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\necho \'{WARNING}\' >&2\ncase "$*" in\n{answers}\nesac\n'
        podman.write_text(body)
        podman.chmod(0o755)
        argv = ["sh", "-c", f"{Podman(str(podman)).functions}\n{script}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        asked = tmp_path / "asked"
        return done.returncode, done.stdout, asked.read_text().splitlines() if asked.exists() else []

    return call


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("x:1", "localhost/x:1"),
        ("me/x:1", "localhost/me/x:1"),
        ("ghcr.io/me/x:1", "ghcr.io/me/x:1"),
        ("registry:5000/x:1", "registry:5000/x:1"),
        ("localhost/x:1", "localhost/x:1"),
        (f"sha256:{ID}", f"sha256:{ID}"),
    ],
)
def test_short_names_are_those_of_this_machine(run, name: str, asked: str) -> None:
    """A short name is asked for as Podman keeps it: by its short form any registry's would answer."""
    assert run(f"tag_image sha256:{ID} {name}")[2][-1] == f"tag sha256:{ID} {asked}"
    status, out, words = run(f"image_id {name}", f'"image inspect"*) echo {ID} ;;')
    assert (status, out) == (0, f"sha256:{ID}\n")
    assert words[-1].endswith(asked)


def test_what_is_not_there_has_no_id(run) -> None:
    """Nothing is printed, and it fails."""
    assert run("image_id x:1", '"image inspect"*) exit 125 ;;')[:2] == (125, "")


def test_warnings_are_no_answers(run) -> None:
    """Podman warns at every call: the container's ID is told from that, and a reason is its own words."""
    made = f'create*) echo {ID} ;; "cp /etc/hosts"*) echo "Error: lower layer is gone" >&2; exit 125 ;;'
    status, out, asked = run(f"prove_image sha256:{ID}", made)
    assert (status, out) == (1, "Error: lower layer is gone\n")
    assert asked[-1] == f"rm -fv {ID}"
    assert run(f"prove_image sha256:{ID}", f"create*) echo {ID} ;;")[:2] == (0, "")
    status, out, _ = run("open_image x:1 || echo no", "create*) echo 'Error: x' >&2; exit 125 ;;")
    assert out == "Error: x\nno\n"


def test_names_go_on_older_ones_too(run) -> None:
    """Older ones know no --no-prune; what is refused for another reason stays refused."""
    old = "*--no-prune*) echo 'Error: unknown flag: --no-prune' >&2; exit 125 ;;"
    status, _, asked = run("drop_name x:1", old)
    assert (status, asked[-1]) == (0, "image rm localhost/x:1")
    used = "*--no-prune*) echo 'Error: image used by worker' >&2; exit 2 ;;"
    assert run("drop_name x:1 2>&1", used)[:2] == (1, "Error: image used by worker\n")


def test_containers_are_told_or_it_fails(run) -> None:
    """Those that buildah made count as well; without an answer it fails, and the reason is the last line."""
    status, out, asked = run("used_images", f"*--external*) echo {ID} worker ;;")
    assert (status, out) == (0, f"{ID} worker\n")
    assert "--external" in asked[-1]
    assert run("used_images", "ps*) echo 'Error: locked' >&2; exit 125 ;;")[:2] == (1, "Error: locked\n")
