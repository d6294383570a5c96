"""From a file to a Matrix: the values that other rooms get."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from sistership.errors import MatrixError, UsageError
from sistership.matrix.load import load, parse
from sistership.matrix.model import Fork, Host, Options

PROJECT = Path(__file__).parents[2]

HEAD = """
version: 1
forks:
  upstream: {git: https://git.example/llama.cpp}
x-cpu: &cpu
  fork: upstream
  commit: main
  image: llamacpp
  backend: cpu
  base: {build: "debian:bookworm", runtime: "debian:bookworm-slim"}
"""


def matrix(text, head=HEAD):
    """A matrix of a project that has nothing else."""
    return parse((head + text).encode(), Path("/project/buildmatrix.yaml"))


def alpha(row):
    """A CPU variant with more keys."""
    return matrix(f"variants:\n  alpha: {{<<: *cpu, {row}}}\n").variants["alpha"]


def cuda(archs="89", toolkit="12.8.1", base="12.8.1"):
    """A CUDA variant."""
    images = f'{{build: "nvidia/cuda:{base}-devel-ubuntu24.04", runtime: "nvidia/cuda:{base}-runtime-ubuntu24.04"}}'
    return alpha(f"tag: a, backend: cuda, base: {images}, cuda: {{toolkit: {toolkit}, archs: {archs}}}")


@pytest.mark.parametrize("commit", ["680841e1", "1234e567", "9509425349e4", "84e908c6", "0123456", "00000000"])
def test_commits_and_tags_stay_exactly_as_written(commit):
    """Digits-e-digits is a hash, not a float or infinity."""
    variant = alpha(f"commit: {commit}, tag: {commit}")
    assert (variant.commit, variant.tag) == (commit, commit)


def test_a_full_hash_is_lower_case():
    """The same commit is written one way, as git prints it."""
    assert alpha(f"tag: a, commit: {'ABCDEF0123' * 4}").commit == "abcdef0123" * 4


@pytest.mark.parametrize("version", ["12.10", "12.8.1", "13.0"])
def test_toolkits_stay_exactly_as_written(version):
    """12.10 never becomes 12.1."""
    variant = cuda(toolkit=version, base=version)
    assert variant.cuda.toolkit == version
    assert variant.base.build == f"nvidia/cuda:{version}-devel-ubuntu24.04"


def test_a_base_of_the_shortened_version_is_refused():
    """Toolkit 12.10 and a base image of 12.1 are not the same."""
    with pytest.raises(MatrixError, match=re.escape("base.build has CUDA 12.1, but cuda.toolkit is 12.10")):
        cuda(toolkit="12.10", base="12.1")


@pytest.mark.parametrize(
    "archs", ['"89;86"', '"86;89"', "[89,86]", "[86, 89, 89]", '"89,86"', '"89 86"', "['86', 89]", '["89;86"]']
)
def test_every_spelling_of_an_arch_list_is_one_variant(archs):
    """What the recipe key is made of does not depend on the spelling."""
    assert cuda(archs).cuda.archs == ("86", "89")
    assert asdict(cuda(archs)) == asdict(cuda("[86, 89]"))


def test_a_scalar_arch():
    """One arch needs no list."""
    assert cuda("89").cuda.archs == ("89",)


def test_suffixes_reach_the_variant():
    """`75-virtual;89-real;120a` in canonical order."""
    assert cuda("[120a, 89-real, 75-virtual]").cuda.archs == ("75-virtual", "89-real", "120a")


def test_hosts_called_no_and_on():
    """The words that YAML takes for booleans are names, as keys and as members."""
    read = matrix("variants: {a: {<<: *cpu, tag: a}}\nhosts:\n  no: {}\n  on: {}\ngroups: {workers: [on, no]}\n")
    assert list(read.hosts) == ["no", "on"]
    assert read.groups == {"workers": ("on", "no")}
    assert read.hosts["no"].ssh == "no"


def test_a_merge_may_override():
    """`<<` with another commit over it stays legal."""
    assert alpha("tag: a, commit: v2").commit == "v2"


@pytest.mark.parametrize("value", ["true", "True", "ON", "yes", "'on'"])
def test_flags_are_ours_to_read(value):
    """Every usual word for true, quoted or not."""
    assert alpha(f"tag: a, options: {{ui: {value}}}").options.ui is True


def test_cmake_values_stay_text():
    """ON, 0755 and 1.10 are what CMake gets."""
    flags = alpha('tag: a, cmake: {GGML_BLAS: ON, MODE: 0755, V: 1.10, W: "", X: no}').cmake
    assert flags == {"GGML_BLAS": "ON", "MODE": "0755", "V": "1.10", "W": "", "X": "no"}


def test_a_flag_that_repeats_an_option_is_given_once():
    """LLAMA_BUILD_UI: OFF again makes the same variant."""
    repeated = alpha("tag: a, cmake: {LLAMA_BUILD_UI: OFF, LLAMA_USE_PREBUILT_UI: off, GGML_RPC: 1, GGML_CUDA: OFF}")
    assert asdict(repeated) == asdict(alpha("tag: a"))


def test_with_a_ui_the_prebuilt_one_is_the_users_choice():
    """options.ui decides whether there is a UI, not where it comes from."""
    assert alpha("tag: a, options: {ui: true}, cmake: {LLAMA_USE_PREBUILT_UI: OFF}").cmake == {
        "LLAMA_USE_PREBUILT_UI": "OFF"
    }


def test_defaults_fill_what_a_variant_does_not_say():
    """Options and cmake merge key by key; lists and bases are replaced whole."""
    defaults = """
defaults:
  options: {rpc: false, ui: true}
  cmake: {A: 1, B: 2}
  packages: [cmake]
  platforms: [linux/arm64]
  base: {build: "debian:bookworm", runtime: "debian:bookworm-slim"}
variants:
  alpha: {fork: upstream, commit: main, image: x, tag: a, backend: cpu, options: {ui: off}, cmake: {B: 3}}
  beta: {fork: upstream, commit: main, image: x, tag: b, backend: cpu, packages: [], platforms: linux/amd64}
"""
    read = matrix(defaults)
    first, second = read.variants["alpha"], read.variants["beta"]
    assert first.options == Options(rpc=False, ui=False)
    assert first.cmake == {"A": "1", "B": "3"}
    assert (first.packages, first.platforms) == (("cmake",), ("linux/arm64",))
    assert (second.packages, second.platforms) == ((), ("linux/amd64",))
    assert second.options == Options(rpc=False, ui=True)
    assert second.base.runtime == "debian:bookworm-slim"


def test_the_cpu_baseline_follows_the_platform():
    """Without a word about the CPU, each architecture has its own baseline."""
    options = alpha("tag: a, platforms: [linux/amd64, linux/arm64]").options
    assert [options.baseline(f"linux/{arch}") for arch in ("amd64", "arm64", "riscv64")] == ["x86-64-v3", "armv8-a", ""]
    assert alpha("tag: a, options: {cpu: x86-64-v2}").options.baseline("linux/amd64") == "x86-64-v2"


def test_builders_are_resolved_for_each_platform():
    """The variant's own builder, else the matrix's; one host stands for all platforms, {} for this machine."""
    read = matrix(
        """
builder: {linux/amd64: big, linux/arm64: arm}
hosts: {big: {platform: linux/amd64}, arm: {platform: linux/arm64}, any: }
variants:
  alpha: {<<: *cpu, tag: a, platforms: [linux/amd64, linux/arm64]}
  beta: {<<: *cpu, tag: b}
  gamma: {<<: *cpu, tag: c, platforms: [linux/amd64, linux/arm64], builder: any}
  delta: {<<: *cpu, tag: d, builder: {}}
"""
    )
    assert read.builders == {"linux/amd64": "big", "linux/arm64": "arm"}
    assert {name: dict(variant.builders) for name, variant in read.variants.items()} == {
        "alpha": {"linux/amd64": "big", "linux/arm64": "arm"},
        "beta": {"linux/amd64": "big"},
        "gamma": {"linux/amd64": "any", "linux/arm64": "any"},
        "delta": {},
    }


def test_hosts_are_complete(monkeypatch):
    """A host's own name is its ssh alias; paths are absolute; this machine has no ssh."""
    monkeypatch.setenv("HOME", "/home/me")
    read = matrix(
        """
ssh_config: ~/.ssh/lab
variants: {a: {<<: *cpu, tag: a}}
hosts:
  one:
  two: {ssh: me@192.0.2.2, ssh_config: conf/ssh, docker: podman, sudo: true, gpu: [8.9, 8.9, 12.0]}
  here: {local: yes, docker_host: unix:///run/user/1000/docker.sock, platform: linux/arm64}
  far: {context: rootless, transport: paramiko, ssh_config: none.conf}
"""
    )
    assert list(read.hosts.values()) == [
        Host("one", ssh="one", ssh_config=Path("/home/me/.ssh/lab")),
        Host(
            "two",
            ssh="me@192.0.2.2",
            ssh_config=Path("/project/conf/ssh"),
            docker="podman",
            sudo=True,
            gpu=("8.9", "12.0"),
            engine="podman",
        ),
        Host("here", local=True, docker_host="unix:///run/user/1000/docker.sock", platform="linux/arm64"),
        Host("far", ssh="far", ssh_config=Path("/project/none.conf"), context="rootless", transport="paramiko"),
    ]


def test_groups_of_groups_are_host_names():
    """A group in a group is expanded, each host once."""
    read = matrix("variants: {a: {<<: *cpu, tag: a}}\nhosts: {a: , b: , c: }\ngroups: {g: [b, a], h: [c, g, a]}\n")
    assert read.groups == {"g": ("b", "a"), "h": ("c", "b", "a")}


def test_a_fork_that_is_a_path_is_absolute_and_keeps_its_text():
    """git gets a path that works anywhere; hashes and labels get what the matrix says."""
    forks = "forks:\n  near: {git: .sistership/sample.git}\n  far: {git: git@git.example:x}\n"
    read = matrix("variants: {a: {<<: *cpu, tag: a}}\n", head=HEAD.replace("forks:\n", forks))
    assert read.forks["near"] == Fork("near", "/project/.sistership/sample.git", ".sistership/sample.git")
    assert read.forks["far"] == Fork("far", "git@git.example:x", "git@git.example:x")
    assert Fork("x", "/srv/x").written == "/srv/x"


def test_problems_name_the_file_as_the_user_does(tmp_path, monkeypatch):
    """Short below the current folder, and with its line and column."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "buildmatrix.yaml").write_text("version: 3\nvariants: {a: {}}\n")
    with pytest.raises(MatrixError) as caught:
        load(tmp_path / "buildmatrix.yaml")
    assert str(caught.value).splitlines()[:2] == [
        'buildmatrix.yaml:1:10: version "3" is unknown',
        "  next: write version: 1",
    ]
    assert caught.value.code == 10


def test_no_file_is_a_usage_error(tmp_path):
    """A matrix that is not there says how to name another."""
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "other.yaml")
    assert str(caught.value) == (
        f"cannot read the matrix {tmp_path}/other.yaml: no such file or directory\n"
        "  next: name another with --matrix FILE, or go to the folder of your project"
    )


def test_every_problem_at_once():
    """Faults of YAML, of shape and of meaning come together, in the order of the file."""
    with pytest.raises(MatrixError) as caught:
        matrix(
            """
variants:
  alpha: {<<: *cpu, tag: a, tag: b, fork: upstraem, comit: x, options: {rpc: maybe}}
hosts: {a: {gpu: [89]}}
"""
        )
    assert [problem.message for problem in caught.value.problems] == [
        'duplicate key "tag", first on line 13',
        'variant "alpha": there is no fork "upstraem"',
        'variant "alpha": unknown key "comit"',
        'variant "alpha": options.rpc must be true or false, not maybe',
        'host "a": gpu[0]: "89" is not a compute capability',
    ]


def test_this_projects_matrix():
    """The real rows are what the project promises to build, and the file has no problem."""
    read = load(PROJECT / "buildmatrix.yaml")
    assert list(read.variants) == ["upstream", "turboquant", "upstream-cpu", "sample", "sample-cuda"]
    upstream, turboquant, on_cpu, sample, sample_cuda = read.variants.values()
    for variant, commit, image in (
        (upstream, "84e908c625fb60992b4cdef8180fb12fa9b4c4bf", "llamacpp-rpc:84e908c6"),
        (turboquant, "30d6881eb97be0844b77ff7bc93175e15972d689", "llamacpp-turboquant:tqp-v0.3.0"),
    ):
        assert (variant.commit, f"{variant.image}:{variant.tag}") == (commit, image)
        assert (variant.cuda.toolkit, variant.cuda.archs) == ("12.8.1", ("89", "120"))
        assert variant.base.build == (
            "nvidia/cuda:12.8.1-devel-ubuntu24.04"
            "@sha256:520292dbb4f755fd360766059e62956e9379485d9e073bbd2f6e3c20c270ed66"
        )
        assert variant.base.runtime == (
            "nvidia/cuda:12.8.1-runtime-ubuntu24.04"
            "@sha256:ebef3c171eeef0298e4eb2e4be843105edf3b8b0ac45e0b43acee358e8046867"
        )
        assert [patch.file for patch in variant.patches] == ["rpc-zero-byte-tensor.patch"]
        assert variant.options == Options()
        assert variant.builders == {}
    assert (on_cpu.backend, on_cpu.cuda, on_cpu.commit) == ("cpu", None, upstream.commit)
    assert (on_cpu.image, on_cpu.base.runtime) == ("llamacpp-rpc-cpu", "debian:bookworm-slim")
    assert (sample.backend, sample.commit, sample.builders) == ("cpu", "main", {"linux/amd64": "builder"})
    assert (sample_cuda.cuda.toolkit, sample_cuda.cuda.archs) == ("13.2", ("89", "120"))
    assert (sample_cuda.commit, sample_cuda.patches) == (sample.commit, sample.patches)
    assert read.forks["sample"].git == str(PROJECT / ".sistership/fleet/sample.git")
    assert read.groups["peers"] == ("classic20", "classic26", "containerd26")
    assert read.hosts["builder"].ssh_config == PROJECT / ".sistership/fleet/ssh_config"
    assert read.hosts["gpu-main"].local
