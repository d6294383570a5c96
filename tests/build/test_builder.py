"""The build's command line, and what people see of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership.build.build import builder_host, sources_from
from sistership.build.builder import StepLines, build_script, failure
from sistership.errors import UsageError
from sistership.matrix.load import parse
from sistership.recipe.lock import LockedVariant
from sistership.recipe.recipe import recipe_of

if TYPE_CHECKING:
    from sistership.matrix.model import Matrix
    from sistership.recipe.recipe import Recipe

TEXT = b"""\
version: 1
builder: {linux/arm64: spark}
forks:
  upstream: {git: https://example.invalid/llama.cpp}
variants:
  alpha:
    fork: upstream
    commit: 84e908c625fb60992b4cdef8180fb12fa9b4c4bf
    image: alpha
    tag: v1
    backend: cpu
    platforms: [linux/amd64, linux/arm64]
    base: {build: "debian:bookworm", runtime: "debian:bookworm-slim"}
hosts:
  spark: {ssh: spark}
"""


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    """A small matrix that builds for arm64 elsewhere."""
    return parse(TEXT, tmp_path / "buildmatrix.yaml")


@pytest.fixture
def recipe(matrix: Matrix) -> Recipe:
    """A recipe of it."""
    bases = {"build": "debian@sha256:" + "1" * 64, "runtime": "debian@sha256:" + "2" * 64}
    locked = LockedVariant("0" * 64, "8" * 40, "4" * 40, 7, "2026-05-01T10:00:00Z", bases)
    return recipe_of(matrix, matrix.variants["alpha"], "linux/amd64", locked)


def test_no_attestations_and_a_tar_on_stdin(recipe: Recipe) -> None:
    """Attestations are off (case D57) and the context is standard input, never a folder."""
    script = build_script("docker", recipe)
    assert "--provenance=false --sbom=false" in script
    assert script.endswith(" - 2>&1")
    assert "--no-cache" not in script
    assert "--no-cache" in build_script("docker", recipe, no_cache=True)


def test_builder_is_chosen_by_platform(matrix: Matrix) -> None:
    """An arm64 box builds for arm64; without a builder this machine does."""
    variant = matrix.variants["alpha"]
    assert builder_host(matrix, variant, "linux/arm64").name == "spark"
    assert builder_host(matrix, variant, "linux/amd64").local


def test_people_see_steps_and_files() -> None:
    """Each step once, and each file that is compiled, however the output is cut."""
    told: list[str] = []
    counted: list[tuple[int, int]] = []
    steps = StepLines(told.append, lambda done, total: counted.append((done, total)))
    text = "#1 [internal] load\n#5 [build 1/2] COPY  x /x\n#5 DONE 0.1s\n#5 [build 1/2] COPY  x /x\n"
    text += "".join(f"#9 1.{n} [{n}/100] Building CXX object\n" for n in range(1, 101))
    for at in range(0, len(text), 7):
        steps.feed(text[at : at + 7].encode())
    assert told == ["[build 1/2] COPY x /x"]
    assert counted == [(done, 100) for done in range(1, 101)]


def test_failure_names_variant_builder_cause_and_log(recipe: Recipe) -> None:
    """A known cause is told with its cure, an unknown one with the last lines; both name the log."""
    known = str(failure(recipe, "spark", "undefined reference to `cuMemCreate'", Path("/l/build.log")))
    assert "alpha on spark" in known
    assert "vmm: false" in known
    assert "/l/build.log" in known
    assert "expected ';'" in str(failure(recipe, "spark", "x\nerror: expected ';'\n", Path("/l/build.log")))


def test_build_that_did_not_even_begin(recipe: Recipe) -> None:
    """A docker without buildx prints how it is called; what counts stands above that, and buildx is what is missing."""
    log = "unknown flag: --platform\nSee 'docker --help'.\n\nUsage:  docker\n" + "  more  text\n" * 40
    told = str(failure(recipe, "spark", log, Path("/l/build.log")))
    assert "unknown flag: --platform" in told
    assert "the docker command there has no buildx" in told
    assert "more  text" not in told
    # The same words of a step's own program, in a build that ran, are no such thing.
    ran = f"#5 [build 1/2] RUN x\n#5 0.1 unknown flag: --platform\n#5 0.2 {'y ' * 9}\n"
    assert "buildx" not in str(failure(recipe, "spark", ran, Path("/l/build.log")))


def test_sources_are_folders(tmp_path: Path) -> None:
    """--source takes FORK=DIR and refuses anything else with the reason."""
    assert sources_from([f"upstream={tmp_path}"]) == {"upstream": tmp_path}
    for wrong in ("upstream", "=x", "upstream=", f"upstream={tmp_path}/none"):
        with pytest.raises(UsageError):
            sources_from([wrong])
