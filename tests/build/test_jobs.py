"""What there is to build."""

from __future__ import annotations

import json

import pytest

from sistership.build.jobs import github, jobs
from sistership.recipe.lock import Lock


@pytest.fixture
def read(make):
    """The project's matrix."""
    return make.matrix()


def found(read, lock=None, *, stored=False):
    """The jobs by name."""
    made = jobs(read, tuple(read.variants.values()), lock or Lock(), lambda _: stored)
    return {job.name: job for job in made}


def test_one_job_per_variant_and_platform(read):
    """Names are unique and fit for files; nothing is locked, so no recipe is known."""
    made = found(read)
    assert list(made) == ["alpha-linux-amd64", "alpha-linux-arm64", "beta-linux-amd64"]
    assert {job.recipe for job in made.values()} == {None}
    assert {job.state for job in made.values()} == {"not locked"}
    assert [job.builder for job in made.values()] == ["this-machine", "spark", "this-machine"]


def test_hosts_that_need_it(read):
    """By platform and GPU, as far as the inventory says; CPU images are for every card."""
    hosts = {name: job.hosts for name, job in found(read).items()}
    assert hosts == {
        "alpha-linux-amd64": ("ada", "pascal"),
        "alpha-linux-arm64": ("spark", "pascal"),
        "beta-linux-amd64": ("ada",),
    }


def test_states(make, read):
    """Locked, built, and in the store are three different things."""
    export = make.exported(read, make.locked(read), make.image())
    lock = make.lock_with(export)
    made = found(read, lock)
    assert made["alpha-linux-amd64"].recipe == export.key
    assert (made["alpha-linux-amd64"].built, made["alpha-linux-amd64"].stored) == (True, False)
    assert made["alpha-linux-arm64"].state == "to be built"
    assert found(read, lock, stored=True)["alpha-linux-amd64"].state == "built, in the store"
    stale = make.matrix(make.text.replace("bookworm-slim@", "trixie-slim@"))
    assert found(stale, lock)["alpha-linux-amd64"].recipe is None


def test_document(read):
    """Every field by its own name, plain JSON."""
    document = found(read)["alpha-linux-arm64"].to_json()
    assert json.loads(json.dumps(document)) == {
        "name": "alpha-linux-arm64",
        "variant": "alpha",
        "platform": "linux/arm64",
        "image": "llamacpp-alpha",
        "tag": "v1",
        "recipe": None,
        "builder": "spark",
        "built": False,
        "stored": False,
        "hosts": ["spark", "pascal"],
    }


def test_github(make, read):
    """One line without what is built; when all is, the text that a job's `if` compares with."""
    export = make.exported(read, make.locked(read), make.image())
    made = found(read, make.lock_with(export)).values()
    line = github(made)
    assert line.count("\n") == 0
    name, _, value = line.partition("=")
    assert name == "matrix"
    assert [job["name"] for job in json.loads(value)["include"]] == ["alpha-linux-arm64", "beta-linux-amd64"]
    assert json.loads(value)["include"][0]["platform"] == "linux/arm64"
    assert github([job for job in made if job.built]) == 'matrix={"include":[]}'
