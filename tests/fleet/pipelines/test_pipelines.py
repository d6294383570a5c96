"""What CI does: build on one clone, export, import on another, ship from there, verify; on real engines."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sistership.build.builder import digest_of
from sistership.errors import BuildError
from sistership.host.inventory import connect
from sistership.matrix.load import load

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet
    from tests.fleet.pipelines.conftest import Clone


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    """Host → verdict."""
    return {host["host"]: host["verdict"] for host in document["hosts"]}


ACCEPT = (
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json"
)
ALL_OK = {"builder": "ok", "classic20": "ok", "containerd26": "ok"}


def test_documented_workflow_ships_without_source_and_engine(first: Clone, second: Clone, released: Path) -> None:
    """The GitHub workflow's own scripts: both clones know the same image, every host verifies, git and docker slept."""
    assert released.is_file()
    assert second.lock == first.lock
    assert verdicts(second.json("verify")) == ALL_OK
    assert not (second.folder / "called").exists()
    assert not (second.folder / "sample.git").exists()


def test_nothing_left_to_build(first: Clone, released: Path) -> None:
    """With the image in the lock the next run's matrix is empty."""
    assert first.shell("sistership matrix --format github") == 'matrix={"include":[]}\n'
    (job,) = first.json("matrix")["jobs"]
    assert (job["builder"], job["hosts"]) == ("builder", ["builder", "classic20", "containerd26"])


@pytest.mark.full
def test_documented_gitlab_pipeline(first: Clone, second: Clone, released: Path) -> None:
    """The GitLab pipeline's own lines, in the same two clones."""
    path = Path(__file__).parents[3] / "docs" / "ci" / "gitlab-ci.yml"
    document = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    environ = {"VARIANTS": "sample", "VARIANT": "sample", "PLATFORM": "linux/amd64", "NAME": "gitlab"}
    shutil.rmtree(second.folder / "out")
    for job, here in {"plan": first, "build": first, "ship": second, "release": second}.items():
        if job == "ship":
            (second.folder / "out").mkdir()
            for name in ("gitlab.tar", "gitlab.tar.sha256"):
                shutil.copy(first.folder / "out" / name, second.folder / "out" / name)
        for line in document[job]["script"]:
            here.shell(line, environ)
    assert json.loads((first.folder / "matrix.json").read_text())["type"] == "matrix"
    shutil.copytree(first.folder / "out", second.folder / "out", dirs_exist_ok=True)
    assert (second.folder / "out" / "gitlab.tar").read_bytes() == released.read_bytes()


def test_same_bytes_from_the_machine_that_imported(second: Clone, released: Path) -> None:
    """Exported again where it was imported, the file is the same."""
    document = second.json("export", "--output", "again.tar")
    assert document["sha256"] == hashlib.sha256(released.read_bytes()).hexdigest()


def test_engines_load_the_file_as_it_is(fleet: Fleet, first: Clone, released: Path) -> None:
    """`docker load` of the export gives the known ID on engines that read zstd, and ignores what is ours."""
    ids = first.json("plan")["images"][0]["ids"]
    config = next(iter(first.lock["images"].values()))["config"]
    unique = f"sistership.local/pipe-sample:{config[7:19]}"
    for host, store in (("builder", "classic"), ("containerd26", "containerd")):
        fleet.ssh(host, f"docker rmi -f pipe-sample:v1 {unique}")
        fleet.ssh(host, "docker load", stdin=released.read_bytes())
        assert fleet.ssh(host, f"docker image inspect -f '{{{{.Id}}}}' {unique}").strip() == ids[store][0]
        assert "version" in fleet.ssh(host, f"docker run --rm --network none {unique} llama-cli --version 2>&1")
    first.shell("sistership ship")


def test_other_tools_read_the_file(first: Clone, released: Path) -> None:
    """skopeo takes the file for the OCI layout that it is: same config, same manifest, every layer."""
    (record,) = first.lock["images"].values()
    where = f"oci-archive:{released}"
    raw = subprocess.run(["skopeo", "inspect", "--raw", where], capture_output=True, check=True).stdout
    assert f"sha256:{hashlib.sha256(raw).hexdigest()}" == record["manifest"]
    config = subprocess.run(["skopeo", "inspect", "--config", "--raw", where], capture_output=True, check=True).stdout
    assert f"sha256:{hashlib.sha256(config).hexdigest()}" == record["config"]
    shown = json.loads(subprocess.run(["skopeo", "inspect", where], capture_output=True, check=True).stdout)
    assert shown["Layers"] == [layer["digest"] for layer in record["layers"]]
    assert shown["Labels"]["dev.sistership.variant"] == "sample"


def test_hosts_are_measured_by_the_file(fleet: Fleet, second: Clone, released: Path) -> None:
    """`verify --expect` needs no lock: ok by export, identity and lock; another image on one host is exit 23."""
    second.shell(f"tar -xOf {released} sistership.json > identity.json")
    shutil.copy(second.folder / "buildmatrix.lock.json", second.folder / "other.lock.json")
    kept = (second.folder / "buildmatrix.lock.json").read_bytes()
    (second.folder / "buildmatrix.lock.json").unlink()
    try:
        for name in (str(released), "identity.json", "other.lock.json", "out"):
            assert verdicts(second.json("verify", "--expect", name)) == ALL_OK, name
        fleet.ssh("classic20", "docker tag pipe-sample:v1 keep:1")
        fleet.ssh("classic20", "printf x > /tmp/x && tar -C /tmp -c x | docker import - pipe-sample:v1")
        found = second.json("verify", "--expect", str(released), code=23)
        assert verdicts(found) == {**ALL_OK, "classic20": "tag moved"}
    finally:
        (second.folder / "buildmatrix.lock.json").write_bytes(kept)
        fleet.ssh("classic20", "docker tag keep:1 pipe-sample:v1; docker rmi keep:1")


def test_bases_have_the_digest_that_the_registry_gives(fleet: Fleet, first: Clone) -> None:
    """`lock` pins a base by asking its registry from the builder: the digest of the manifest's own bytes."""
    (locked,) = first.lock["variants"].values()
    for name, path in (("build", "practice/build"), ("runtime", "practice/runtime")):
        script = f"""
exec 3<>/dev/tcp/127.0.0.1/5000
printf 'GET /v2/{path}/manifests/bookworm HTTP/1.0\\r\\nAccept: {ACCEPT}\\r\\n\\r\\n' >&3
cat <&3
"""
        answer = fleet.ssh("builder", f"bash -c {shlex.quote(script)}")
        (digest,) = re.findall(r"(?im)^docker-content-digest: (sha256:[0-9a-f]{64})", answer)
        assert locked["bases"][name] == f"127.0.0.1:5000/{path}:bookworm@{digest}"


def test_base_that_the_registry_does_not_know(first: Clone) -> None:
    """Which base, from which builder, why, and how to go on without the registry."""
    builder = load(first.folder / "buildmatrix.yaml").hosts["builder"]
    peer = connect(builder)
    try:
        with pytest.raises(BuildError, match="practice/build:nope") as raised:
            digest_of(peer, "127.0.0.1:5000/practice/build:nope")
    finally:
        peer.transport.close()
    assert raised.value.where == "builder"
    assert "not found" in str(raised.value.why)
    assert "correct `base:`" in str(raised.value.hint)
