from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sistership import resources
from sistership.errors import MatrixError
from sistership.matrix import snapshots
from sistership.matrix.load import load
from sistership.matrix.model import Base, Cuda, Fork, Options
from sistership.recipe import render
from sistership.recipe.flags import flags
from sistership.recipe.patches import LockedPatch
from sistership.recipe.refs import is_full

GOLDEN = Path(__file__).parent / "golden"
PROJECT = Path(__file__).parents[2]
DEVEL = f"nvidia/cuda:12.8.1-devel-ubuntu24.04@sha256:{'5' * 64}"
NAMES = ("turboquant", "upstream", "upstream-cpu", "sample", "sample-cuda")


@pytest.fixture(scope="module")
def golden(make):
    """Name → (row, resolution, fork): the project's own matrix, with a resolution that never changes."""
    matrix = load(PROJECT / "buildmatrix.yaml")

    def pinned(reference: str) -> str:
        return reference if "@sha256:" in reference else f"{reference}@sha256:{'b' * 64}"

    def given(name: str):
        row = matrix.variants[name]
        locked = make.locked(
            commit=row.commit if is_full(row.commit) else make.commit,
            bases={"build": pinned(row.base.build), "runtime": pinned(row.base.runtime)},
            patches=tuple(LockedPatch(patch.file, "c" * 64) for patch in row.patches),
            snapshot="20260501T120000Z" if snapshots.pins(row.snapshot) else "",
        )
        return row, locked, matrix.forks[row.fork]

    return given


def text(row, locked=None, *, fork=None, platform="linux/amd64", template=None, key="f" * 64):
    """The rendered file of a row, from the template in the repository."""
    return render.render(
        row,
        platform,
        locked,
        fork=fork or Fork("fork", "https://git.example/fork"),
        template=template or render.template(Path("/nowhere"), row),
        key=key if locked else "",
    )


def configure(dockerfile: str) -> str:
    """The RUN instruction that calls cmake, without RUN and its own flags."""
    joined = dockerfile.replace("\\\n", " ")
    line = next(line for line in joined.splitlines() if line.startswith("RUN") and "cmake -S" in line)
    return re.sub(r"^RUN( --\S+)*", "", line)


def argv(dockerfile: str) -> list[str]:
    """What cmake gets, found out by a real shell."""
    script = configure(dockerfile).replace("cmake ", "printf '%s\\n' ", 1)
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_golden(golden, name):
    """A variant renders to exactly the file that was reviewed; UPDATE_GOLDEN=1 writes it anew."""
    row, locked, fork = golden(name)
    made = text(row, locked, fork=fork)
    path = GOLDEN / f"{name}.Dockerfile"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(made)
    kept = path.read_text()
    assert made == kept, "\n".join(difflib.unified_diff(kept.splitlines(), made.splitlines(), "golden", "made"))


@pytest.mark.parametrize("name", NAMES)
def test_hadolint(name):
    """Every golden file is clean under hadolint, the shell in it included."""
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [hadolint, "--no-color", GOLDEN / f"{name}.Dockerfile"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_semicolon_list_is_one_word(make):
    """The arch list reaches cmake as one argument, once (GeiserX/whisper-subs#69)."""
    given = argv(text(make.variant(), make.locked()))
    assert [flag for flag in given if "ARCHITECTURES" in flag] == ["-DCMAKE_CUDA_ARCHITECTURES=89;120"]


@pytest.mark.parametrize("name", NAMES)
def test_each_flag_once(golden, name):
    """No flag is given twice, and each survives the shell as the recipe means it."""
    row, locked, fork = golden(name)
    given = [arg for arg in argv(text(row, locked, fork=fork)) if arg.startswith("-D")]
    meant = flags(row, "linux/amd64", number=str(locked.number), commit=locked.commit)
    assert given == [f"-D{flag.name}={flag.value}" for flag in meant]
    names = [arg.partition("=")[0] for arg in given]
    assert len(names) == len(set(names))
    assert not [name for name in names if ":" in name]


@pytest.mark.parametrize("name", ["turboquant", "upstream"])
def test_flags_of_the_real_rows(golden, name):
    """The flags with which these builds are known to work, and those that keep the build honest."""
    row, locked, fork = golden(name)
    given = set(argv(text(row, locked, fork=fork)))
    assert given >= {
        "-DCMAKE_BUILD_TYPE=Release",
        "-DGGML_CUDA=ON",
        "-DGGML_RPC=ON",
        "-DGGML_NATIVE=OFF",
        "-DGGML_CUDA_NO_VMM=ON",
        "-DCMAKE_CUDA_ARCHITECTURES=89;120",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
        "-DLLAMA_BUILD_TOOLS=ON",
        "-DLLAMA_BUILD_SERVER=ON",
        "-DLLAMA_BUILD_UI=OFF",
        "-DLLAMA_BUILD_WEBUI=OFF",
        "-DLLAMA_USE_PREBUILT_UI=OFF",
        "-DGGML_CUDA_NCCL=OFF",
        "-DGGML_RPC_RDMA=OFF",
        "-DLLAMA_CURL=OFF",
        "-DLLAMA_OPENSSL=OFF",
        f"-DLLAMA_BUILD_NUMBER={locked.number}",
        f"-DLLAMA_BUILD_COMMIT={locked.commit}",
        "-DGGML_AVX2=ON",
        "-DGGML_AVX512=OFF",
    }


def test_no_vmm_unless_asked_for(make):
    """VMM is off once by default; only the option turns it on, and its stub stays in the build stage (#23357)."""
    plain = text(make.variant(), make.locked())
    assert plain.count("GGML_CUDA_NO_VMM=ON") == 1
    assert "/stubs/libcuda.so.1" not in plain
    wanted = text(make.variant(options=Options(vmm=True)), make.locked())
    assert "NO_VMM" not in wanted
    assert "-Wl,-rpath-link,/stubs" in wanted
    final = wanted[wanted.rindex("\nFROM ") :]
    assert "stubs" not in final
    assert "libcuda" not in final


@pytest.mark.parametrize("repeated", [{}, {"LLAMA_BUILD_UI": "OFF"}, {"LLAMA_USE_PREBUILT_UI": "OFF"}])
def test_ui_flags_once_after_merging(make, repeated):
    """Both UI flags are there once, also when the user repeats them (TheTom/llama-cpp-turboquant#235)."""
    given = argv(text(make.variant(cmake=repeated), make.locked()))
    assert given.count("-DLLAMA_BUILD_UI=OFF") == 1
    assert given.count("-DLLAMA_USE_PREBUILT_UI=OFF") == 1


def test_users_flag(make):
    """A user's flag is given once, wins over a guard, and must be known to the source when it is none of ours."""
    row = make.variant(cmake={"GGML_CUDA_FA_ALL_QUANTS": "ON", "GGML_CUDA_NCCL": "ON", "X": "a b;$c'd"})
    made = text(row, make.locked())
    given = argv(made)
    assert [arg for arg in given if "NCCL" in arg] == ["-DGGML_CUDA_NCCL=ON"]
    assert given.count("-DGGML_CUDA_FA_ALL_QUANTS=ON") == 1
    assert "-DX=a b;$c'd" in given
    guards = made[made.index("check-flags.sh") :].split("RUN", 1)[0].split()
    assert "GGML_CUDA_NCCL" in guards
    assert "GGML_CUDA_FA_ALL_QUANTS" not in guards
    assert "GGML_CUDA" not in guards


def test_control_character_is_refused(make):
    """A line break in a flag would begin another instruction."""
    with pytest.raises(MatrixError, match="control character"):
        text(make.variant(cmake={"X": "a\nRUN b"}), make.locked())


@pytest.mark.parametrize(
    ("platform", "cpu", "present", "absent"),
    [
        ("linux/amd64", "x86-64-v3", "-DGGML_FMA=ON", "-DGGML_AVX512=ON"),
        ("linux/amd64", "x86-64-v4", "-DGGML_AVX512=ON", "-DGGML_AVX512_BF16=ON"),
        ("linux/amd64", "x86-64-v2", "-DGGML_SSE42=ON", "-DGGML_AVX=ON"),
        ("linux/amd64", "x86-64", "-DGGML_SSE42=OFF", "-DGGML_SSE42=ON"),
        ("linux/arm64", "x86-64-v3", "-DGGML_CPU_ARM_ARCH=armv8-a", "-DGGML_AVX2=ON"),
        ("linux/arm64", "armv8.2-a", "-DGGML_CPU_ARM_ARCH=armv8.2-a", "-DGGML_AVX=OFF"),
    ],
)
def test_cpu_baseline(make, platform, cpu, present, absent):
    """Each instruction set is named, so the environment of cmake cannot switch it."""
    given = argv(text(make.cpu(options=Options(cpu=cpu)), make.locked(), platform=platform))
    assert present in given
    assert absent not in given


def test_native_names_no_instruction_set(make):
    """With `native` the machine that builds decides."""
    given = argv(text(make.cpu(options=Options(native=True)), make.locked()))
    assert "-DGGML_NATIVE=ON" in given
    assert not [arg for arg in given if "AVX" in arg]


def test_no_rpc_no_worker(make):
    """Without the RPC backend nothing looks for a worker."""
    made = text(make.variant(options=Options(rpc=False)), make.locked())
    assert "rpc-server" not in made
    assert "/runtime cuda - " in made


@pytest.mark.parametrize("archs", [("89",), ("75-virtual", "89-real", "120f"), ("89", "121a")])
def test_archs_verbatim(make, archs):
    """Suffixes reach cmake and the label as they are."""
    made = text(make.variant(cuda=Cuda("12.9.1", archs)), make.locked())
    assert f"-DCMAKE_CUDA_ARCHITECTURES={';'.join(archs)}" in argv(made)
    assert f'dev.sistership.archs="{";".join(archs)}"' in made


def test_no_arg_before_from(make):
    """Values are literal: an ARG before FROM would be empty in a later stage (Netflix/vmaf#1383)."""
    made = text(make.variant(), make.locked())
    assert "\nARG " not in made
    found = re.findall(r'CMAKE_CUDA_ARCHITECTURES="?([^"\s]*)', made)
    assert found
    assert all(found)


@pytest.mark.parametrize("name", ["turboquant", "upstream"])
def test_stub_stays_in_the_build_stage(golden, name):
    """Stubs come by LIBRARY_PATH inside RUN lines only; nothing of them is in the image (NVIDIA/nvidia-docker#76)."""
    row, locked, fork = golden(name)
    made = text(row, locked, fork=fork)
    assert "LD_LIBRARY_PATH" not in made
    assert "ld.so.conf" not in made
    assert "libcuda.so.1" not in made
    for instruction in made.replace("\\\n", " ").splitlines():
        if "stubs" in instruction:
            assert instruction.startswith("RUN --network=none")
            assert " LIBRARY_PATH=" in instruction
    assert "ENV LIBRARY_PATH" not in made


def test_devel_base_as_runtime(make):
    """The final stage adds no stub path either when the devel base is what runs."""
    made = text(make.variant(base=Base(DEVEL, DEVEL)), make.locked(bases={"build": DEVEL, "runtime": DEVEL}))
    assert "stubs" not in made[made.rindex("\nFROM ") :]


def test_compile_has_no_network(make):
    """Only the package stage may use the network."""
    made = text(make.variant(), make.locked()).replace("\\\n", " ")
    runs = [line for line in made.splitlines() if line.startswith("RUN")]
    assert len(runs) == 8
    assert [line for line in runs if "--network=none" not in line] == [line for line in runs if "apt-get" in line]


def checks(made: str) -> dict[str, str]:
    """Options of the checks in a rendered file, without their quotes."""
    command = made.replace("\\\n", " ").split("/sistership/check.sh", 1)[1].splitlines()[0]
    words = shlex.split(command)
    return dict(zip(words[::2], words[1::2], strict=True))


def test_final_stage_needs_the_checks(make):
    """BuildKit skips a stage that nothing copies from: the report is copied, so no image is made unchecked."""
    made = text(make.variant(), make.locked())
    assert "COPY --from=checks /report/ /" in made.rsplit("\nFROM ", 1)[1]
    assert checks(made) == {
        "--image": "/image",
        "--report": "/report",
        "--environment": "/environment",
        "--unused": "/tmp/unused-guards",
        "--backend": "cuda",
        "--commit": make.commit,
        "--worker": "rpc-server|ggml-rpc-server",
        "--programs": "llama-bench llama-cli llama-server",
        "--archs": "89:sm_89 120:sm_120|sm_120a",
        "--sets": "SSE42 AVX AVX2 BMI2 FMA F16C",
    }


@pytest.mark.parametrize(
    ("options", "cmake", "sets"),
    [
        ({}, {}, "SSE42 AVX AVX2 BMI2 FMA F16C"),
        ({"cpu": "x86-64"}, {}, ""),
        ({"cpu": "x86-64-v2"}, {}, "SSE42"),
        ({"cpu": "x86-64-v4"}, {}, "SSE42 AVX AVX2 BMI2 FMA F16C AVX512"),
        ({}, {"GGML_FMA": "OFF", "GGML_AVX512_VNNI": "on"}, "SSE42 AVX AVX2 BMI2 F16C AVX512_VNNI"),
    ],
)
def test_instruction_sets_checked_are_those_asked_for(make, options, cmake, sets):
    """The baseline, and what the variant's own flags make of it."""
    row = make.cpu(options=Options(**options), cmake=cmake)
    assert checks(text(row, make.locked()))["--sets"] == sets


@pytest.mark.parametrize(("cmake", "found"), [({}, []), ({"GGML_BACKEND_DL": "on"}, ["-DGGML_BACKEND_DIR=/app/lib"])])
def test_backends_loaded_at_run_time_are_looked_for_where_they_are(make, cmake, found):
    """ggml looks beside the program alone, and the image has its libraries elsewhere."""
    made = text(make.cpu(cmake=cmake), make.locked())
    assert re.findall(r"-DGGML_BACKEND_DIR=\S+", made) == found


def test_instruction_sets_that_cannot_be_judged(make):
    """Native code and other architectures are left out, with the reason in the report."""
    native = checks(text(make.cpu(options=Options(native=True)), make.locked()))
    assert "native" in native["--unjudged"]
    arm = checks(text(make.cpu(), make.locked(), platform="linux/arm64"))
    assert "arm64" in arm["--unjudged"]
    assert "--sets" not in {*native, *arm}


def test_no_packages_no_apt(make):
    """An empty package list leaves no instruction behind."""
    assert "apt-get" not in text(make.variant(packages=()), make.locked())


@pytest.mark.parametrize("files", [(), ("a.patch",), ("b.patch", "a.patch")])
def test_patches_are_in_the_tree(make, files):
    """Patches are applied before the context is made: no apply line, and the label names them in order."""
    patches = tuple(LockedPatch(file, "a" * 64) for file in files)
    made = text(make.variant(), make.locked(patches=patches))
    assert "git apply" not in made
    label = re.search(r'dev\.sistership\.patches="([^"]*)"', made)
    assert label
    assert label[1] == ",".join(f"{file}@sha256:{'a' * 64}" for file in files)


def test_bases_are_pinned(make):
    """Every FROM with an image carries the digest of the lock, beside the tag (buildkite/agent#2430)."""
    made = text(make.variant(), make.locked())
    images = [line.split()[1] for line in made.splitlines() if line.startswith("FROM ")]
    stages = {"packages", "runtime", "build", "image", "scratch"}
    assert [
        image for image in images if image not in stages and not re.search(r":.+@sha256:[0-9a-f]{64}$", image)
    ] == []
    assert len([image for image in images if "@sha256:" in image]) == 2


def test_unresolved_is_marked(make):
    """Without a lock the text says what is missing, and keeps what the matrix pins itself."""
    made = text(make.variant(base=Base(DEVEL, "nvidia/cuda:12.8.1-runtime-ubuntu24.04")))
    assert f"FROM {DEVEL} AS packages" in made
    assert "FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04@sha256:<not resolved: run sistership lock> AS runtime" in made
    assert 'LLAMA_BUILD_NUMBER="<not resolved' in made
    assert made.splitlines()[1].startswith("# NOT RESOLVED")
    assert "not resolved" not in text(make.variant(), make.locked()).lower()


def test_revision_label_is_the_full_hash(make):
    """The image says which commit it is, in full (ggml-org/llama.cpp#23242)."""
    made = text(make.variant(commit="v1"), make.locked())
    assert f'org.opencontainers.image.revision="{make.commit}"' in made
    assert f"-DLLAMA_BUILD_COMMIT={make.commit}" in made
    assert "-DLLAMA_BUILD_NUMBER=9079" in made


@pytest.mark.parametrize(
    ("git", "shown"),
    [
        ("https://user:secret@git.example/fork?token=secret", "https://git.example/fork"),
        ("git@git.example:me/fork.git", "git@git.example:me/fork.git"),
        ("ssh://git@git.example:22/fork", "ssh://git.example:22/fork"),
        ("/home/me/fork", "fork"),
        ("file:///home/me/fork", "fork"),
        ("../fork", "fork"),
    ],
)
def test_source_label(make, git, shown):
    """The address is public: no password, and no path of the machine that built."""
    assert f'image.source="{shown}"' in text(make.variant(), make.locked(), fork=Fork("fork", git))


def test_label_escapes(make):
    """What a label holds reaches the image as written."""
    made = text(make.variant(tag='a"b$c\\d'), make.locked())
    assert 'image.version="a\\"b\\$c\\\\d"' in made


def test_misspelt_name_in_template(make, tmp_path):
    """A template's typo names file, line, variant and key, and never renders nothing."""
    template = render.Template("dockerfiles/mine.j2", "FROM {{ base.build }}\nRUN echo {{ comit }}\n")
    with pytest.raises(MatrixError) as raised:
        text(make.variant(), make.locked(), template=template)
    said = str(raised.value)
    assert "dockerfiles/mine.j2:2:1" in said
    assert "alpha" in said
    assert "comit" in said


def test_template_syntax_error(make):
    """A broken template is a user's mistake with a line, no traceback."""
    template = render.Template("mine.j2", "FROM x\n{% if %}\n")
    with pytest.raises(MatrixError, match=r"mine\.j2:2"):
        text(make.variant(), make.locked(), template=template)


def test_template_is_not_html(make):
    """No autoescape: `&&` and quotes stay what they are."""
    template = render.Template("mine.j2", "RUN {{ variant.tag }}\n")
    assert text(make.variant(tag='a && b "c"'), make.locked(), template=template) == 'RUN a && b "c"\n'


def test_missing_template(make):
    """A template that is nowhere is named with the variant."""
    with pytest.raises(MatrixError, match=r"buildmatrix.yaml:12:3: variant alpha.*none\.j2"):
        render.template(Path("/nowhere"), make.variant(template="none.j2"))


def test_projects_own_template_wins(make, tmp_path):
    """A project may replace the template by one of the same name."""
    own = tmp_path / "dockerfiles" / "llamacpp.Dockerfile.j2"
    own.parent.mkdir()
    own.write_text("FROM scratch\n")
    assert render.template(tmp_path, make.variant()).text == "FROM scratch\n"


def test_instructions(make):
    """The final stage's COPY lines are the own layers, in order."""
    assert render.instructions(text(make.variant(), make.locked())) == (
        "COPY --from=build /out/10-ggml-cuda/ /",
        "COPY --from=build /out/20-libs/ /",
        "COPY --from=build /out/30-bin/ /",
        "COPY --from=checks /report/ /",
    )
    assert len(render.instructions(text(make.cpu(), make.locked()))) == 4


@pytest.mark.parametrize(
    "line",
    ["RUN true", "WORKDIR /app", "ADD a /", "COPY --chmod=755 a /", "COPY --link a /", "copy --from=b --link a /"],
)
def test_final_stage_only_copies(line):
    """What engines do not do alike is refused, with its line."""
    with pytest.raises(MatrixError, match=r"Dockerfile:3:1.*may only COPY"):
        render.instructions(f"FROM a AS b\nFROM c\n{line}\nCOPY --from=b /x/ /\n")


def test_final_stage_copies_something():
    """An image without a layer of its own is no build."""
    with pytest.raises(MatrixError, match="copies nothing"):
        render.instructions("FROM a AS b\nCOPY x /\nFROM c\n")


def test_scripts_are_complete():
    """Every script that the template calls comes along, as LF text."""
    found = render.scripts(Path("/nowhere"))
    text = resources.bundled("dockerfiles").joinpath("llamacpp.Dockerfile.j2").read_text()
    assert set(re.findall(r"/sistership/([\w-]+\.sh)", text)) <= set(found)
    assert all(
        b"\r" not in data and data.startswith((b"#!/bin/sh\n", b"# shellcheck shell=sh")) for data in found.values()
    )


@pytest.fixture
def apt(tmp_path):
    """Runs the package stage's RUN with an apt-get that writes down its calls and leaves the given list behind."""

    def run(dockerfile: str, lists: str) -> tuple[int, list[str], str]:
        instruction = next(
            part for part in re.split(r"\n(?=\S)", dockerfile) if part.startswith("RUN") and "apt-get" in part
        )
        script = instruction.removeprefix("RUN ").replace("\\\n", " ")
        for path in ("/var/lib/apt/lists", "/etc/apt/apt.conf.d", "/etc/ssl/certs"):
            (tmp_path / path[1:]).mkdir(parents=True, exist_ok=True)
            script = script.replace(path, str(tmp_path / path[1:]))
        fake = tmp_path / "bin" / "apt-get"
        fake.parent.mkdir()
        log, made = tmp_path / "log", tmp_path / "var/lib/apt/lists" / lists
        fake.write_text(f'#!/bin/sh\necho "$@" >> {log}\ntouch {made}\n')
        fake.chmod(0o755)
        environ = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, env=environ, check=False)
        return done.returncode, log.read_text().splitlines(), done.stderr

    return run


def test_packages_as_of_a_moment(make, apt, tmp_path):
    """Lists and packages are asked for as of the locked moment; without certificates signatures alone are trusted."""
    rendered = text(make.variant(), make.locked(snapshot="20260501T000000Z"))
    code, calls, _ = apt(rendered, "archive_ubuntu_20260501T000000Z_dists_noble_InRelease")
    assert code == 0
    assert calls[0] == "--snapshot 20260501T000000Z -o Acquire::Check-Valid-Until=false update"
    assert calls[1] == "--snapshot 20260501T000000Z install -y --no-install-recommends cmake ninja-build"
    assert "Verify-Peer" in (tmp_path / "etc/apt/apt.conf.d/90sistership").read_text()


def test_archive_without_the_moment_fails_the_build(make, apt):
    """apt falls back to today's archive without a word: the stage notices, and installs nothing."""
    rendered = text(make.variant(), make.locked(snapshot="20260501T000000Z"))
    code, calls, err = apt(rendered, "archive_ubuntu_dists_noble_InRelease")
    assert (code, len(calls)) == (1, 1)
    assert "has no snapshot of 20260501T000000Z" in err


def test_floating_packages(make, apt):
    """Without a moment the stage is the plain one, and says that it floats."""
    rendered = text(make.variant(), make.locked())
    assert "# Not pinned" in rendered
    code, calls, _ = apt(rendered, "x")
    assert (code, calls) == (0, ["update", "install -y --no-install-recommends cmake ninja-build"])


@pytest.mark.parametrize(("wanted", "shown"), [("auto", render.UNRESOLVED), ("20260501T000000Z", "20260501T000000Z")])
def test_unlocked_moment_is_marked(make, wanted, shown):
    """Before `lock`, a moment that the lock decides is marked; one that the matrix says is there."""
    assert f'--snapshot "{shown}"' in text(make.variant(snapshot=wanted))
