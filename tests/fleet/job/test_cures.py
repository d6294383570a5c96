"""CUDA code built twice: the same with every cure, and with one switched off the report names what it cured.

The compiler is the real one of CUDA 13; only the cards are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sistership.resources import bundled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fleet.conftest import Fleet
    from tests.fleet.job.conftest import Done, Project

SUPPORT = bundled("dockerfiles") / "support"
MATRIX = """
version: 1
ssh_config: {ssh_config}
builder: builder
forks:
  sample: {{git: {sample}}}
hosts: {{builder: {{}}}}
variants:
  cuda:
    fork: sample
    commit: main
    image: job-cuda
    tag: v1
    packages: []
    cuda: {{toolkit: 13.2.0, archs: [89, 120]}}
    base:
      build: 127.0.0.1:5000/practice/cuda-build:bookworm
      runtime: 127.0.0.1:5000/practice/cuda-runtime:bookworm
    cmake: {{{cmake}}}
"""
#: Flags that link without -s: symbol tables stay.
UNSTRIPPED = ", ".join(f'CMAKE_{kind}_LINKER_FLAGS: "-Wl,--disable-new-dtags"' for kind in ("EXE", "SHARED", "MODULE"))
#: Where the launcher gives a compiler what it would draw by chance.
OBJTEMP = 'case $help in *--objdir-as-tempdir*) set -- "$@" -objtemp ;; esac'
SEED = 'case $help in *--frandom-seed*) set -- "$@" "-frandom-seed=$seed" ;; esac'
#: Another absolute path for every compile, as another build folder would be.
MOVED = """
place=$(mktemp -d)
cp -r /src "$place"
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    case $word in /src/*) word=$place$word ;; esac
    set -- "$@" "$word"
    count=$((count - 1))
done
"""


@pytest.fixture
def again(project_in: Callable[[Path], Project], fleet: Fleet, tmp_path: Path) -> Callable[..., Done]:
    """Builds the sample's CUDA variant twice, with an edited launcher; gives what `reproduce` said."""

    def run(*edits: tuple[str, str], cmake: str = "", code: int) -> Done:
        launcher = (SUPPORT / "launch.sh").read_text()
        for old, new in edits:
            assert old in launcher
            launcher = launcher.replace(old, new)
        (tmp_path / "dockerfiles/support").mkdir(parents=True)
        (tmp_path / "dockerfiles/support/launch.sh").write_text(launcher)
        (tmp_path / "buildmatrix.yaml").write_text(
            MATRIX.format(ssh_config=fleet.files.ssh_config, sample=fleet.files.sample, cmake=cmake)
        )
        project = project_in(tmp_path)
        project.run("build")
        return project.run("reproduce", "--variant", "cuda", "--json", code=code)

    return run


def told(done: Done) -> tuple[set[str], dict[str, str]]:
    """Of the CUDA library: the sections that differ, and cause → cure of what does not only follow."""
    document: dict[str, Any] = done.json()
    found = [each for each in document["differences"] if each["path"].endswith("/libggml-cuda.so.0")]
    assert len(found) == 1, done.out
    sections = {part["place"][-1] for part in found[0]["parts"]}
    cures = {cause["id"]: cause["cure"] for cause in document["causes"] if not cause["consequence"]}
    return sections, {name: cures[name] for name in found[0]["causes"] if name in cures}


@pytest.mark.full
def test_cuda_code_is_the_same_twice(again: Callable[..., Done]) -> None:
    """Stripped, for both archs: one config digest."""
    again(code=0)


@pytest.mark.full
def test_cuda_code_is_the_same_unstripped(again: Callable[..., Done]) -> None:
    """With every symbol table left in: the names inside are the same as well."""
    again(cmake=UNSTRIPPED, code=0)


@pytest.mark.full
def test_without_launcher_and_strip_both_causes_are_named(again: Callable[..., Done]) -> None:
    """Process numbers in symbol names and in module ids (bazel-contrib/rules_cuda#494): sections, causes and cures."""
    done = again((OBJTEMP, ":"), (SEED, ":"), cmake=UNSTRIPPED, code=14)
    parts, causes = told(done)
    assert {".strtab", ".nv_fatbin"} <= parts
    assert "-objtemp" in causes["nvcc-file-symbol"]
    assert "-frandom-seed" in causes["nvcc-module-id"]


@pytest.mark.full
def test_without_objtemp(again: Callable[..., Done]) -> None:
    """Unstripped and with the seed alone: bytes of the symbol names."""
    parts, causes = told(again((OBJTEMP, ":"), cmake=UNSTRIPPED, code=14))
    assert ".strtab" in parts
    assert set(causes) == {"nvcc-file-symbol"}


@pytest.mark.full
def test_without_seed(again: Callable[..., Done]) -> None:
    """Stripped and with objtemp: the module ids of files without a plain external function stay different."""
    parts, causes = told(again((SEED, ":"), code=14))
    assert ".nv_fatbin" in parts
    assert "nvcc-module-id" in causes or "nvcc-device-code" in causes
    assert all("-frandom-seed" in cure for cure in causes.values())


@pytest.mark.full
def test_without_a_fixed_path(again: Callable[..., Done]) -> None:
    """Every compile at another absolute path: names with internal linkage carry a hash of it, which no flag removes."""
    done = again(("private=\n", MOVED + "private=\n"), cmake=UNSTRIPPED, code=14)
    _, causes = told(done)
    assert "nvcc-path-hash" in causes
