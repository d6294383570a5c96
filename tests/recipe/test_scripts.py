"""The shell scripts of the build context, run by a plain sh on small trees."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sistership import resources

SUPPORT = resources.bundled("dockerfiles") / "support"
NAMES = "rpc-server|ggml-rpc-server"


def sh(script: str, *args: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a support script as the build stage does."""
    argv = ["/bin/sh", str(SUPPORT / script), *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **env})


def program(path: Path) -> Path:
    """An executable that says its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {path.name}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def tree(tmp_path):
    """A build tree with programs, libraries under versioned names and an empty runtime root."""

    def make(worker: str | None, *libraries: str) -> Path:
        for name in ("llama-cli", "llama-server"):
            program(tmp_path / "build" / "bin" / name)
        if worker:
            program(tmp_path / "build" / "bin" / worker)
        for name in libraries or ("libggml-cuda.so.0", "libllama.so.0"):
            (tmp_path / "build" / "bin" / name).write_bytes(name.encode())
        (tmp_path / "runtime").mkdir(exist_ok=True)
        return tmp_path

    return make


def collect(root: Path, worker: str = NAMES, backend: str = "cuda") -> subprocess.CompletedProcess[str]:
    """Run collect.sh on a tree of `tree`."""
    return sh(
        "collect.sh", root / "build", root / "out", root / "runtime", backend, worker, "llama-cli", "llama-server"
    )


def content(layer: Path) -> list[str]:
    """Files and links of a layer's folder."""
    return sorted(str(path.relative_to(layer)) for path in layer.rglob("*") if not path.is_dir())


@pytest.mark.parametrize("name", ["rpc-server", "ggml-rpc-server"])
def test_worker_has_one_stable_name(tree, name):
    """Old and new worker start by the same path, and keep their own (gentoo/guru#503)."""
    root = tree(name)
    done = collect(root)
    assert done.returncode == 0, done.stderr
    stable = root / "out/30-bin/app/bin/llama-rpc-worker"
    assert str(stable.readlink()) == name
    assert subprocess.check_output([stable], text=True).strip() in {name, "llama-rpc-worker"}
    assert (root / "out/30-bin/app/bin" / name).is_file()


def test_no_worker_fails_the_build(tree):
    """Without a worker the build fails and lists bin/."""
    done = collect(tree(None))
    assert done.returncode != 0
    assert "no worker was built" in done.stderr
    assert "llama-server" in done.stderr


def test_no_worker_wanted(tree):
    """A build without RPC has no stable name."""
    root = tree(None)
    assert collect(root, "-").returncode == 0
    assert not os.path.lexists(root / "out/30-bin/app/bin/llama-rpc-worker")


def test_missing_program_fails_the_build(tree):
    """Every named program has to be there."""
    root = tree("rpc-server")
    (root / "build/bin/llama-cli").unlink()
    done = collect(root)
    assert done.returncode != 0
    assert "llama-cli was not built" in done.stderr


def test_layers(tree):
    """The large library, the other libraries and the programs each have a folder; no path is in two of them."""
    root = tree("rpc-server", "libggml-cuda.so.0", "libllama.so.0", "libggml-base.so.0")
    (root / "build/bin/libllama.so").symlink_to("libllama.so.0")
    assert collect(root).returncode == 0
    layers = {path.name: content(path) for path in sorted((root / "out").iterdir())}
    assert layers == {
        "10-ggml-cuda": ["app/lib/libggml-cuda.so.0", "app/share/sistership/10-ggml-cuda.sha256"],
        "20-libs": ["app/lib/libggml-base.so.0", "app/lib/libllama.so.0", "app/share/sistership/20-libs.sha256"],
        "30-bin": [
            "app/bin/llama-cli",
            "app/bin/llama-rpc-worker",
            "app/bin/llama-server",
            "app/bin/rpc-server",
            "app/share/sistership/30-bin.sha256",
        ],
    }


def test_cuda_without_its_library_fails(tree):
    """A CUDA build without libggml-cuda would compute on the CPU in silence (unslothai/unsloth#10491)."""
    done = collect(tree("rpc-server", "libllama.so.0"))
    assert done.returncode != 0
    assert "no libggml-cuda was built" in done.stderr


def test_cpu_layers_are_never_empty(tree):
    """The list of layers is fixed: a folder without libraries still holds its list of hashes."""
    root = tree("rpc-server", "libllama.so.0")
    assert collect(root, backend="cpu").returncode == 0
    assert content(root / "out/10-ggml-cpu") == ["app/share/sistership/10-ggml-cpu.sha256"]


def test_hashes_are_those_of_the_files(tree):
    """Each layer's list names its files by their place in the image, sorted, and changes with them alone."""
    root = tree("rpc-server")
    assert collect(root).returncode == 0
    listing = (root / "out/20-libs/app/share/sistership/20-libs.sha256").read_text()
    assert listing == f"{hashlib.sha256(b'libllama.so.0').hexdigest()}  /app/lib/libllama.so.0\n"
    program(root / "build/bin/llama-cli").write_text("#!/bin/sh\n: other\n")
    before = (root / "out/30-bin/app/share/sistership/30-bin.sha256").read_text()
    assert collect(root).returncode == 0
    assert (root / "out/20-libs/app/share/sistership/20-libs.sha256").read_text() == listing
    assert (root / "out/30-bin/app/share/sistership/30-bin.sha256").read_text() != before


def test_modes_do_not_depend_on_umask(tree):
    """Programs are 0755, libraries 0644, folders 0755, whatever the umask of the builder."""
    root = tree("rpc-server")
    script = f"umask 077; exec sh {SUPPORT}/collect.sh {root}/build {root}/out {root}/runtime cuda '{NAMES}' llama-cli"
    subprocess.run(["/bin/sh", "-c", script], check=True)
    for path in (root / "out").rglob("*"):
        wanted = 0o755 if path.is_dir() or "bin" in path.parent.name else 0o644
        assert path.is_symlink() or path.stat().st_mode & 0o7777 == wanted, path


compiler = pytest.mark.skipif(not shutil.which("cc") or not shutil.which("readelf"), reason="needs a C compiler")


@pytest.fixture
def elf(tree):
    """A real program that needs two real libraries: one of the build, one of the system."""
    root = tree("rpc-server", "libggml-cpu.so.0")
    binaries, system = root / "build" / "bin", root / "system"
    system.mkdir()

    def cc(source: str, *args: object) -> None:
        subprocess.run(["cc", "-x", "c", "-", "-x", "none", *map(str, args)], input=source, text=True, check=True)

    cc("int far(void) { return 1; }", "-shared", "-fPIC", "-Wl,-soname,libfar.so.3", "-o", system / "libfar.so.3")
    near = ("-shared", "-fPIC", "-Wl,-soname,libnear.so.0", "-o", binaries / "libnear.so.0.1")
    cc("int far(void); int near(void) { return far(); }", *near, system / "libfar.so.3")
    (binaries / "libnear.so.0").symlink_to("libnear.so.0.1")
    linked = ("-o", binaries / "llama-cli", binaries / "libnear.so.0.1", system / "libfar.so.3")
    paths = f"-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:$ORIGIN:{system}"
    cc("int near(void); int main(void) { return near(); }", *linked, paths)
    return root


@compiler
def test_library_that_the_runtime_lacks_comes_along(elf):
    """What the loader needs and the runtime base lacks is copied; what it has is not (ggml-org/llama.cpp#23522)."""
    assert collect(elf, backend="cpu").returncode == 0
    assert "app/lib/libfar.so.3" in content(elf / "out/20-libs")
    place = elf / "runtime/usr/lib/x86_64-linux-gnu/libfar.so.3"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"")
    assert collect(elf, backend="cpu").returncode == 0
    assert "app/lib/libfar.so.3" not in content(elf / "out/20-libs")
    assert not [name for name in content(elf / "out/20-libs") if "libc.so" in name]


@compiler
def test_library_goes_under_its_soname(elf):
    """File names carry a version that moves often; the SONAME does not."""
    assert collect(elf, backend="cpu").returncode == 0
    names = content(elf / "out/20-libs")
    assert "app/lib/libnear.so.0" in names
    assert "app/lib/libnear.so.0.1" not in names


@compiler
def test_library_that_is_nowhere_fails(elf):
    """A library that not even the build image has fails the build by name."""
    (elf / "system" / "libfar.so.3").unlink()
    done = collect(elf, backend="cpu")
    assert done.returncode != 0
    assert "sistership-check:\tlibraries\tlibfar.so.3\t" in done.stderr
    assert "nowhere to be found" in done.stderr


WARNING = """\
CMake Warning (dev) at CMakeLists.txt:3 (message):
  GGML_FOO is odd

CMake Warning:
  Manually-specified variables were not used by the project:

{names}


"""


@pytest.mark.parametrize(
    ("unused", "guards", "ok"),
    [
        ([], ["LLAMA_CURL"], True),
        (["LLAMA_CURL"], ["LLAMA_CURL", "LLAMA_BUILD_UI"], True),
        (["LLAMA_BUILD_UI", "GGML_RPC"], ["LLAMA_BUILD_UI"], False),
        (["GGML_CUDA"], [], False),
        (["LLAMA"], ["LLAMA_CURL"], False),
    ],
)
def test_unused_flags(tmp_path, unused, guards, ok):
    """A flag the source does not know fails the build, unless it only guards; other warnings are none."""
    log = tmp_path / "err"
    names = "\n".join(f"    {name}" for name in unused)
    log.write_text(WARNING.format(names=names) if unused else "CMake Warning:\n  something\n\n    NOT_A_FLAG\n")
    done = sh("check-flags.sh", log, tmp_path / "unused", "cpu", *guards)
    assert (done.returncode == 0) is ok
    assert log.read_text() in done.stderr
    for name in set(unused) - set(guards):
        assert f"sistership-check:\tflags\t{name}\tused by the source\tnot used by the project\t" in done.stderr
    assert (tmp_path / "unused").read_text().split() == [name for name in unused if name in guards]


def test_cuda_needs_cuobjdump_before_it_compiles(tmp_path):
    """Without the tool that lists archs the build stops before its long part, and says which package has it."""
    (tmp_path / "err").write_text("")
    (tmp_path / "bin").mkdir()
    for name in ("awk", "cat", "dirname", "tr"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    done = sh("check-flags.sh", tmp_path / "err", tmp_path / "unused", "cuda", PATH=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert "sistership-check:\ttools\tcuobjdump\t" in done.stderr
    assert "packages:" in done.stderr
    program(tmp_path / "bin" / "cuobjdump")
    done = sh("check-flags.sh", tmp_path / "err", tmp_path / "unused", "cuda", PATH=str(tmp_path / "bin"))
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
def test_unused_flags_as_cmake_says_it(tmp_path):
    """The block is found in what a real cmake writes to its standard error."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p NONE)\noption(KNOWN x OFF)\n"
    )
    with (tmp_path / "err").open("w") as err:
        argv = ["cmake", "-S", tmp_path, "-B", tmp_path / "b", "-DKNOWN=ON", "-DUNKNOWN=ON", "-DGUARD=OFF"]
        subprocess.run(argv, stderr=err, stdout=subprocess.DEVNULL, check=True)
    known = (tmp_path / "err", tmp_path / "unused", "cpu")
    assert sh("check-flags.sh", *known, "GUARD", "UNKNOWN").returncode == 0
    done = sh("check-flags.sh", *known, "GUARD")
    assert done.returncode == 1
    assert "sistership-check:\tflags\tUNKNOWN\t" in done.stderr


@pytest.mark.parametrize(
    ("free", "limit", "need", "jobs"),
    [
        (64000, None, 2048, "all"),
        (5000, None, 2048, "2"),
        (100, None, 2048, "1"),
        (64000, "max", 2048, "all"),
        (64000, str(3 << 30), 2048, "1"),
        (64000, "9223372036854771712", 2048, "all"),
    ],
)
def test_jobs(tmp_path, free, limit, need, jobs):
    """As many jobs as processors, never more than memory or the container's limit allow, never none (#17844)."""
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {free * 1024} kB\n")
    if limit:
        (tmp_path / "memory.max").write_text(limit + "\n")
    done = sh("jobs.sh", need, SISTERSHIP_MEMINFO=str(tmp_path / "meminfo"), SISTERSHIP_CGROUP=str(tmp_path))
    count = len(os.sched_getaffinity(0))
    assert int(done.stdout) == min(count, free // need if jobs == "all" else int(jobs))


@pytest.fixture
def launch(tmp_path):
    """Call launch.sh for a compiler that prints how it was called, with or without a ccache that does so too."""

    def run(compiler: str, *words: str, ccache: bool = False, knows: str = "") -> list[str]:
        tool = tmp_path / "bin" / compiler
        tool.parent.mkdir(exist_ok=True)
        shows = f'if [ "$1" = --help ]; then echo "{knows}"; exit; fi; echo "$@"; echo "$TMPDIR"; ls -d "$TMPDIR"'
        tool.write_text(f"#!/bin/sh\n{shows}\n")
        tool.chmod(0o755)
        if ccache:
            (tmp_path / "bin" / "ccache").write_text('#!/bin/sh\necho "ccache $CCACHE_COMPILERCHECK"\nexec "$@"\n')
            (tmp_path / "bin" / "ccache").chmod(0o755)
        path = f"{tmp_path}/bin:/usr/bin:/bin" if ccache else "/usr/bin:/bin"
        environ = {"PATH": path, "TMPDIR": str(tmp_path)}
        argv = ["/bin/sh", str(SUPPORT / "launch.sh"), str(tool), *words]
        done = subprocess.run(argv, capture_output=True, text=True, env=environ, check=True)
        return done.stdout.splitlines()

    return run


@pytest.mark.skipif(bool(shutil.which("ccache", path="/usr/bin:/bin")), reason="this machine has a ccache of its own")
def test_launcher_without_ccache(launch):
    """Without ccache the compiler is called as it is; a link, which names no source, gets nothing added."""
    assert launch("c++", "a.o", "-o", "a")[0] == "a.o -o a"


def test_launcher_through_ccache(launch):
    """The cache tells compilers apart by content: in bases where every file has one time, size and time lie."""
    assert launch("c++", "a.o", ccache=True)[:2] == ["ccache content", "a.o"]


def test_cache_set_by_the_user_is_not_called_twice(launch, tmp_path):
    """CMAKE_CXX_COMPILER "ccache;g++": the cache is called once, and the compiler gets its seed."""
    tool = program(tmp_path / "bin" / "g++")
    tool.write_text('#!/bin/sh\necho "$@"\n')
    called = launch("ccache", str(tool), "-c", "/src/a.c", ccache=True)
    assert called == ["ccache content", "-c /src/a.c -frandom-seed=a.c"]


@pytest.mark.parametrize(("source", "seed"), [("/src/ggml/x.c", "ggml/x.c"), ("/build/gen/y.cpp", "gen/y.cpp")])
def test_gcc_gets_a_seed_from_the_path_in_the_source(launch, source, seed):
    """What gcc draws by chance for a file without global symbols follows from the file's name."""
    words = ("-O2", "-o", "x.o", "-c", source)
    assert launch("g++", *words)[0] == f"-O2 -o x.o -c {source} -frandom-seed={seed}"
    assert launch("x86_64-linux-gnu-gcc-12", *words)[0].endswith(f" -frandom-seed={seed}")


@pytest.mark.parametrize("compiler", ["clang++", "clang-18", "nvc++", "icpx"])
def test_other_compilers_get_nothing_they_may_not_know(launch, compiler):
    """A seed is gcc's and nvcc's; another compiler may refuse the word."""
    assert launch(compiler, "-c", "/src/a.cpp", "-o", "a.o")[0] == "-c /src/a.cpp -o a.o"


def test_no_seed_where_the_source_is_not_told(launch):
    """What follows -c is another option: one seed for all files would be worse than none."""
    assert launch("g++", "-c", "-o", "a.o", "/src/a.cpp")[0] == "-c -o a.o /src/a.cpp"


def test_relocatable_device_code_gets_a_seed_too(launch):
    """nvcc names the source after -dc where device code is linked on its own."""
    words = ("-x", "cu", "-dc", "/src/a b.cu", "-o", "a.o")
    assert launch("nvcc", *words, knows="--frandom-seed")[0] == f"{' '.join(words)} -frandom-seed=a b.cu"


@pytest.mark.parametrize(
    ("knows", "added"),
    [
        ("--objdir-as-tempdir (-objtemp) --frandom-seed <seed>", " -objtemp -frandom-seed=ggml/a.cu"),
        ("--objdir-as-tempdir (-objtemp)", " -objtemp"),
        ("nothing", ""),
    ],
)
def test_nvcc_gets_what_it_knows(launch, tmp_path, knows, added):
    """Temporary names beside the object, a seed where the toolkit has it, and a private folder, gone afterwards."""
    words = ("-x", "cu", "-c", "/src/ggml/a.cu", "-o", "a.o")
    called, folder, there = launch("nvcc", *words, knows=knows)
    assert called == " ".join(words) + added
    assert folder == there != str(tmp_path)
    assert not Path(folder).exists()


def test_launcher_passes_failure_on(tmp_path):
    """A compiler that fails fails the build, and its private folder goes as well."""
    tool = tmp_path / "nvcc"
    tool.write_text('#!/bin/sh\n[ "$1" = --help ] || exit 3\n')
    tool.chmod(0o755)
    done = sh("launch.sh", tool, "-c", "/src/a.cu", TMPDIR=str(tmp_path))
    assert done.returncode == 3
    assert [path.name for path in tmp_path.iterdir()] == ["nvcc"]


def test_launcher_killed_leaves_nothing(tmp_path):
    """Ended by a signal while nvcc runs: the private folder goes as well, and the exit code says so."""
    os.mkfifo(tmp_path / "runs")
    tool = tmp_path / "nvcc"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = --help ] || {{ echo "$PPID" > {tmp_path}/runs; read -r _ < {tmp_path}/runs; }}\n'
    )
    tool.chmod(0o755)
    argv = ["/bin/sh", str(SUPPORT / "launch.sh"), str(tool), "-c", "/src/a.cu"]
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(argv, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")}) as running:
        assert int((tmp_path / "runs").read_text()) == running.pid
        assert len(list((tmp_path / "tmp").iterdir())) == 1
        running.terminate()
        (tmp_path / "runs").write_text("go on\n")
        assert running.wait(timeout=20) == 143
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("ninja"), reason="needs cmake and ninja")
def test_build_takes_the_name_the_source_has(tmp_path):
    """Of "a|b" the target that exists is built; a target that does not exist fails before anything is compiled."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p NONE)\n"
        "add_custom_target(two COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/two)\n"
        "add_custom_target(other COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/other)\n"
    )
    build = tmp_path / "b"
    subprocess.run(["cmake", "-G", "Ninja", "-S", tmp_path, "-B", build], stdout=subprocess.DEVNULL, check=True)
    assert sh("build.sh", build, 100, "one|two").returncode == 0
    assert (build / "two").exists()
    assert not (build / "other").exists()
    done = sh("build.sh", build, 100, "other", "one|three")
    assert done.returncode != 0
    assert "one three" in done.stderr
    assert not (build / "other").exists()
