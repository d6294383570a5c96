"""The practice hosts are what they say."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import time

import pytest

from sistership import fleet as practice
from sistership.fleet import bases, containers, lifecycle, paths
from sistership.fleet.spec import BASES

pytestmark = pytest.mark.timeout(1200)


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize(
    ("host", "version", "store", "driver"),
    [
        ("builder", "26.1.", "classic", "overlay2"),
        ("classic20", "20.10.", "classic", "overlay2"),
        ("classic26", "26.1.", "classic", "overlay2"),
        ("containerd26", "26.1.", "containerd", "overlayfs"),
    ],
)
def test_engine_and_store(fleet, host, version, store, driver):
    """Each host has the engine and the store that its name promises, on a real overlay."""
    info = json.loads(fleet.ssh(host, "docker info --format '{{json .}}'"))
    assert info["ServerVersion"].startswith(version)
    assert info["Driver"] == driver
    assert fleet.states[host].engine.store == store
    assert fleet.states[host].engine.driver == driver


@pytest.mark.parametrize("host", sorted(spec.name for spec in lifecycle.chosen(None)))
def test_runs_a_container(fleet, host):
    """A container made from the host's own shell and libraries runs and prints."""
    tag = f"fleet-test-{host}:1"
    pack = "tar c -h -C / bin/sh $(ldd /bin/sh | grep -o '/[^ ]*' | sed 's,^/,,') 2>/dev/null"
    try:
        fleet.ssh(host, f"{pack} | docker import - {tag}")
        assert fleet.ssh(host, f"docker run --rm --network none {tag} /bin/sh -c 'echo hello'") == "hello\n"
    finally:
        fleet.ssh(host, f"docker rmi -f {tag} >/dev/null 2>&1; true")


def test_hosts_are_separate_machines(fleet):
    """No host sees another's images, and each has its own address and ssh host key."""
    addresses = {state.address for state in fleet.states.values()}
    known = [line.split() for line in fleet.files.known_hosts.read_text().splitlines()]
    keys = {words[2] for words in known if words[0].split(",")[0] in fleet.states}
    assert len(addresses) == len(keys) == len(fleet.states)


def test_host_keys_are_strict(fleet, tmp_path):
    """A host with another key than the known one is refused."""
    lines = fleet.files.known_hosts.read_text().splitlines()
    wrong = tmp_path / "known_hosts"
    builder, other = (next(line for line in lines if line.startswith(name)) for name in ("builder", "classic20"))
    wrong.write_text(" ".join([builder.split()[0], *other.split()[1:]]) + "\n")
    done = subprocess.run(
        [
            "ssh",
            "-F",
            fleet.files.ssh_config,
            "-o",
            "BatchMode=yes",
            "-o",
            f"UserKnownHostsFile={wrong}",
            "builder",
            "true",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr


def test_builder_builds_from_pinned_bases(fleet):
    """BuildKit on the builder takes both bases by digest, compiles without a network, and the result runs."""
    pinned = bases.pinned(paths.state())
    build, runtime = (pinned[base.reference] for base in BASES)
    dockerfile = (
        f"FROM {build} AS build\n"
        "RUN --network=none echo 'int main(){return 42;}' > /a.cpp && g++ -o /a /a.cpp && cmake --version\n"
        f"FROM {runtime}\nCOPY --from=build /a /usr/local/bin/answer\n"
    )
    command = "docker buildx build --provenance=false --sbom=false --progress=plain -t fleet-test-answer:1 -"
    try:
        fleet.ssh("builder", command, seconds=300, stdin=_tar({"Dockerfile": dockerfile.encode()}))
        assert fleet.ssh("builder", "docker run --rm --network none fleet-test-answer:1 answer; echo $?") == "42\n"
    finally:
        fleet.ssh("builder", "docker rmi -f fleet-test-answer:1 >/dev/null 2>&1; true")


def test_bases_have_digests_to_ask_for(fleet):
    """`docker buildx imagetools` on the builder names the digest that the fleet wrote."""
    for reference, pinned in bases.pinned(paths.state()).items():
        said = fleet.ssh("builder", f"docker buildx imagetools inspect {reference} --format '{{{{json .Manifest}}}}'")
        assert json.loads(said)["digest"] == pinned.rsplit("@", 1)[1]


def test_packages_can_be_installed_in_a_build(fleet):
    """Names resolve and the Debian mirror answers inside a container of the builder."""
    build = bases.pinned(paths.state())[BASES[0].reference]
    said = fleet.ssh("builder", f"docker run --rm {build} apt-get update", seconds=120)
    assert "Reading package lists" in said


def test_up_again_is_quick_and_changes_nothing(fleet):
    """A second `up` keeps every container and writes nothing anew, in less than ten seconds."""
    before = {name: container.id for name, container in containers.all_of_fleet(containers.connect()).items()}
    written = fleet.files.ssh_config.stat().st_mtime_ns
    start = time.monotonic()
    practice.up(fleet.project)
    assert time.monotonic() - start < 10
    assert {name: container.id for name, container in containers.all_of_fleet(containers.connect()).items()} == before
    assert fleet.files.ssh_config.stat().st_mtime_ns == written


def test_a_second_clone_reaches_the_same_fleet(fleet, tmp_path):
    """Another project gets ssh files of its own for the hosts that run, in a folder with a space in its name."""
    clone = tmp_path / "second clone"
    practice.up(clone, hosts=["classic20"])
    files = practice.project_files(clone)
    said = subprocess.run(
        ["ssh", "-F", files.ssh_config, "-o", "BatchMode=yes", "classic20", "hostname"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert said.stdout == "classic20\n"
    assert files.key.stat().st_mode & 0o777 == 0o600


def test_status_tells_all(fleet):
    """`status` names every host with address and engine; one on request may be there as well."""
    states = {state.name: state for state in practice.status()}
    assert states.items() >= fleet.states.items()
