"""From an installed wheel in an empty folder to verified hosts; `doctor` and `init` on real machines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from sistership.matrix.load import load

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

ROOT = Path(__file__).parents[3]
PEERS = ("classic20", "containerd26")

#: What a user changes under variants: another source, commit, image and base; no card.
VARIANT = """\
  llamacpp:
    fork: sample
    commit: main
    image: start-sample
    tag: first
    backend: cpu
    base: {build: "127.0.0.1:5000/practice/build:bookworm", runtime: "127.0.0.1:5000/practice/runtime:bookworm"}
    packages: []
    patches: [{file: rpc-zero-byte-tensor.patch, why: practice}]
"""


@dataclass(frozen=True)
class Installed:
    """sistership from a wheel, in a folder where nothing else of the project is."""

    package: Path
    folder: Path

    def run(self, *words: str, code: int = 0) -> str:
        """Standard output of `sistership WORDS` in the folder; the exit code must be `code`."""
        own = {
            name: str(self.folder.parent / name) for name in ("SISTERSHIP_STORE", "SISTERSHIP_LOGS", "SISTERSHIP_CACHE")
        }
        done = subprocess.run(
            [sys.executable, "-m", "sistership", *words],
            cwd=self.folder,
            env={**os.environ, **own, "PYTHONPATH": str(self.package)},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked where PYTHONPATH finds it first."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "package")
    return folder / "package"


@pytest.fixture
def installed(package: Path, tmp_path: Path) -> Installed:
    """An empty folder."""
    (tmp_path / "empty").mkdir()
    return Installed(package, tmp_path / "empty")


def edit(matrix: Path, sample: Path) -> None:
    """The two edits that `init` asks for: what is built, and which machines get it."""
    text = matrix.read_text()
    text = re.sub(r"^  llamacpp:\n(    .*\n)+", VARIANT, text, flags=re.MULTILINE)
    text = text.replace("forks:\n", f"forks:\n  sample: {{git: {sample}}}\n", 1)
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith(("  here:", "  classic26:"))]
    matrix.write_text("".join(kept).replace("classic26, ", ""))


def test_from_a_wheel_to_verified_hosts(installed: Installed, fleet: Fleet) -> None:
    """init, two edits, build, ship, verify: templates and patches come from the package, hosts from ssh aliases."""
    try:
        said = installed.run("init", "--ssh-config", str(fleet.files.ssh_config))
        assert "Two edits make it yours" in said
        matrix = installed.folder / "buildmatrix.yaml"
        assert {*PEERS, "builder"} <= set(load(matrix).hosts)
        assert load(matrix).builders == {"linux/amd64": "builder"} or "here" in load(matrix).hosts
        edit(matrix, fleet.files.sample)
        assert "nothing to cure" in installed.run("doctor")
        installed.run("build")
        installed.run("ship")
        verdicts = json.loads(installed.run("verify", "--json"))["hosts"]
        assert {each["host"]: each["verdict"] for each in verdicts} == {
            "builder": "ok",
            "classic20": "ok",
            "containerd26": "ok",
        }
        names = {path.name for path in installed.folder.iterdir()} - {".sistership"}
        assert names == {".gitignore", "buildmatrix.yaml", "buildmatrix.schema.json", "buildmatrix.lock.json"}
    finally:
        for host in (*PEERS, "builder"):
            fleet.ssh(host, "docker images -q '*start-sample*' | sort -u | xargs -r docker rmi -f >/dev/null")


def small(folder: Path, fleet: Fleet, hosts: str) -> None:
    """A matrix with these rows of hosts, built by the builder."""
    rows = VARIANT.replace("first", "second")
    head = f"version: 1\nssh_config: {fleet.files.ssh_config}\nbuilder: builder\n"
    forks = f"forks: {{sample: {{git: {fleet.files.sample}}}}}\n"
    (folder / "buildmatrix.yaml").write_text(f"{head}{forks}variants:\n{rows}hosts:\n  builder: {{}}\n{hosts}")


def found(installed: Installed, *words: str, code: int) -> dict[str, list[str]]:
    """Host → what is not fine there, from `doctor --json`, which is valid."""
    document = json.loads(installed.run("doctor", "--json", *words, code=code))
    schema = json.loads((ROOT / "schemas" / "doctor.schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(document)
    told: dict[str, list[str]] = {}
    for each in document["findings"]:
        if each["level"] != "ok":
            told.setdefault(each["host"] or "", []).append(each["what"])
    return told


def test_doctor_finds_what_is_wrong(installed: Installed, fleet: Fleet) -> None:
    """Each real fault is told at its host: two names, no card, a wrong command, a wrong platform, nobody there."""
    hosts = """\
  classic20: {gpu: ["8.9"]}
  again: {ssh: classic20}
  wrong: {ssh: containerd26, docker: /opt/none/docker}
  arm: {ssh: containerd26, platform: linux/arm64}
  lost: {ssh: "root@host.invalid"}
"""
    small(installed.folder, fleet, hosts)
    told = found(installed, code=21)
    assert "builder" not in told
    assert any("no NVIDIA card is seen" in each for each in told["classic20"])
    assert any("same engine as classic20" in each for each in told["again"]), told
    assert any("/opt/none/docker reaches no engine, and /usr/bin/docker does" in each for each in told["wrong"]), told
    assert any("the matrix says linux/arm64" in each for each in told["arm"])
    assert told["lost"]
    assert set(found(installed, "--hosts", "lost", code=20)) >= {"lost"}
    assert "builder" not in found(installed, "--hosts", "builder", code=0)


def test_doctor_takes_one_round_trip(installed: Installed, fleet: Fleet) -> None:
    """Three hosts at once take about as long as one; nothing is left on them."""
    small(installed.folder, fleet, "  classic20: {}\n  containerd26: {}\n")
    before = {host: fleet.ssh(host, "find /root /tmp -newermt '-1 minute' | sort") for host in PEERS}
    began = time.monotonic()
    installed.run("doctor")
    assert time.monotonic() - began < 20
    after = {host: fleet.ssh(host, "ls -A /tmp | grep -i sistership || true") for host in PEERS}
    assert before
    assert set(after.values()) == {""}


def test_init_asks_each_alias_once_and_never_a_person(installed: Installed, fleet: Fleet, tmp_path: Path) -> None:
    """Aliases that answer become hosts, the others comments with the reason, in bounded time; --no-probe asks none."""
    config = tmp_path / "config"
    config.write_text(
        f"Include {fleet.files.ssh_config}\n"
        "Host nowhere\n  HostName host.invalid\nHost silent\n  HostName 192.0.2.7\nHost github.com\n  User git\n"
    )
    began = time.monotonic()
    installed.run("init", "--ssh-config", str(config))
    assert time.monotonic() - began < 30
    text = (installed.folder / "buildmatrix.yaml").read_text()
    assert set(PEERS) <= set(load(installed.folder / "buildmatrix.yaml").hosts)
    assert re.search(r"^  # nowhere: \{\} +# the name is not known$", text, re.MULTILINE)
    assert re.search(r"^  # silent: \{\} +# (it does not answer|no end after 12 s)$", text, re.MULTILINE)
    assert "github" not in text.partition("hosts:")[2]
    installed.run("init", "--no-probe", "--ssh-config", str(config), "--output", "other")
    assert list(load(installed.folder / "other" / "buildmatrix.yaml").hosts)[-2:] == ["nowhere", "silent"]
