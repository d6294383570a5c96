"""Each check inside the build, on a variant made to break it: exit 15, and what a person needs to mend it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from sistership.resources import bundled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fleet.conftest import Fleet
    from tests.fleet.job.conftest import Project

TEMPLATE = bundled("dockerfiles") / "llamacpp.Dockerfile.j2"
HEAD = """
version: 1
ssh_config: {ssh_config}
builder: builder
forks:
  sample: {{git: {sample}}}
defaults: {{packages: []}}
hosts: {{builder: {{}}}}
variants:
"""
CPU = """
  {name}:
    fork: sample
    commit: main
    image: job-{name}
    tag: v1
    backend: cpu
    base: {{build: "127.0.0.1:5000/practice/build:bookworm", runtime: "127.0.0.1:5000/practice/runtime:bookworm"}}
"""
CUDA = """
  {name}:
    fork: sample
    commit: main
    image: job-{name}
    tag: v1
    cuda: {{toolkit: 13.2.0, archs: [89, 120]}}
    base:
      build: 127.0.0.1:5000/practice/cuda-build:bookworm
      runtime: 127.0.0.1:5000/practice/cuda-runtime:bookworm
"""


@pytest.fixture
def broken(project_in: Callable[[Path], Project], fleet: Fleet, tmp_path: Path) -> Callable[..., str]:
    """Builds one variant with more lines in its row and an edited template; gives what was said, exit 15."""

    def build(name: str, row: str, *lines: str, edits: tuple[tuple[str, str], ...] = (), code: int = 15) -> str:
        text = TEMPLATE.read_text()
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "dockerfiles").mkdir()
        (tmp_path / "dockerfiles" / TEMPLATE.name).write_text(text)
        head = HEAD.format(ssh_config=fleet.files.ssh_config, sample=fleet.files.sample)
        more = "".join(f"    {line}\n" for line in lines)
        (tmp_path / "buildmatrix.yaml").write_text(head + row.format(name=name) + more)
        project = project_in(tmp_path)
        done = project.run("build", code=code)
        assert code == 0 or project.lock()["images"] == {}
        return done.err

    return build


def test_misspelt_flag(broken: Callable[..., str]) -> None:
    """A flag that the source does not know would be ignored by CMake, with a warning and exit 0."""
    said = broken("flag", CPU, "cmake: {GGML_RCP: ON}")
    assert "flags of GGML_RCP: expected used by the source, found not used by the project" in said
    assert "correct its name in cmake:" in said


def test_forgotten_library(broken: Callable[..., str]) -> None:
    """A layer that the final stage does not copy: the loader of the finished image misses what was in it."""
    said = broken(
        "layer", CPU, edits=(("{% for layer in layers %}", '{% for layer in layers if layer != "20-libs" %}'),)
    )
    assert "libraries of /app/bin/" in said
    assert "not found: " in said
    assert "libllama.so.0" in said


@pytest.mark.full
def test_code_for_the_builder(broken: Callable[..., str]) -> None:
    """-march=native that came by another way than the option: the file and an instruction are named."""
    said = broken("native", CPU, "options: {cpu: x86-64}", 'cmake: {CMAKE_CXX_FLAGS: "-march=native"}')
    assert "instructions of /app/" in said
    assert "found AVX" in said or "AVX (v" in said
    assert "take -march and the like out of cmake:" in said


@pytest.mark.full
def test_epoch_in_the_environment_of_cmake(broken: Callable[..., str]) -> None:
    """A correct but very slow build: every instruction set is off, and nothing but the machine code shows it."""
    edits = (
        ("RUN --network=none unset SOURCE_DATE_EPOCH; \\", "ARG SOURCE_DATE_EPOCH=1735689600\nRUN --network=none \\"),
        (
            "{% for flag in flags %}",
            '{% for flag in flags if not flag.endswith("=ON") or "CMAKE" in flag or "RPC" in flag %}',
        ),
    )
    said = broken("epoch", CPU, edits=edits)
    assert (
        "instructions of /app/lib/libggml-cpu.so.0: expected SSE42 AVX AVX2 BMI2 FMA F16C: the baseline reached" in said
    )
    assert "look for SOURCE_DATE_EPOCH in the environment of cmake" in said


def test_stub_of_the_driver(broken: Callable[..., str]) -> None:
    """A stub that came along would stand before the host's own driver (case 18)."""
    copied = '/out /runtime {{ backend }} {{ worker }} {{ programs | join(" ") }}'
    edits = ((copied, copied + "\nRUN cp /usr/bin/true /out/20-libs/app/lib/libcuda.so.1"),)
    said = broken("stub", CPU, edits=edits)
    assert "stubs of /app/lib/libcuda.so.1" in said
    assert "leave it out of the image" in said


def test_arch_that_never_reached_the_compiler(broken: Callable[..., str]) -> None:
    """The matrix says 89 and 120, the library has one of them: cuobjdump's own list is the proof."""
    said = broken("arch", CUDA, edits=(("    {{ flag }} \\", '    {{ flag | replace("89;120", "89") }} \\'),))
    assert "archs of /app/lib/libggml-cuda.so.0: expected code for 120 (sm_120 or sm_120a), found sm_89 in " in said
    assert "CMAKE_CUDA_ARCHITECTURES" in said


@pytest.mark.full
def test_plain_docker_build_fails_too(
    broken: Callable[..., str], project_in: Callable[[Path], Project], fleet: Fleet, tmp_path: Path
) -> None:
    """Who builds the rendered folder by hand is told the same: the checks are part of the image."""
    broken("plain", CPU, edits=(("{% for layer in layers %}", '{% for layer in layers if layer != "20-libs" %}'),))
    project_in(tmp_path).run("render", "--output", "rendered")
    packed = subprocess.run(["tar", "-C", str(tmp_path / "rendered/plain"), "-c", "."], capture_output=True, check=True)
    build = "docker buildx build --progress plain -t plain:1 - 2>&1 || echo it failed"
    said = fleet.ssh("builder", build, stdin=packed.stdout, seconds=280)
    assert "it failed" in said
    assert "sistership-check:" in said
