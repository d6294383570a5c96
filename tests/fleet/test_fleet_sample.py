"""The sample's machine code: its CPU code at every level, its CUDA code with the practice toolkit."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping
from types import MappingProxyType

from sistership.fleet import bases, paths, samplerepo
from sistership.fleet.spec import BASES, CUDA_BASES

#: x86-64 level → compiler options, and an instruction that no lower level has.
LEVELS = {
    "v1": ("", r"\baddps\b"),
    "v2": ("-msse4.2", r"\bpmaddubsw\b"),
    "v3": ("-msse4.2 -mavx -mavx2 -mbmi2 -mfma -mf16c", r"\bvfmadd231ps\b.*%ymm"),
    "v4": ("-msse4.2 -mavx -mavx2 -mbmi2 -mfma -mf16c -mavx512f -mavx512vl -mavx512bw", r"\bvfmadd231ps\b.*%zmm"),
}
COMPARE = """set -e
cxx="g++ -std=c++17 -O2 -Iggml/include -Iinclude"
$cxx ggml/src/ggml-cpu/ggml-table.cpp -o /table && /table table.bin
gcc -Iggml/include -DGGML_VERSION='""' -DGGML_COMMIT='""' -c ggml/src/ggml.c ggml/src/ggml-cpu/table.S
$cxx -c backends.cpp main.cpp src/llama.cpp tests/test-dot.cpp
level() {
    $cxx -O3 $2 -c ggml/src/ggml-cpu/ggml-cpu.cpp -o $1.o
    objdump -d --no-show-raw-insn $1.o | sed "s/^/$1 code /"
    g++ main.o llama.o backends.o ggml.o table.o $1.o -o $1
    g++ test-dot.o ggml.o table.o $1.o -o $1-dot
    if [ $1 = v4 ] && ! grep -q avx512bw /proc/cpuinfo; then return; fi
    echo "$1 answer $(./$1)"
    ./$1-dot
}
"""
MAIN = """
#include "llama.h"
#include <cstdio>
int main() { printf("%.9g\\n", static_cast<double>(llama_decode(2000, 4096))); }
"""
BACKENDS = """
bool ggml_backend_has_cuda() { return false; }
bool ggml_backend_has_rpc() { return false; }
"""


def sample_tar(more: Mapping[str, bytes] = MappingProxyType({})) -> bytes:
    """The sample's files and some `more` (path → bytes) as a tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in {**samplerepo.content(samplerepo.CONTENT), **more}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def test_answers_do_not_depend_on_the_cpu(fleet):
    """Compiled for each x86-64 level, the code has instructions of that level, none above, and answers the same."""
    script = COMPARE + "".join(f"level {name} '{options}'\n" for name, (options, _) in LEVELS.items())
    image = bases.pinned(paths.state())[BASES[0].reference]
    stdin = sample_tar({"main.cpp": MAIN.encode(), "backends.cpp": BACKENDS.encode(), "compare.sh": script.encode()})
    run = "mkdir /s && tar -C /s -xf - && cd /s && sh compare.sh"
    said = fleet.ssh("builder", f"docker run --rm -i --network none {image} sh -c '{run}'", stdin=stdin)
    answers = dict(re.findall(r"^(v\d) answer (\S+)$", said, re.MULTILINE))
    assert {"v1", "v2", "v3"} <= set(answers)
    assert len(set(answers.values())) == 1
    marks = [mark for _, mark in LEVELS.values()]
    for at, level in enumerate(LEVELS):
        code = "\n".join(line for line in said.splitlines() if line.startswith(f"{level} code "))
        assert [bool(re.search(mark, code)) for mark in marks[at:]] == [True, *(False for _ in marks[at + 1 :])], level


def test_cuda_bases_compile_and_run(fleet):
    """The toolkit compiles the sample's CUDA code for a card and lists it; the other base can load what came out."""
    pinned = bases.pinned(paths.state())
    build, runtime = (pinned[base.reference] for base in CUDA_BASES)
    script = (
        "set -e; mkdir /s; tar -C /s -xf -; cd /s/ggml/src/ggml-cuda; "
        "nvcc -arch=sm_89 -I/s/ggml/include --shared -Xcompiler=-fPIC -cudart=shared launches.cu -o /out/x.so; "
        "cuobjdump --list-elf /out/x.so; chmod 644 /out/x.so"
    )
    folder = "/tmp/fleet-test-cuda"
    mount = f"-v {folder}:/out"
    try:
        compiled = f"mkdir -p {folder} && docker run --rm -i --network none {mount} {build} sh -c '{script}'"
        assert "sm_89.cubin" in fleet.ssh("builder", compiled, stdin=sample_tar())
        needs = fleet.ssh("builder", f"docker run --rm --network none {mount} {runtime} ldd /out/x.so")
        assert "libcudart.so.13 => /usr/local/cuda/lib64/libcudart.so.13" in needs
        fleet.ssh("builder", f"docker run --rm --network none {runtime} sh -c '! ls /usr/local/cuda/bin'")
    finally:
        fleet.ssh("builder", f"rm -rf {folder}")
