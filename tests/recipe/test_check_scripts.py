"""The checks inside a build, run by a plain sh on a small image: programs and libraries that a real gcc made."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sistership import resources

SUPPORT = resources.bundled("dockerfiles") / "support"
COMMIT = "190374b3f846" + "0" * 28
SETS = "SSE42 AVX AVX2 BMI2 FMA F16C"
LEVEL = ("-mavx2", "-mfma", "-mf16c")

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0, reason="programs of an image run in its own root: needs root, as a build has"
    ),
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
]

PROGRAM = """
#include <stdio.h>
#include <string.h>
extern float dot(const float *x, const unsigned short *y, const int *z);
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--version")) { fprintf(stderr, "version: 9 (%s)\\n", COMMIT); return 0; }
    if (argc > 1 && !strcmp(argv[1], "--help")) { puts("usage\\n  -ngl N"); return 0; }
    float x[8] = {1}; unsigned short y[8] = {0}; int z[8] = {1};
    return (int) dot(x, y, z);
}
"""
LIBRARY = """
#if defined(__AVX2__)
#include <immintrin.h>
float dot(const float *x, const unsigned short *y, const int *z) {
    __m256 a = _mm256_loadu_ps(x), b = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) y));
    __m256i c = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *) z), _mm256_set1_epi32(1));
    float out[8];
    _mm256_storeu_ps(out, _mm256_fmadd_ps(a, b, _mm256_cvtepi32_ps(c)));
    return out[0];
}
#else
float dot(const float *x, const unsigned short *y, const int *z) { return x[0] * y[0] + z[0]; }
#endif
#if defined(__AVX512F__)
#include <immintrin.h>
void wide(float *x) { _mm512_storeu_ps(x, _mm512_add_ps(_mm512_loadu_ps(x), _mm512_set1_ps(2))); }
#endif
const char *where(void) { return WHERE; }
"""
#: What cuobjdump prints; the real one is used where CUDA is compiled, on the practice hosts.
CUOBJDUMP = """#!/bin/sh
[ "$1" = --list-elf ] && for code in $CODE; do
    echo "ELF file    1: libggml-cuda.1.$code.cubin"; echo "ELF file    2: libggml-cuda.2.$code.cubin"
done
[ "$1" = --list-ptx ] && for code in $PTX; do echo "PTX file    1: libggml-cuda.1.$code.ptx"; done
exit 0
"""


def gcc(out: Path, text: str, *words: str, where: str = "./ggml.c", commit: str = COMMIT) -> None:
    """Compile `text` into `out`, as the recipe's flags do."""
    out.parent.mkdir(parents=True, exist_ok=True)
    rpath = ["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../lib:$ORIGIN"]
    argv = ["gcc", "-O2", "-x", "c", "-", "-o", str(out), f'-DWHERE="{where}"', f'-DCOMMIT="{commit}"', *rpath, *words]
    subprocess.run(argv, input=text, text=True, check=True, capture_output=True)


def library(image: Path, *words: str, where: str = "./ggml.c") -> Path:
    """The library that holds ggml's code for the processor."""
    out = image / "app/lib/libggml-cpu.so.0"
    gcc(out, LIBRARY, "-shared", "-fPIC", "-Wl,-soname,libggml-cpu.so.0", *words, where=where)
    return out


def programs(image: Path, *, commit: str = COMMIT) -> None:
    """The programs of an image, linked with its library."""
    cli = image / "app/bin/llama-cli"
    gcc(cli, PROGRAM, "-x", "none", str(image / "app/lib/libggml-cpu.so.0"), commit=commit)
    for name in ("llama-server", "llama-bench", "rpc-server"):
        shutil.copy2(cli, image / "app/bin" / name)


def rooted(image: Path) -> None:
    """The loader, the C library and env: what a runtime base has of them."""
    wanted = {"/usr/bin/env"}
    told = subprocess.run(["ldd", "/usr/bin/env"], capture_output=True, text=True, check=True).stdout
    wanted |= {word for word in told.split() if word.startswith("/")}
    told = subprocess.run(["ldd", image / "app/bin/llama-cli"], capture_output=True, text=True, check=True).stdout
    wanted |= {word for word in told.split() if word.startswith("/") and "libggml" not in word}
    for name in wanted:
        (image / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, image / name.lstrip("/"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One good image, for tests to copy."""
    image = tmp_path_factory.mktemp("made") / "image"
    library(image, *LEVEL)
    programs(image)
    rooted(image)
    (image / "app/bin/llama-rpc-worker").symlink_to("rpc-server")
    return image


@dataclass
class Build:
    """A build whose image can be spoiled before it is checked."""

    root: Path

    @property
    def image(self) -> Path:
        """Root of the image."""
        return self.root / "image"

    def check(self, *options: str, environment: str = "", unused: str = "", report: str = "report", **env: str):
        """Run check.sh; gives the finished process, the report's lines as fields, and the failed ones."""
        (self.root / "environment").write_text(f"PATH=/app/bin\n{environment}")
        (self.root / "unused").write_text(unused)
        fake = self.root / "bin/cuobjdump"
        fake.parent.mkdir(exist_ok=True)
        fake.write_text(CUOBJDUMP)
        fake.chmod(0o755)
        given = {"--backend": "cpu", "--commit": COMMIT, "--worker": "rpc-server|ggml-rpc-server", "--sets": SETS}
        given |= {"--programs": "llama-bench llama-cli llama-server", "--unused": str(self.root / "unused")}
        given |= dict(zip(options[::2], options[1::2], strict=True))
        argv = ["/bin/sh", str(SUPPORT / "check.sh"), "--image", str(self.image), "--report", str(self.root / report)]
        argv += ["--environment", str(self.root / "environment")]
        argv += [word for pair in given.items() for word in pair]
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, env={**os.environ, **env, "PATH": path}
        )
        head, *lines = (self.share(report) / "checks.tsv").read_text().splitlines()
        assert head == "# sistership checks 1"
        rows = [line.split("\t") for line in lines]
        assert all(len(row) == 6 for row in rows), lines
        return done, rows, [row for row in rows if row[1] == "failed"]

    def share(self, report: str = "report") -> Path:
        """The folder that the report fills in the image."""
        return self.root / report / "app/share/sistership"


@pytest.fixture
def build(made, tmp_path):
    """A build of the good image."""
    shutil.copytree(made, tmp_path / "image", symlinks=True)
    return Build(tmp_path)


def one(failed: list[list[str]], check: str, subject: str) -> tuple[str, str, str]:
    """Expected, found and cure of the only failed check."""
    assert [(row[0], row[2]) for row in failed] == [(check, subject)]
    return failed[0][3], failed[0][4], failed[0][5]


def test_good_image_passes_with_a_report(build):
    """Every check speaks for what it judges; version and help texts are kept, and a list of sums covers the report."""
    done, rows, failed = build.check()
    assert (done.returncode, failed) == (0, []), done.stderr
    assert [row[0] for row in rows] == [
        *("flags", "programs", "libraries", "stubs", "instructions", "paths", "version", "version"),
        *("help", "help", "help", "help"),
    ]
    assert {row[1] for row in rows} == {"ok"}
    assert (build.share() / "help/llama-rpc-worker.txt").read_text() == "usage\n  -ngl N\n"
    assert (build.share() / "version.txt").read_text().splitlines()[0] == f"llama-cli: version: 9 ({COMMIT})"
    sums = (build.share() / "40-report.sha256").read_text().splitlines()
    assert [line.split("  ")[1] for line in sums] == [
        "/app/share/sistership/checks.tsv",
        *(
            f"/app/share/sistership/help/{name}.txt"
            for name in ("llama-bench", "llama-cli", "llama-rpc-worker", "llama-server")
        ),
        "/app/share/sistership/version.txt",
    ]


def test_report_does_not_depend_on_the_moment_or_the_processors(build):
    """Run again, on other processors, the report is the same to the byte."""
    build.check()
    before = {path.name: path.read_bytes() for path in build.share().rglob("*") if path.is_file()}
    build.check(report="second")
    assert {path.name: path.read_bytes() for path in build.share("second").rglob("*") if path.is_file()} == before


def test_forgotten_library_is_named(build):
    """A library that no layer brought: every file that needs it fails, and says which one is missing."""
    (build.image / "app/lib/libggml-cpu.so.0").unlink()
    done, _, failed = build.check("--unjudged", "not of interest")
    assert done.returncode == 1
    found = {row[2]: row[4] for row in failed if row[0] == "libraries"}
    assert found["/app/bin/llama-server"] == "not found: libggml-cpu.so.0"
    assert "sistership-check:\tlibraries\t/app/bin/llama-server\t" in done.stderr


def test_driver_library_alone_may_be_missing(build):
    """libcuda.so.1 comes from the host; nothing else does."""
    stub = build.root / "libcuda.so.1"
    gcc(stub, "int cuInit(int x) { return x; }", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    needs = "extern int cuInit(int); int start(void) { return cuInit(0); }"
    gcc(build.image / "app/lib/libggml-cuda.so.0", needs, "-shared", "-fPIC", "-x", "none", str(stub))
    done, _, failed = build.check()
    assert (done.returncode, failed) == (0, []), done.stderr


@pytest.mark.parametrize("name", ["llama-cli", "llama-rpc-worker"])
def test_missing_program_is_named(build, name):
    """A program or the worker that is not in the image."""
    (build.image / "app/bin" / name).unlink()
    _, _, failed = build.check()
    _, found, _ = one(failed, "programs", f"/app/bin/{name}")
    assert found == "not there"


def test_code_for_the_builder_alone_exceeds_the_baseline(build):
    """-march of a newer processor: the file, the set and an instruction of it are named."""
    library(build.image, *LEVEL, "-mavx512f")
    _, _, failed = build.check()
    expected, found, cure = one(failed, "instructions", "/app/lib/libggml-cpu.so.0")
    assert expected == f"none but {SETS}"
    assert found.startswith("AVX512 (v")
    assert "-march" in cure


def test_sets_switched_off_do_not_reach_the_baseline(build):
    """What SOURCE_DATE_EPOCH in cmake's environment leaves: the baseline is not reached, and the cure names it."""
    library(build.image)
    _, _, failed = build.check()
    expected, found, cure = one(failed, "instructions", "/app/lib/libggml-cpu.so.0")
    assert expected == f"{SETS}: the baseline reached"
    assert found == "no SSE42 AVX AVX2 FMA F16C, only what every x86-64 has"
    assert "SOURCE_DATE_EPOCH" in cure


@pytest.mark.parametrize(
    ("words", "sets", "says"),
    [
        (("-msse4.2",), "SSE42", "AVX (v"),
        ((), "SSE42 AVX", "AVX2 (v"),
        ((), "SSE42 AVX AVX2 FMA", "F16C (vcvtph2ps)"),
        ((), "SSE42 AVX AVX2 F16C", "FMA (vf"),
    ],
)
def test_each_level_below_is_kept(build, words, sets, says):
    """A set that is switched off is found where the compiler used it all the same."""
    library(build.image, *LEVEL, *words)
    _, _, failed = build.check("--sets", sets)
    assert says in failed[0][4]


def test_plain_x86_64_passes_with_no_sets(build):
    """The oldest baseline: no set is on, none is there."""
    library(build.image)
    done, rows, failed = build.check("--sets", "")
    assert (done.returncode, failed) == (0, []), done.stderr
    assert next(row for row in rows if row[0] == "instructions")[3] == "none beyond x86-64"


def test_library_per_processor_is_not_judged(build):
    """GGML_CPU_ALL_VARIANTS: code for each processor is chosen at run time, so none of it is judged."""
    library(build.image)
    shutil.move(build.image / "app/lib/libggml-cpu.so.0", build.root / "base")
    library(build.image, *LEVEL, "-mavx512f")
    shutil.move(build.image / "app/lib/libggml-cpu.so.0", build.image / "app/lib/libggml-cpu-skylakex.so")
    shutil.copy2(build.root / "base", build.image / "app/lib/libggml-base.so.0")
    for name in ("llama-cli", "llama-server", "llama-bench", "rpc-server"):
        (build.image / "app/bin" / name).unlink()
        gcc(build.image / "app/bin" / name, PROGRAM, "-x", "none", str(build.root / "base"), "-Wl,-rpath,/app/lib")
    (build.image / "app/lib/libggml-cpu.so.0").symlink_to("libggml-base.so.0")
    _, rows, failed = build.check()
    assert [row for row in failed if row[0] == "instructions"] == []
    assert next(row[1] for row in rows if row[0] == "instructions") == "not judged"


def test_native_is_not_judged(build):
    """A variant that asks for the builder's own processor gets it, and the report says so."""
    library(build.image, *LEVEL, "-mavx512f")
    done, rows, _ = build.check("--unjudged", "native: true is for the processor that built it")
    assert done.returncode == 0
    row = next(row for row in rows if row[0] == "instructions")
    assert (row[1], row[4]) == ("not judged", "native: true is for the processor that built it")


@pytest.mark.parametrize("where", ["/src/ggml/ggml.c", "at /build/ggml.c", "-I/src/include -DA=/build/x"])
def test_path_of_the_build_is_found(build, where):
    """A source or build folder in a string."""
    library(build.image, *LEVEL, where=where)
    _, _, failed = build.check()
    _, found, cure = one(failed, "paths", "/app/lib/libggml-cpu.so.0")
    assert "/src/" in found or "/build/" in found
    assert "-ffile-prefix-map" in cure


@pytest.mark.parametrize(
    "where", ["./ggml/src/ggml.c", "https://example.org/src/x.js", "./build/x.c", "/srcs/a", "a/build/b"]
)
def test_other_paths_are_no_fault(build, where):
    """Strings that only look like the build's folders."""
    library(build.image, *LEVEL, where=where)
    done, _, failed = build.check()
    assert (done.returncode, failed) == (0, []), failed


def test_loader_path_into_the_build_is_found(build):
    """An RPATH that leaves the image's own folder."""
    library(build.image, *LEVEL, "-Wl,-rpath,/build/bin")
    _, _, failed = build.check()
    found = [row[4] for row in failed if row[0] == "paths"]
    assert any(text.startswith("RPATH /build/bin") for text in found), failed


def test_stub_of_the_driver_is_found(build):
    """A library in the driver's place, or a folder of stubs that the loader would search."""
    (build.image / "app/lib/libcuda.so.1").write_bytes(b"\x7fELF stub")
    (build.image / "usr/local/cuda/compat").mkdir(parents=True)
    (build.image / "usr/local/cuda/compat/libcuda.so.1").write_bytes(b"NVIDIA's own, for newer toolkits")
    _, _, failed = build.check(environment="LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs\n")
    found = {row[2]: row[4] for row in failed if row[0] == "stubs"}
    assert found == {
        "/app/lib/libcuda.so.1": "it is in the image",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs",
    }


def test_version_of_another_commit_is_found(build):
    """A program that says another commit, or none, is not what the lock pins."""
    programs(build.image, commit="unknown")
    _, _, failed = build.check()
    assert {row[2] for row in failed if row[0] == "version"} == {"/app/bin/llama-cli", "/app/bin/llama-server"}
    assert failed[0][4] == "version: 9 (unknown)"


def test_source_that_takes_no_commit_is_not_judged(build):
    """Before b5655 LLAMA_BUILD_COMMIT was no setting: the label alone carries the pin."""
    programs(build.image, commit="unknown")
    done, rows, _ = build.check(unused="LLAMA_BUILD_UI\nLLAMA_BUILD_COMMIT\n")
    assert done.returncode == 0
    assert {row[1] for row in rows if row[0] == "version"} == {"not judged"}
    assert "2 guards" in rows[0][4]


@pytest.mark.parametrize(
    ("code", "ptx", "lacking"),
    [
        ("sm_89 sm_120a", "", None),
        ("sm_89 sm_120", "sm_89", None),
        ("sm_89", "sm_120", "120 (sm_120 or sm_120a)"),
        ("", "", "89 (sm_89)"),
    ],
)
def test_archs(build, code, ptx, lacking):
    """Each arch of the matrix as machine code; PTX of it is not enough, and the `a` form is the same arch."""
    shutil.copy2(build.image / "app/lib/libggml-cpu.so.0", build.image / "app/lib/libggml-cuda.so.0")
    wanted = ("--backend", "cuda", "--archs", "89:sm_89 120:sm_120|sm_120a")
    done, rows, failed = build.check(*wanted, CODE=code, PTX=ptx)
    assert (done.returncode == 0) is (lacking is None)
    if lacking is None:
        assert next(row for row in rows if row[0] == "archs")[3] == "89 120"
    else:
        assert f"code for {lacking}" in {row[3] for row in failed}


def test_virtual_arch_is_ptx(build):
    """An arch that is for the driver to compile."""
    shutil.copy2(build.image / "app/lib/libggml-cpu.so.0", build.image / "app/lib/libggml-cuda.so.0")
    wanted = ("--backend", "cuda", "--archs", "89:sm_89 90-virtual:compute_90")
    assert build.check(*wanted, CODE="sm_89", PTX="sm_90")[2] == []
    assert build.check(*wanted, CODE="sm_89 sm_90", PTX="")[2][0][3] == "code for 90-virtual (compute_90)"


def test_forgotten_cuda_library_is_named(build):
    """A CUDA variant without libggml-cuda would compute on the CPU alone, and nobody would be told."""
    _, _, failed = build.check("--backend", "cuda", "--archs", "89:sm_89", CODE="sm_89")
    one(failed, "archs", "/app/lib/libggml-cuda.so")
