"""What a probe's answer means."""

from __future__ import annotations

import json
import re

import pytest

from sistership.errors import HostUnfitError, IdentityError
from sistership.host.answers import parse_version
from sistership.host.docker import Docker, store_of
from sistership.host.engines import no_engine, refuse_elsewhere
from sistership.host.facts import HostFacts, probe_script
from sistership.host.facts import parse as parse_facts
from sistership.host.held import familiar
from sistership.host.transport import Completed
from sistership.matrix.model import Host

CLASSIC = {"Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "extfs"]], "ID": "AAAA"}
CONTAINERD = {"Driver": "overlayfs", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]], "ID": "BBBB"}


def parse(name: str, done: Completed) -> HostFacts:
    """Facts of a host with Docker."""
    return parse_facts(Host(name), Docker("docker"), done)


def answer(info: dict, version: str = "26.1.5", images: list[dict] | None = None) -> Completed:
    """A probe's output."""
    server = {"Version": version, "Os": "linux", "Arch": "amd64"}
    lines = ["", "@@machine", "x86_64", "@@tools", "zstd", "gzip", "sha256sum"]
    lines += ["@@zstd", "*** Zstandard CLI (64-bit) v1.5.4, by Yann Collet ***", "@@memory", "MemAvailable:   2000 kB"]
    lines += ["@@stage", "/dev/vda 1000 500 500 50% /", "@@staged", "12 abc.zst", "7 def.zst.part"]
    lines += ["@@version", json.dumps(server), "@@info", "WARNING: no swap", json.dumps(info), "@@info_status", "0"]
    lines += ["@@disk", "/dev/vda 100 50 40 50% /var/lib/docker", "@@disk2", "/dev/vdb 100 50 30 50% /var"]
    lines += ["@@images_status", "0", "@@images", *(json.dumps(image) for image in images or [])]
    return Completed(0, "\n".join(lines).encode(), "")


def test_everything_is_read() -> None:
    """Version, store, platform, disk, staged files, tools and images come out typed."""
    image = {
        "Id": "sha256:" + "a" * 64,
        "RepoTags": ["x:1"],
        "RootFS": {"Layers": ["sha256:" + "b" * 64]},
        "Os": "linux",
        "Architecture": "arm64",
        "Variant": "v8",
        "Config": {"Env": ["A=1"]},
        "Created": "2026-01-01T00:00:00Z",
    }
    facts = parse("h", answer(CLASSIC, images=[image]))
    assert (facts.version, facts.store, facts.daemon, facts.platform) == ("26.1.5", "classic", "AAAA", "linux/amd64")
    assert (facts.free, facts.stage_free) == (40 * 1024, 500 * 1024)
    assert facts.staged == {"abc.zst": 12, "def.zst.part": 7}
    assert facts.tools == {"zstd", "gzip", "sha256sum"}
    assert (facts.zstd, facts.memory) == ("1.5.4", 2000 * 1024)
    held = facts.tagged("docker.io/library/x:1")
    assert held is not None
    assert (held.platform, held.diff_ids) == ("linux/arm64/v8", ("sha256:" + "b" * 64,))


@pytest.mark.parametrize(
    ("said", "version", "memory"),
    [
        ("*** zstd command line interface 64-bits v1.4.4, by Yann Collet ***", "1.4.4", "MemAvailable: x kB"),
        ("sh: zstd: not found", "", ""),
    ],
)
def test_unknown_tools_and_memory_are_unknown(said: str, version: str, memory: str) -> None:
    """An older zstd tells its version in other words; none, or a kernel that says nothing, is told as that."""
    text = answer(CLASSIC).text.replace("*** Zstandard CLI (64-bit) v1.5.4, by Yann Collet ***", said)
    facts = parse("h", Completed(0, text.replace("MemAvailable:   2000 kB", memory).encode(), ""))
    assert (facts.zstd, facts.memory) == (version, None)


def test_partial_answers_are_not_taken_for_answers() -> None:
    """When `docker info` or `image ls` failed, nothing is said of the host: exit 23, never "missing"."""
    whole = answer(CLASSIC).text
    for broken in (
        whole.replace("@@info_status\n0", "@@info_status\n1"),
        whole.replace("@@images_status\n0", "@@images_status\n1\nError response from daemon: x"),
        whole.replace(json.dumps(CLASSIC), "{"),
        whole.partition("@@images_status")[0],
    ):
        with pytest.raises(IdentityError) as caught:
            parse("h", Completed(0, broken.encode(), ""))
        assert caught.value.code == 23


def test_full_disk_is_not_an_unknown_one() -> None:
    """No free byte is a figure; an unreadable line is none."""
    full = answer(CLASSIC).text.replace("/dev/vda 100 50 40 50%", "/dev/vda 100 50 0 50%")
    assert parse("h", Completed(0, full.encode(), "")).free == 0
    unread = full.replace("/dev/vda 100 50 0 50% /var/lib/docker", "df: no such file")
    facts = parse("h", Completed(0, unread.encode(), ""))
    assert facts.free is None
    assert parse("h", answer(CLASSIC)).one_disk
    assert not parse("h", answer(CONTAINERD)).one_disk


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:9", "ssh://prod"])
def test_forgotten_context_is_not_this_machine(endpoint: str) -> None:
    """A current context that leads elsewhere is refused for a local host (case C54)."""
    with pytest.raises(HostUnfitError, match="docker context use default"):
        refuse_elsewhere("gpu-main", endpoint, local=True)
    refuse_elsewhere("gpu-main", "unix:///var/run/docker.sock", local=True)
    refuse_elsewhere("gpu-main", "", local=True)


def test_store_is_told_by_driver_status_alone() -> None:
    """The store is never guessed from the version; the containerd store's own disk is asked."""
    assert store_of(CLASSIC) == "classic"
    assert store_of(CONTAINERD) == "containerd"
    assert store_of({"Driver": "overlayfs"}) == "classic"
    assert parse("h", answer(CONTAINERD, version="29.1.0")).free == 30 * 1024


@pytest.mark.parametrize(
    ("version", "reads"), [("20.10.24+dfsg1", False), ("22.06.0", False), ("23.0.0", True), ("26.1.5+dfsg1", True)]
)
def test_zstd_since_23(version: str, reads: bool) -> None:
    """Engines read tar+zstd layers since 23.0; Debian's version suffix does not confuse it."""
    assert parse("h", answer(CLASSIC, version=version)).reads_zstd is reads


def test_nonsense_version_counts_as_old() -> None:
    """A version that cannot be read counts as the oldest: plain layers load everywhere."""
    assert parse_version("dev") < parse_version("1.0")


@pytest.mark.parametrize(
    ("output", "words", "hint"),
    [
        ("sh: 1: docker: not found", "no docker command", "docker: /path"),
        ("sudo: a password is required", "sudo asks for a password", "NOPASSWD"),
        ("sudo: a terminal is required to read the password", "sudo asks for a password", "NOPASSWD"),
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            "no right to use",
            "docker group",
        ),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "does not answer", "systemctl start"),
        ("", "does not answer", "systemctl start"),
    ],
)
def test_missing_engine_is_explained(output: str, words: str, hint: str) -> None:
    """Every way an engine fails to answer has its own sentence and cure (case C35 for sudo), and exit code 21."""
    error = no_engine("gpu-b", output)
    assert words in error.what
    assert hint in str(error)
    assert error.code == 21
    with pytest.raises(HostUnfitError):
        parse("gpu-b", Completed(0, f"\n@@version\n{output}\n".encode(), ""))


def test_probe_asks_with_the_given_words() -> None:
    """Engine words such as `sudo -n docker` are used for every question."""
    script = probe_script(Docker("sudo -n docker"), ["x:1", "a b"])
    assert 'engine() { sudo -n docker "$@"; }' in script
    assert "ask_engine x:1 'a b'" in script
    assert not re.search(r"(?m)^ *(docker|\$\(docker) ", script)


def test_familiar_names() -> None:
    """`docker.io/library/x:1` and `x:1` are one name, another registry's is not."""
    assert familiar("docker.io/library/x:1") == familiar("x:1")
    assert familiar("docker.io/u/x:1") == "u/x:1"
    assert familiar("sistership.local/x:1") == "sistership.local/x:1"
