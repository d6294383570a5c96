"""containerd by ctr: what its answers mean, and what the functions make of names, containers and links."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sistership.errors import HostUnfitError, IdentityError
from sistership.host.containerd import Containerd, containerd_words, no_containerd
from sistership.host.inventory import connect
from sistership.matrix.model import Host

from .probes import read, recorded

HOST = Host("node", ssh="node", docker="ctr", engine="containerd", namespace="k8s.io")
CTR = Containerd(containerd_words(HOST))
MANIFEST = "sha256:d3df093947444cae12414a877aa33c5657adf009b6229d096cc30a3e4ee68645"
CONFIG = "sha256:806a0019fe0404dbca952af822a87dcda5477249d99c917002e7e6e7183a37ea"
LOST = "sha256:8046585481646eeb2e13bfc2216b914663e684f867e5078937353da9e5df6baa"
UNREFERENCED = "sha256:99949b534762dd8908a28cb3919c1f879878bbfadd7b9a0605aa88e5e9936bd2"
UNIQUE = "sistership.local/sistership-sample:806a0019fe04"

#: What containerd 1.7.24 answered to a probe.
answer = partial(recorded, "containerd")
facts = partial(read, HOST, CTR)


def test_everything_is_read() -> None:
    """The ID is the manifest digest; the CRI plugin's name is none; what was pulled by digest is told apart."""
    found = facts(answer("complete"))
    assert (found.version, found.store, found.engine) == ("1.7.24~ds1", "containerd", "containerd")
    assert (found.platform, found.daemon) == ("linux/amd64", "daf1764d-111a-44ca-b64a-98223bb12422/k8s.io")
    assert found.free == 59781584 * 1024
    assert found.reads_zstd
    (image,) = found.images
    assert image.id == MANIFEST
    assert image.tags == ("docker.io/library/sistership-sample:practice", UNIQUE)
    assert image.digests == (f"registry.lan:5000/team/x@{MANIFEST}",)
    assert len(image.diff_ids) == 5
    assert (image.platform, image.created) == ("linux/amd64", "2026-01-09T00:00:00Z")
    assert image.config["Labels"]["dev.sistership.variant"] == "sample"
    assert image.tagged == "2026-11-29T20:05:00Z"
    assert image.size == int(59.3 * 2**20)
    assert found.tagged("sistership-sample:practice") is image
    assert found.blobs is not None
    assert {MANIFEST, CONFIG, LOST} < found.blobs
    assert len(found.blobs) == 7


def test_a_layer_that_is_not_there_is_no_layer() -> None:
    """An import that failed leaves its name: no layers are shown, so no ID makes it whole."""
    found = facts(answer("incomplete"))
    (image,) = found.images
    assert (image.id, image.tags, image.diff_ids) == (MANIFEST, (UNIQUE,), ())
    assert found.blobs is not None
    assert LOST not in found.blobs
    assert len(found.blobs) == 6


def test_unpacked_is_as_good_as_there() -> None:
    """Nodes may throw away the blobs of what is unpacked: the image can be used, but nothing counts as a blob."""
    text = answer("complete")
    gone = "\n".join(line for line in text.splitlines() if not line.startswith(LOST))
    found = facts(gone)
    assert len(found.images[0].diff_ids) == 5
    assert found.blobs is not None
    assert LOST not in found.blobs


def test_an_index_is_read_through() -> None:
    """A name that leads to an index shows the platform's image under the index's digest."""
    found = facts(answer("index"))
    index = found.tagged("multi:1")
    assert index is not None
    assert index.id not in {MANIFEST, CONFIG}
    assert len(index.diff_ids) == 5
    assert {image.id for image in found.images} == {index.id, MANIFEST}


def test_what_nothing_holds_may_go() -> None:
    """A blob that no image names is garbage that containerd collects at its own time: nothing may be built on it."""
    text = answer("complete").replace("@@content\n", f"@@content\n{UNREFERENCED}\t11.4kB\t5 seconds\t-\n")
    found = facts(text)
    assert UNREFERENCED in text
    assert found.blobs == facts(answer("complete")).blobs


@pytest.mark.parametrize("section", ["images", "content"])
def test_partial_answers_are_not_taken_for_answers(section: str) -> None:
    """When ctr could not list, nothing is said of the host, never "missing"."""
    text = answer("complete")
    assert f"@@{section}_status\n0" in text
    with pytest.raises(IdentityError, match="only in part"):
        facts(text.replace(f"@@{section}_status\n0", f"@@{section}_status\n1\nctr: unavailable"))


@pytest.mark.parametrize(
    ("said", "what", "hint"),
    [
        (
            'ctr: failed to dial "/run/containerd/containerd.sock": … connect: permission denied',
            "no right to use containerd there",
            "sudo: true",
        ),
        (
            'ctr: failed to dial "/run/none.sock": context deadline exceeded: connection error: … timeout',
            "containerd does not answer at that address",
            "docker_host: unix:///run/k3s/containerd/containerd.sock",
        ),
        ("sh: 1: ctr: not found", "there is no ctr there", "docker: /path/to/ctr"),
        ("sudo: a password is required", "sudo does not start ctr there without being asked", "NOPASSWD"),
        ("sudo: ctr: command not found", "there is no ctr there", "docker: /path/to/ctr"),
        ("sh: sudo: not found", "there is no sudo there", "log in as root"),
        ("", "containerd does not answer", "systemctl status containerd"),
    ],
)
def test_no_answer_is_explained(said: str, what: str, hint: str) -> None:
    """What ctr prints where it cannot speak to containerd, with the next step that fits."""
    error = no_containerd(HOST, said)
    assert error.what == what
    assert hint in str(error.hint)
    with pytest.raises(HostUnfitError, match=what):
        facts(f"\n@@machine\nx86_64\n@@version\nClient:\n  Version:  1.7.24\n{said}\n")


def test_words() -> None:
    """Address and namespace are flags: sudo drops variables. A peer of such a host speaks by them."""
    node = replace(HOST, sudo=True, docker_host="unix:///run/k3s/containerd/containerd.sock", namespace="other")
    words = "sudo -n ctr --address /run/k3s/containerd/containerd.sock --namespace other"
    assert containerd_words(node) == words
    peer = connect(replace(node, local=True, ssh=None))
    assert (peer.engine.kind, peer.engine.cli) == ("containerd", words)
    assert f'engine() {{ {words} "$@"; }}' in peer.engine.functions
    assert 'as_root() { sudo -n "$@"; }' in peer.engine.functions
    assert 'as_root() { "$@"; }' in CTR.functions


#: ctr as far as these tests need it: what it lists comes from files.
FAKE = """
ctr() {
  shift 2
  case "$*" in
    "content ls --quiet") cut -f1 content ;;
    "images pull x@"*) cat pulled; [ ! -e fails ] ;;
    "images ls" | "content ls" | "snapshots ls" | "containers ls") cat "$1" ;;
    *) echo "ctr $*" ;;
  esac
}
"""
TOP = "sha256:776f78d966723a3a097731434650292b8d0bfdf75b66b8379d31cd66d1fcd0b4"


def lists(folder: Path, text: str) -> None:
    """Let ctr list the images and the content of an answer."""
    for name in ("images", "content"):
        (folder / name).write_text(text.partition(f"@@{name}\n")[2].partition("\n@@")[0])


def run(folder: Path, script: str, *, code: int = 0) -> str:
    """Run shell after the functions, in a folder with the lists that ctr gives; what it printed."""
    if not (folder / "images").exists():
        lists(folder, answer("complete"))
    done = subprocess.run(
        ["sh", "-c", f"{FAKE}\n{CTR.functions}\n{script}"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("x:1", "docker.io/library/x:1"),
        ("me/x:1", "docker.io/me/x:1"),
        ("docker.io/x:1", "docker.io/library/x:1"),
        ("docker.io/library/x:1", "docker.io/library/x:1"),
        ("registry.lan/x:1", "registry.lan/x:1"),
        ("registry:5000/x:1", "registry:5000/x:1"),
        ("localhost/x:1", "localhost/x:1"),
        (UNIQUE, UNIQUE),
    ],
)
def test_names_are_whole(tmp_path: Path, name: str, whole: str) -> None:
    """As Docker and Kubernetes complete them."""
    assert run(tmp_path, f"full_name {name}") == f"{whole}\n"


def test_an_image_has_one_name_to_be_called_by(tmp_path: Path) -> None:
    """Never the CRI plugin's as long as there is another; what is not there is an error that says so."""
    assert run(tmp_path, f"name_of {MANIFEST}") == f"{UNIQUE}\n"
    assert run(tmp_path, "image_id sistership-sample:practice") == f"{MANIFEST}\n"
    run(tmp_path, "image_id nosuch:1", code=1)
    run(tmp_path, f"prove_image {CONFIG}", code=1)
    assert run(tmp_path, "prove_image nosuch:1", code=1) == "it holds no image nosuch:1\n"
    run(tmp_path, "drop_name nosuch:1", code=1)


@pytest.mark.parametrize(
    ("snapshots", "boxes", "used"),
    [
        ("", "", []),
        # By what its files lie on, whatever its image's name is by now; by its name where nothing lies there.
        (f"box {TOP} Active", "box docker.io/library/gone:1 runc", [f"{MANIFEST} box"]),
        ("", f"box {UNIQUE} runc", [f"{MANIFEST} box"]),
        # An image's own layers, one that is being unpacked and one that is only looked at are nobody's container.
        (f"{TOP} sha256:00 Committed\nextract-1-a {TOP} Active\n/tmp/sistership.1 {TOP} View", "", []),
        ("box sha256:00 Active\nfirst Active", "", []),
    ],
)
def test_what_containers_use(tmp_path: Path, snapshots: str, boxes: str, used: list[str]) -> None:
    """The image of every container, by the manifest digest that facts show."""
    (tmp_path / "snapshots").write_text(f"KEY PARENT KIND\n{snapshots}\n")
    (tmp_path / "containers").write_text(f"CONTAINER IMAGE RUNTIME\n{boxes}\n")
    assert run(tmp_path, "used_images").splitlines() == used


def test_a_list_that_fails_is_no_empty_list(tmp_path: Path) -> None:
    """Nothing is removed when containers are not told of."""
    (tmp_path / "snapshots").write_text("KEY PARENT KIND\n")
    run(tmp_path, "used_images", code=1)


def test_an_index_is_used_with_its_image(tmp_path: Path) -> None:
    """A container of a name that leads to an index keeps both."""
    text = answer("index")
    lists(tmp_path, text)
    (tmp_path / "snapshots").write_text(f"KEY PARENT KIND\nbox {TOP} Active\n")
    (tmp_path / "containers").write_text("CONTAINER IMAGE RUNTIME\n")
    lines = run(tmp_path, "used_images").splitlines()
    assert {line.split()[0] for line in lines} == {image.id for image in facts(text).images}


#: As ctr 1.7.24 prints a pull that nobody looks at: it says "done" of what it had, too.
PULLED = """x@sha256:1eaa: resolved |++++++|
manifest-sha256:1eaac770ecc23edc6c3b217b5644cffc2b2df14feec5e56c98ed743c3551905c: done           |++++++|
layer-{had}:    done           |++++++|
layer-sha256:0d9934240328113d54245699429a1047113e772a2d32b283fb001d9a2c69898e:    downloading    |+++++-|
elapsed: 1.2 s  total:  65.0 M (54.1 MiB/s)
layer-{had}:    done           |++++++|
layer-sha256:0d9934240328113d54245699429a1047113e772a2d32b283fb001d9a2c69898e:    done           |++++++|
elapsed: 1.5 s  total:  70.0 M (47.1 MiB/s)
unpacking linux/amd64 sha256:1eaa...
"""


def test_a_pull_is_told_in_dockers_words(tmp_path: Path) -> None:
    """Each layer once, and what was there is told from what came; a pull that failed says why, and fails."""
    (tmp_path / "pulled").write_text(PULLED.format(had=LOST))
    said = run(tmp_path, f"pull_image x@{MANIFEST}").splitlines()
    assert said[:2] == ["804658548164: Already exists", "0d9934240328: Pull complete"]
    assert said[2].startswith("unpacking")
    (tmp_path / "fails").touch()
    (tmp_path / "pulled").write_text('ctr: failed to resolve reference "x": 401 Unauthorized\n')
    assert "401 Unauthorized" in run(tmp_path, f"pull_image x@{MANIFEST}", code=1)


def test_no_link_leads_out_of_the_image(tmp_path: Path) -> None:
    """A link inside the image to a folder of the host gives nothing; a folder's link inside it does."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "usr/lib").mkdir(parents=True)
    outside.mkdir()
    (root / "usr/lib/a").write_text("inside")
    (outside / "a").write_text("secret")
    (root / "lib").symlink_to("usr/lib")
    (root / "out").symlink_to(outside)
    assert run(tmp_path, f"mounted={root}; copy_out /lib/a | tar -xO") == "inside"
    assert run(tmp_path, f"mounted={root}; copy_out /out/a", code=1) == ""
    assert run(tmp_path, f"mounted={root}; copy_out /../outside/a", code=1) == ""
    assert run(tmp_path, f"mounted={root}; copy_out /usr/lib/none | tar -xO 2>/dev/null; true") == ""
