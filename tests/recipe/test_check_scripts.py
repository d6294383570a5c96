"""The checks inside a build, run by a plain sh on a small image: programs and libraries that a real gcc made."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
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

#: As a program of llama.cpp, it shows its default number of threads; as a worker, it tells its help on standard error.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern float dot(const float *x, const unsigned short *y, const int *z);
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--version")) { fprintf(stderr, "version: 9 (%s)\\n", COMMIT); return 0; }
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        FILE *out = strstr(argv[0], "rpc") ? stderr : stdout;
        if (out == stderr) fprintf(stderr, "load_backend: loaded %d\\n", (int) getpid());
        fprintf(out, "usage\\n  -t N (default: %ld)\\n", sysconf(_SC_NPROCESSORS_ONLN));
        fprintf(out, "%s %s", getenv("HOME"), getenv("COLUMNS") ? "wide" : "narrow");
        return 0;
    }
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
"""
#: What cuobjdump prints; the real one is used where CUDA is compiled, on the practice hosts.
CUOBJDUMP = """#!/bin/sh
[ "$1" = --list-elf ] && for code in $CODE; do
    echo "ELF file    1: libggml-cuda.1.$code.cubin"; echo "ELF file    2: libggml-cuda.2.$code.cubin"
done
[ "$1" = --list-ptx ] && for code in $PTX; do echo "PTX file    1: libggml-cuda.1.$code.ptx"; done
exit 0
"""


def gcc(out: Path, text: str, *words: str) -> Path:
    """Compile and link `text` into `out`, with the loader's path of the recipe."""
    out.parent.mkdir(parents=True, exist_ok=True)
    rpath = ["-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../lib:$ORIGIN"]
    argv = ["gcc", "-O2", "-x", "c", "-", "-x", "none", *words, "-o", str(out), *rpath]
    subprocess.run(argv, input=text, text=True, check=True, capture_output=True)
    return out


@functools.cache
def compiled(text: str, *words: str) -> bytes:
    """An object file; each is compiled once for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        argv = ["gcc", "-O2", "-fPIC", "-x", "c", "-", "-c", "-o", f"{folder}/a.o", *words]
        subprocess.run(argv, input=text, text=True, check=True, capture_output=True)
        return Path(folder, "a.o").read_bytes()


def shared(out: Path, text: str, *words: str) -> Path:
    """A library."""
    return gcc(out, text, "-shared", "-fPIC", f"-Wl,-soname,{out.name}", *words)


def library(image: Path, *words: str, where: str = "./ggml.c", link: tuple[str, ...] = ()) -> Path:
    """The library that holds ggml's code for the processor."""
    out = image / "app/lib/libggml-cpu.so.0"
    out.parent.mkdir(parents=True, exist_ok=True)
    code = out.with_suffix(".o")
    code.write_bytes(compiled(LIBRARY, *words))
    shared(out, f'const char *where(void) {{ return "{where}"; }}', str(code), *link)
    code.unlink()
    return out


def program(image: Path, *words: str, commit: str = COMMIT, text: str = PROGRAM) -> Path:
    """A program of an image, linked with its library."""
    code = image / "llama-cli.o"
    code.write_bytes(compiled(text, f'-DCOMMIT="{commit}"'))
    words = words or (str(image / "app/lib/libggml-cpu.so.0"),)
    gcc(image / "app/bin/llama-cli", "", str(code), *words)
    code.unlink()
    return image / "app/bin/llama-cli"


def every_program(image: Path) -> None:
    """All the programs, and the worker under its stable name."""
    for name in ("llama-server", "llama-bench", "rpc-server"):
        shutil.copy2(image / "app/bin/llama-cli", image / "app/bin" / name)
    (image / "app/bin/llama-rpc-worker").symlink_to("rpc-server")


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
    """One good image of one program and its library, for tests to copy."""
    image = tmp_path_factory.mktemp("made") / "image"
    library(image, *LEVEL)
    program(image)
    rooted(image)
    return image


@dataclass
class Build:
    """A build whose image can be spoiled before it is checked."""

    root: Path

    @property
    def image(self) -> Path:
        """Root of the image."""
        return self.root / "image"

    def script(self, only: str) -> Path:
        """check.sh; with `only`, a copy that lacks the other checks, for speed."""
        if not only:
            return SUPPORT / "check.sh"
        folder = self.root / "support"
        shutil.copytree(SUPPORT, folder, dirs_exist_ok=True)
        text, count = re.subn(
            rf"^(?!{only}$)(check_\w+|keep_help)$", ":", (SUPPORT / "check.sh").read_text(), flags=re.MULTILINE
        )
        assert count >= 6, "its checks are not one a line"
        (folder / "check.sh").write_text(text)
        return folder / "check.sh"

    def check(
        self, *options: str, environment: str = "", unused: str = "", report: str = "report", only: str = "", **env: str
    ):
        """Run check.sh; gives the finished process, the report's lines as fields, and the failed ones."""
        (self.root / "environment").write_text(f"PATH=/app/bin\n{environment}")
        (self.root / "unused").write_text(unused)
        fake = self.root / "bin/cuobjdump"
        fake.parent.mkdir(exist_ok=True)
        fake.write_text(CUOBJDUMP)
        fake.chmod(0o755)
        given = {"--backend": "cpu", "--commit": COMMIT, "--worker": "-", "--sets": SETS}
        given |= {"--programs": "llama-cli", "--unused": str(self.root / "unused")}
        given |= dict(zip(options[::2], options[1::2], strict=True))
        argv = ["/bin/sh", str(self.script(only)), "--image", str(self.image), "--report", str(self.root / report)]
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


#: Options of an image with `every_program`.
EVERY = ("--programs", "llama-bench llama-cli llama-server", "--worker", "rpc-server|ggml-rpc-server")


def one(failed: list[list[str]], check: str, subject: str) -> tuple[str, str, str]:
    """Expected, found and cure of the only failed check."""
    assert [(row[0], row[2]) for row in failed] == [(check, subject)]
    return failed[0][3], failed[0][4], failed[0][5]


def test_good_image_passes_with_a_report(build):
    """Every check speaks for what it judges; version and help texts are kept, and a list of sums covers the report."""
    every_program(build.image)
    done, rows, failed = build.check(*EVERY)
    assert (done.returncode, failed) == (0, []), done.stderr
    assert [row[0] for row in rows] == [
        *("flags", "programs", "libraries", "stubs", "instructions", "paths", "version", "version"),
        *("help", "help", "help", "help"),
    ]
    assert {row[1] for row in rows} == {"ok"}
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


def test_report_does_not_depend_on_the_machine(build):
    """On other processors, by another user's settings and at another moment, the report is the same to the byte."""
    every_program(build.image)
    build.check(*EVERY)
    before = {path.name: path.read_bytes() for path in build.share().rglob("*") if path.is_file()}
    # What a worker's backends log about the machine stands before its help, and is left out.
    assert before["llama-rpc-worker.txt"] == b"usage\n  -t N (default: 1)\n/nonexistent narrow"
    mine, mask = os.sched_getaffinity(0), os.umask(0o077)
    try:
        os.sched_setaffinity(0, {max(mine)})
        done, _, _ = build.check(*EVERY, report="second", LANG="de_DE.UTF-8", LC_ALL="", HOME="/root", COLUMNS="20")
    finally:
        os.sched_setaffinity(0, mine)
        os.umask(mask)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in build.share("second").rglob("*") if path.is_file()} == before
    modes = {path.name: path.stat().st_mode & 0o777 for path in (build.root / "second/app").rglob("*")}
    assert {mode for name, mode in modes.items() if "." in name} == {0o644}
    assert {mode for name, mode in modes.items() if "." not in name} == {0o755}


def test_no_word_can_break_a_line_of_the_report(tmp_path):
    """What a program says may hold tabs and line ends: each finding stays one line, here and in the log."""
    script = f'REPORT="$1"; . "{SUPPORT}/findings.sh"; failed a "b\tc" "d\ne" "\r" "\\\\n *"'
    done = subprocess.run(["/bin/sh", "-c", script, "sh", tmp_path / "report"], capture_output=True, check=True)
    assert (tmp_path / "report").read_bytes() == b"a\tfailed\tb c\td e\t \t\\n *\n"
    assert done.stderr == b"sistership-check:\ta\tb c\td e\t \t\\n *\n"


def test_flags_that_nobody_looked_at_are_no_pass(build):
    """A project's own template without check-flags.sh: the report must not say that every flag was used."""
    _, _, failed = build.check("--unused", str(build.root / "nowhere"), only="check_used")
    _, found, cure = one(failed, "flags", "cmake")
    assert found.startswith("nobody looked")
    assert "check-flags.sh" in cure


def test_forgotten_library_is_named(build):
    """A library that no layer brought: every file that needs it fails, and says which one is missing."""
    (build.image / "app/lib/libggml-cpu.so.0").unlink()
    done, _, failed = build.check("--unjudged", "not of interest", only="check_libraries")
    assert done.returncode == 1
    found = {row[2]: row[4] for row in failed if row[0] == "libraries"}
    assert found["/app/bin/llama-cli"] == "not found: libggml-cpu.so.0"
    assert "sistership-check:\tlibraries\t/app/bin/llama-cli\t" in done.stderr


def test_driver_library_alone_may_be_missing(build):
    """libcuda.so.1 comes from the host; nothing else does, also where the loader misses the driver's first."""
    stub = shared(build.root / "libcuda.so.1", "int cuInit(int x) { return x; }")
    gone = shared(build.root / "libgone.so.2", "int gone(void) { return 1; }")
    needs = "extern int cuInit(int), gone(void); int start(void) { return cuInit(0) + gone(); }"
    cuda = shared(build.image / "app/lib/libggml-cuda.so.0", needs, str(stub), str(gone))
    _, _, failed = build.check(only="check_libraries")
    assert one(failed, "libraries", f"/app/lib/{cuda.name}")[1] == "not found: libgone.so.2"
    shared(cuda, "extern int cuInit(int); int start(void) { return cuInit(0); }", str(stub))
    done, _, failed = build.check(only="check_libraries")
    assert (done.returncode, failed) == (0, []), done.stderr


def versioned(out: Path, version: str) -> Path:
    """A library whose symbol carries a version."""
    (out.parent / "map").write_text(f"{version} {{ global: far; }};")
    shared(out, "int far(void) { return 1; }", f"-Wl,--version-script={out.parent / 'map'}")
    (out.parent / "map").unlink()
    return out


def test_library_older_than_the_one_of_the_build_is_named(build):
    """A runtime base behind the build base: the file is there, the version of a symbol in it is not."""
    far = versioned(build.image / "app/lib/libfar.so.1", "FAR_2")
    shared(build.image / "app/lib/libnear.so.1", "int far(void); int near(void) { return far(); }", str(far))
    assert build.check(only="check_libraries")[2] == []
    versioned(far, "FAR_1")
    _, _, failed = build.check(only="check_libraries")
    _, found, cure = one(failed, "libraries", "/app/lib/libnear.so.1")
    assert found == "not found: libfar.so.1 without FAR_2"
    assert "as new as the build base" in cure


def test_library_that_the_loader_refuses_is_told(build):
    """A file that is no library of this machine: what the loader says of it."""
    far = shared(build.image / "app/lib/libfar.so.1", "int far(void) { return 1; }")
    shared(build.image / "app/lib/libnear.so.1", "int far(void); int near(void) { return far(); }", str(far))
    far.write_text("short")
    _, _, failed = build.check(only="check_libraries")
    assert "file too short" in one(failed, "libraries", "/app/lib/libnear.so.1")[1]


def test_backend_that_nobody_would_load_is_named(build):
    """GGML_BACKEND_DL: nothing is linked with the library, and libggml would not look where it lies."""
    needs = ("int one(void) { return 1; }", str(build.image / "app/lib/libggml-cpu.so.0"))
    ggml = shared(build.image / "app/lib/libggml.so.0", *needs)
    gcc(build.image / "app/lib/libggml-vulkan.so", "int two(void) { return 2; }", "-shared", "-fPIC")
    _, _, failed = build.check(only="check_libraries")
    assert "GGML_BACKEND_DIR: /app/lib" in one(failed, "libraries", "/app/lib/libggml-vulkan.so")[2]
    shared(ggml, 'const char *folder(void) { return "/app/lib"; }')
    assert build.check(only="check_libraries")[2] == []


@pytest.mark.parametrize("name", ["llama-cli", "llama-rpc-worker"])
def test_missing_program_is_named(build, name):
    """A program or the worker that is not in the image."""
    every_program(build.image)
    (build.image / "app/bin" / name).unlink()
    _, _, failed = build.check(*EVERY, only="check_programs")
    _, found, _ = one(failed, "programs", f"/app/bin/{name}")
    assert found == "not there"


def test_odd_name_is_refused(build):
    """A name that the scripts would read as two: its file would be checked by nobody."""
    shared(build.image / "app/lib/lib odd.so", "int f(void) { return 1; }")
    _, _, failed = build.check(only="check_programs")
    assert ("programs", "/app/lib/lib odd.so") in {(row[0], row[2]) for row in failed}


def test_static_program_passes(build):
    """-static: no loader, no libraries; the C library in it holds code for each processor, so none of it is judged."""
    shutil.rmtree(build.image / "app/lib")
    program(build.image, "-static", text=PROGRAM + LIBRARY)
    done, rows, failed = build.check()
    assert (done.returncode, failed) == (0, []), done.stderr
    assert next(row[1] for row in rows if row[0] == "instructions") == "not judged"


def test_backends_linked_into_the_programs_are_judged(build):
    """BUILD_SHARED_LIBS off: the baseline is looked for in a program."""
    shutil.rmtree(build.image / "app/lib")
    code = build.root / "ggml.o"
    code.write_bytes(compiled(LIBRARY, *LEVEL))
    program(build.image, str(code))
    assert build.check(only="check_instructions")[2] == []
    code.write_bytes(compiled(LIBRARY))
    program(build.image, str(code))
    expected, _, _ = one(build.check(only="check_instructions")[2], "instructions", "/app/bin/llama-cli")
    assert expected == f"{SETS}: the baseline reached"


#: Instructions and the sets they are of. GNU as writes them, objdump reads them.
INSTRUCTIONS = [
    ("", "tzcntl %eax,%ebx; lzcntl %eax,%ebx; pextrw $1,%xmm0,%eax; lock; xaddl %eax,(%rbx)"),
    ("", "pshufd $1,%xmm1,%xmm2; movntdq %xmm0,(%rax); maxps %xmm0,%xmm1; cvtps2dq %xmm0,%xmm1; pcmpeqd %xmm0,%xmm1"),
    ("SSE42", "movddup (%rax),%xmm0; haddps %xmm0,%xmm1; pshufb %xmm0,%xmm1; pabsd %xmm0,%xmm1; ptest %xmm0,%xmm1"),
    ("SSE42", "pmovzxbw %xmm0,%xmm1; pcmpgtq %xmm0,%xmm1; crc32b %al,%ebx; popcntq %rax,%rbx; fisttpll (%rax)"),
    ("SSE42", "pmulld %xmm0,%xmm1; roundsd $1,%xmm0,%xmm1; pextrd $1,%xmm0,%eax; pmaxsb %xmm0,%xmm1"),
    ("AVX", "vaddps %ymm0,%ymm1,%ymm2; vzeroupper; vpand %xmm0,%xmm1,%xmm2; vptest %ymm0,%ymm1; vldmxcsr (%rax)"),
    ("AVX", "vbroadcastss (%rax),%ymm0; vperm2f128 $1,%ymm0,%ymm1,%ymm2; vpermilps $1,%ymm0,%ymm1"),
    ("AVX AVX2", "vpand %ymm0,%ymm1,%ymm2; vpermq $1,%ymm0,%ymm1; vinserti128 $1,%xmm0,%ymm1,%ymm2"),
    ("AVX AVX2", "vpsllvd %xmm0,%xmm1,%xmm2; vpbroadcastb %xmm0,%xmm1; vpblendd $1,%xmm0,%xmm1,%xmm2"),
    ("AVX AVX2", "vbroadcastss %xmm0,%ymm1; vpgatherdd %xmm0,(%rax,%xmm1),%xmm2; vpmaskmovd (%rax),%xmm0,%xmm1"),
    ("AVX FMA", "vfmadd231ss %xmm0,%xmm1,%xmm2; vfnmsub132pd %ymm0,%ymm1,%ymm2; vfmaddsub213ps %xmm0,%xmm1,%xmm2"),
    ("AVX F16C", "vcvtph2ps %xmm0,%ymm1; vcvtps2ph $0,%ymm0,(%rax)"),
    ("BMI2", "mulx %rax,%rbx,%rcx; rorx $3,%rax,%rbx; shlx %rax,%rbx,%rcx; andn %rax,%rbx,%rcx; movbe (%rax),%rbx"),
    ("AVX_VNNI", "{vex} vpdpbusd %ymm0,%ymm1,%ymm2"),
    ("AMX_TILE", "ldtilecfg (%rax); tilerelease; tileloadd (%rax,%rbx),%tmm1; tilezero %tmm0"),
    ("AMX_INT8 AMX_TILE", "tdpbssd %tmm1,%tmm2,%tmm3; tdpbuud %tmm1,%tmm2,%tmm3"),
    ("AMX_BF16 AMX_TILE", "tdpbf16ps %tmm1,%tmm2,%tmm3"),
    ("AVX512", "vaddps %zmm0,%zmm1,%zmm2; vaddps %xmm16,%xmm1,%xmm2; kmovw %k1,%eax; kandw %k1,%k2,%k3"),
    ("AVX512", "vpternlogd $1,%ymm0,%ymm1,%ymm2; vprold $3,%xmm0,%xmm1; vcvttss2usi %xmm0,%eax; vpmovdw %ymm0,%xmm1"),
    ("AVX512", "vaddps (%rax){1to8},%ymm0,%ymm1; vmovaps %ymm0,%ymm1{%k1}; vfmadd231ps %zmm0,%zmm1,%zmm2"),
    (
        "AVX512",
        "vcvtph2ps %ymm0,%zmm1; vcvtps2ph $0,%zmm0,(%rax); vpshufb %zmm0,%zmm1,%zmm2; vmovdqu8 %fs:(%rax),%xmm1",
    ),
    ("AVX512 AVX512_VNNI", "{evex} vpdpbusd %ymm0,%ymm1,%ymm2; vpdpwssds %zmm0,%zmm1,%zmm2"),
    ("AVX512 AVX512_VBMI", "vpermb %ymm0,%ymm1,%ymm2; vpermt2b %zmm0,%zmm1,%zmm2; vpmultishiftqb %xmm0,%xmm1,%xmm2"),
    ("AVX512 AVX512_BF16", "vdpbf16ps %ymm0,%ymm1,%ymm2; vcvtneps2bf16 %ymm0,%xmm1"),
    ("AVX512 AVX512_LATER", "vpopcntd %ymm0,%ymm1; vpmadd52luq %ymm0,%ymm1,%ymm2; vpshldd $1,%ymm0,%ymm1,%ymm2"),
    ("AVX512 AVX512_LATER", "vaddsh %xmm0,%xmm1,%xmm2; vmulph %ymm0,%ymm1,%ymm2; vpcompressb %ymm0,%ymm1{%k1}"),
]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="instructions of x86-64")
def test_each_instruction_is_of_its_set(tmp_path):
    """By the encoding first, since EVEX may name the registers of VEX; each instruction alone shows its sets."""
    cases = [(sets, each.strip()) for sets, text in INSTRUCTIONS for each in text.replace("lock; ", "lock ").split(";")]
    for number, (_, text) in enumerate(cases):
        argv = ["as", "-o", str(tmp_path / f"{number:03}.o")]
        subprocess.run(argv, input=f"{text}\n", text=True, check=True)
    script = (
        f'image=; . "{SUPPORT}/check-code.sh"; for file in "$1"/*.o; do sets_of "$file" | cut -d " " -f 1 | xargs; done'
    )
    done = subprocess.run(["/bin/sh", "-c", script, "sh", tmp_path], capture_output=True, text=True, check=True)
    told = done.stdout.split("\n")[:-1]
    assert list(zip(told, [text for _, text in cases], strict=True)) == cases


def test_code_for_the_builder_alone_exceeds_the_baseline(build):
    """-march of a newer processor: the file, the set and an instruction of it are named."""
    library(build.image, *LEVEL, "-mavx512f")
    _, _, failed = build.check(only="check_instructions")
    expected, found, cure = one(failed, "instructions", "/app/lib/libggml-cpu.so.0")
    assert expected == f"none but {SETS}"
    assert found.startswith("AVX512 (v")
    assert "-march" in cure


def test_sets_switched_off_do_not_reach_the_baseline(build):
    """What SOURCE_DATE_EPOCH in cmake's environment leaves: the baseline is not reached, and the cure names it."""
    library(build.image)
    _, _, failed = build.check(only="check_instructions")
    expected, found, cure = one(failed, "instructions", "/app/lib/libggml-cpu.so.0")
    assert expected == f"{SETS}: the baseline reached"
    assert found == "no SSE42 AVX AVX2 FMA F16C, only what every x86-64 has"
    assert "SOURCE_DATE_EPOCH" in cure


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        ("SSE42", "AVX (v"),
        ("SSE42 AVX", "AVX2 (v"),
        ("SSE42 AVX AVX2 FMA", "F16C (vcvtph2ps)"),
        ("SSE42 AVX AVX2 F16C", "FMA (vf"),
    ],
)
def test_each_level_below_is_kept(build, sets, says):
    """A set that is switched off is found where the compiler used it all the same."""
    _, _, failed = build.check("--sets", sets, only="check_instructions")
    assert says in failed[0][4]


def test_plain_x86_64_passes_with_no_sets(build):
    """The oldest baseline: no set is on, none is there."""
    library(build.image)
    done, rows, failed = build.check("--sets", "", only="check_instructions")
    assert (done.returncode, failed) == (0, []), done.stderr
    assert next(row for row in rows if row[0] == "instructions")[3] == "none beyond x86-64"


def test_library_without_a_path_of_its_own_is_judged(build):
    """CMAKE_INSTALL_RPATH replaced: a library of ggml is compiled here all the same."""
    code = build.root / "wide.o"
    code.write_bytes(compiled(LIBRARY, *LEVEL, "-mavx512f"))
    base = build.image / "app/lib/libggml-base.so.0"
    subprocess.run(["gcc", "-shared", str(code), "-o", str(base)], check=True)
    _, _, failed = build.check(only="check_instructions")
    assert one(failed, "instructions", "/app/lib/libggml-base.so.0")[1].startswith("AVX512 (v")


def test_library_per_processor_is_not_judged(build):
    """GGML_CPU_ALL_VARIANTS: code for each processor is chosen at run time, so none of it is judged."""
    lib = build.image / "app/lib"
    library(build.image, *LEVEL, "-mavx512f")
    shutil.move(lib / "libggml-cpu.so.0", lib / "libggml-cpu-skylakex.so")
    base = shared(lib / "libggml.so.0", 'const char *folder(void) { return "/app/lib"; }')
    plain = build.root / "plain.o"
    plain.write_bytes(compiled(LIBRARY))
    program(build.image, str(base), str(plain))
    _, rows, failed = build.check()
    assert failed == []
    assert next(row[1] for row in rows if row[0] == "instructions") == "not judged"


def test_native_is_not_judged(build):
    """A variant that asks for the builder's own processor gets it, and the report says so."""
    library(build.image, *LEVEL, "-mavx512f")
    done, rows, _ = build.check(
        "--unjudged", "native: true is for the processor that built it", only="check_instructions"
    )
    assert done.returncode == 0
    row = next(row for row in rows if row[0] == "instructions")
    assert (row[1], row[4]) == ("not judged", "native: true is for the processor that built it")


def test_path_of_the_build_is_found(build):
    """A source or build folder in a string, alone, followed by a line's number or within a sentence."""
    places = ["/src/ggml/ggml.c", "/src/ggml.c:12: failed", "at /build/ggml.c", "-I/src/include", "-DA=/build/x"]
    for number, where in enumerate(places):
        shared(build.image / f"app/lib/lib{number}.so", f'const char *where(void) {{ return "{where}"; }}')
    _, _, failed = build.check(only="check_paths")
    found = {row[2]: row[4] for row in failed if row[0] == "paths"}
    assert found == {f"/app/lib/lib{number}.so": where for number, where in enumerate(places)}
    assert "-ffile-prefix-map" in failed[0][5]


def test_other_paths_are_no_fault(build):
    """Strings that only look like the build's folders."""
    where = "https://example.org/src/x.js\\0./build/x.c\\0/srcs/a\\0a/build/b\\0/src/\\0/build"
    library(build.image, *LEVEL, where=where)
    done, _, failed = build.check(only="check_paths")
    assert (done.returncode, failed) == (0, []), failed


def test_loader_path_into_the_build_is_found(build):
    """An RPATH that leaves the image's own folder."""
    library(build.image, *LEVEL, link=("-Wl,-rpath,/build/bin",))
    _, _, failed = build.check(only="check_paths")
    found = [row[4] for row in failed if row[0] == "paths"]
    assert any(text.startswith("RPATH /build/bin") for text in found), failed


def test_library_that_came_along_is_as_its_makers_built_it(build):
    """OpenSSL tells /build/… as its compiler's words, others have code for each processor: neither is of this build."""
    code = build.root / "wide.o"
    code.write_bytes(compiled(LIBRARY, *LEVEL, "-mavx512f"))
    text = 'const char *how(void) { return "compiler: gcc -ffile-prefix-map=/build/openssl-3=."; }'
    argv = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", str(code), "-Wl,-rpath,/usr/lib/ssl:$ORIGIN"]
    subprocess.run([*argv, "-o", str(build.image / "app/lib/libcrypto.so.3")], input=text, text=True, check=True)
    assert build.check()[2] == []


def test_stub_of_the_driver_is_found(build):
    """A library in the driver's place, or a folder of stubs that the loader would search."""
    (build.image / "app/lib/libcuda.so.1").write_bytes(b"\x7fELF stub")
    (build.image / "usr/local/cuda/compat").mkdir(parents=True)
    (build.image / "usr/local/cuda/compat/libcuda.so.1").write_bytes(b"NVIDIA's own, for newer toolkits")
    _, _, failed = build.check(environment="LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs\n", only="check_stubs")
    found = {row[2]: row[4] for row in failed if row[0] == "stubs"}
    assert found == {
        "/app/lib/libcuda.so.1": "it is in the image",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs",
    }


def test_stubs_for_the_loaders_cache_are_found(build):
    """A folder of stubs in ld.so.conf: whoever refreshes the loader's cache gives the stub the driver's name."""
    (build.image / "usr/local/cuda/lib64/stubs").mkdir(parents=True)
    (build.image / "usr/local/cuda/lib64/stubs/libcuda.so").write_bytes(b"of a devel image, for linking")
    (build.image / "etc/ld.so.conf.d").mkdir(parents=True)
    (build.image / "etc/ld.so.conf.d/cuda.conf").write_text("/usr/local/cuda/lib64\n")
    assert build.check(only="check_stubs")[2] == []
    (build.image / "etc/ld.so.conf.d/stubs.conf").write_text("/usr/local/cuda/lib64/stubs\n")
    assert (
        one(build.check(only="check_stubs")[2], "stubs", "/etc/ld.so.conf.d/stubs.conf")[1]
        == "/usr/local/cuda/lib64/stubs"
    )


def test_version_of_another_commit_is_found(build):
    """A program that says another commit, or none, is not what the lock pins (ggml-org/llama.cpp#23242)."""
    shutil.copy2(build.image / "app/bin/llama-cli", build.image / "app/bin/llama-server")
    program(build.image, commit="unknown")
    _, rows, failed = build.check("--programs", "llama-cli llama-server", only="check_version")
    assert one(failed, "version", "/app/bin/llama-cli")[1] == "version: 9 (unknown)"
    assert [row[1:3] for row in rows if row[0] == "version"][1] == ["ok", "/app/bin/llama-server"]


def says(text: str) -> str:
    """A program that does as the C statements say, whatever it is asked."""
    return f"#include <stdio.h>\nint main(int argc, char **argv) {{ (void) argc; (void) argv; {text} }}"


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        ('fputs("error: unknown argument: --help\\n", stderr); return 1;', {"version", "help"}),
        ('puts("usage: x"); fflush(stdout); __builtin_trap();', {"version", "help"}),
        ("return 0;", {"version", "help"}),
        ('fputs("usage: x\\n", stderr); return 1;', {"version"}),
    ],
)
def test_program_that_answers_nothing_is_found(build, text, checks):
    """No version and no help, by a refusal, a crash or silence; a help that ends with 1, as of old, is one."""
    program(build.image, text=says(text))
    _, _, failed = build.check(only="(check_version|keep_help)")
    assert {row[0] for row in failed} == checks


def test_source_that_takes_no_commit_is_not_judged(build):
    """Before b5655 LLAMA_BUILD_COMMIT was no setting: the label alone carries the pin."""
    program(build.image, commit="unknown")
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
        ("sm_890 sm_120", "", "89 (sm_89)"),
        ("", "", "89 (sm_89)"),
    ],
)
def test_archs(build, code, ptx, lacking):
    """Each arch of the matrix as machine code; PTX of it is not enough, and the `a` form is the same arch."""
    shutil.copy2(build.image / "app/lib/libggml-cpu.so.0", build.image / "app/lib/libggml-cuda.so.0")
    wanted = ("--backend", "cuda", "--archs", "89:sm_89 120:sm_120|sm_120a")
    done, rows, failed = build.check(*wanted, CODE=code, PTX=ptx, only="check_archs")
    assert (done.returncode == 0) is (lacking is None)
    if lacking is None:
        assert next(row for row in rows if row[0] == "archs")[3] == "89 120"
    else:
        assert f"code for {lacking}" in {row[3] for row in failed}


def test_virtual_arch_is_ptx(build):
    """An arch that is for the driver to compile."""
    shutil.copy2(build.image / "app/lib/libggml-cpu.so.0", build.image / "app/lib/libggml-cuda.so.0")
    wanted = ("--backend", "cuda", "--archs", "89:sm_89 90-virtual:compute_90")
    assert build.check(*wanted, CODE="sm_89", PTX="sm_90", only="check_archs")[2] == []
    assert (
        build.check(*wanted, CODE="sm_89 sm_90", PTX="", only="check_archs")[2][0][3]
        == "code for 90-virtual (compute_90)"
    )


def test_forgotten_cuda_library_is_named(build):
    """A CUDA variant without libggml-cuda would compute on the CPU alone, and nobody would be told."""
    _, _, failed = build.check("--backend", "cuda", "--archs", "89:sm_89", CODE="sm_89", only="check_archs")
    one(failed, "archs", "/app/lib/libggml-cuda.so")
