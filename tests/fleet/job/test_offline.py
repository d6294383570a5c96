"""Bases in the store, and builders that reach no registry: the same image on another engine, of either store."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fleet.job.conftest import Project

#: Prints everything that an engine holds, and what a ship left on the host's disk.
HELD = (
    "docker image ls --no-trunc --format '{{.Repository}}:{{.Tag}} {{.ID}}' | sort;"
    " ls ~/.cache/sistership/stage 2>/dev/null || true"
)
#: The practice registry listens on the loopback of the builder alone.
REGISTRY = "bash -c 'echo > /dev/tcp/127.0.0.1/5000'"


@pytest.fixture
def elsewhere(project: Project) -> Iterator[Project]:
    """The same project with two more builders, which have no way to the registry; they hold nothing afterwards."""
    text = (project.folder / "buildmatrix.yaml").read_text()
    text = text.replace("builder: builder", "builder: containerd26").replace("classic20", "classic26")
    (project.folder / "offline.yaml").write_text(text)
    shutil.copy(project.folder / "buildmatrix.lock.json", project.folder / "offline.lock.json")
    for host in ("classic26", "containerd26"):
        project.forget(host)
        project.fleet.ssh(host, f"! {REGISTRY} 2>/dev/null")
    yield project
    for host in ("classic26", "containerd26"):
        project.forget(host)


@pytest.mark.full
def test_two_engines_without_a_registry_build_the_same(project: Project, elsewhere: Project) -> None:
    """Archived once, bases are built on by a classic and a containerd engine: same image, and engines as they were."""
    words = ("reproduce", "--variant", "sample", "--builder", "classic26", "--offline", "--matrix", "offline.yaml")
    missing = project.run(*words, code=11)
    assert "sistership lock --variant sample --archive-bases" in missing.err

    before = project.fleet.ssh("builder", HELD)
    lines = [json.loads(line) for line in project.run("lock", "--archive-bases", "--json").out.splitlines()]
    bases = [line for line in lines if line["type"] == "base"]
    pins = project.lock()["variants"]["sample"]["bases"]
    assert {base["base"] for base in bases} == set(pins.values())
    # The runtime base's layer came into the store with the built image.
    assert {base["base"]: base["new"] > 0 for base in bases} == {pins["build"]: True, pins["runtime"]: False}
    assert project.fleet.ssh("builder", HELD) == before
    assert ", none new" in project.run("lock", "--archive-bases").out

    empty = project.fleet.ssh("classic26", HELD)
    second = replace(project, environ={**project.environ, "SISTERSHIP_LOGS": str(project.folder / "second")})
    reproducing = second.start(*words)
    # Beside it, for another engine: built anew, since this lock knows no image yet.
    lock = json.loads((project.folder / "offline.lock.json").read_text())
    (project.folder / "fresh.lock.json").write_text(json.dumps({**lock, "images": {}}))
    shutil.copy(project.folder / "offline.yaml", project.folder / "fresh.yaml")
    built = project.run("build", "--offline", "--json", "--matrix", "fresh.yaml")
    out, err = reproducing.communicate(timeout=280)
    assert reproducing.returncode == 0, err
    assert out.startswith("same: recorded and built on classic26")
    (image,) = [line for line in map(json.loads, built.out.splitlines()) if line["type"] == "image"]
    assert (image["how"], image["builder"]) == ("built", "containerd26")
    assert image["config"] == project.record()["config"]
    assert project.fleet.ssh("classic26", HELD) == empty
    assert "base-" not in project.fleet.ssh("containerd26", HELD)
