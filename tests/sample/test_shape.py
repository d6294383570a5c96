"""The sample fork has the shape of llama.cpp: options, targets, protocol. Building it is for the fleet's tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sistership.fleet import __file__ as fleet
from sistership.resources import bundled

SAMPLE = Path(fleet).with_name("sample")
CUDA = SAMPLE / "ggml" / "src" / "ggml-cuda"
PATCHES = bundled("patches") / "sample"
CMAKE = {path: path.read_text() for path in sorted(SAMPLE.rglob("CMakeLists.txt"))}

#: What a recipe passes to every llama.cpp, each with the default that a bare configure has.
OPTIONS = {
    "BUILD_SHARED_LIBS": "ON",
    "GGML_AVX": "${INS_ENB}",
    "GGML_AVX2": "${INS_ENB}",
    "GGML_BMI2": "${INS_ENB}",
    "GGML_CCACHE": "ON",
    "GGML_CUDA": "OFF",
    "GGML_CUDA_NO_VMM": "OFF",
    "GGML_F16C": "${INS_ENB}",
    "GGML_FMA": "${INS_ENB}",
    "GGML_NATIVE": "${GGML_NATIVE_DEFAULT}",
    "GGML_RPC": "OFF",
    "GGML_SSE42": "${INS_ENB}",
    "LLAMA_BUILD_EXAMPLES": "ON",
    "LLAMA_BUILD_SERVER": "ON",
    "LLAMA_BUILD_TESTS": "ON",
    "LLAMA_BUILD_TOOLS": "ON",
}


def declared() -> dict[str, str]:
    """Option → default of all CMake files."""
    return {
        name: default
        for text in CMAKE.values()
        for name, default in re.findall(r'^\s*option\((\w+)\s+"[^"]*"\s+([^)\s]+)\)', text, re.MULTILINE)
    }


def test_options_are_those_of_llama_cpp():
    """Every flag that a recipe must use exists, with llama.cpp's default."""
    got = declared()
    assert {name: got.get(name) for name in OPTIONS} == OPTIONS


@pytest.mark.parametrize("name", ["LLAMA_BUILD_NUMBER", "LLAMA_BUILD_COMMIT", "GGML_CPU_ARM_ARCH"])
def test_settings_can_be_given(name):
    """Settings that are no switches are cache variables."""
    assert any(re.search(rf"set\({name}\s.*\bCACHE STRING\b", text) for text in CMAKE.values())


@pytest.mark.parametrize(
    "guard",
    ["LLAMA_BUILD_UI", "LLAMA_BUILD_WEBUI", "LLAMA_USE_PREBUILT_UI", "GGML_CUDA_NCCL", "GGML_RPC_RDMA", "LLAMA_CURL"],
)
def test_guards_are_unknown(guard):
    """Guard flags stay unused here, as with forks that are older than the flag."""
    assert not any(guard in text for text in CMAKE.values())


def test_native_default_has_the_trap_of_llama_cpp():
    """With SOURCE_DATE_EPOCH in its environment a configure switches the instruction sets off too."""
    text = CMAKE[SAMPLE / "ggml" / "CMakeLists.txt"]
    assert "DEFINED ENV{SOURCE_DATE_EPOCH}" in text
    assert "if (GGML_NATIVE OR NOT GGML_NATIVE_DEFAULT)" in text


def test_plain_blackwell_becomes_exact():
    """A plain 120 or 121 becomes its exact form, as llama.cpp does it; every other spelling stays."""
    text = CMAKE[CUDA / "CMakeLists.txt"]
    (pattern, into) = re.findall(r'string\(REGEX REPLACE "([^"]*)" "([^"]*)" exact', text)[0]
    made = [re.sub(pattern, into.replace("\\\\", "\\"), arch) for arch in ("89", "120", "121-real", "120f", "120a")]
    assert made == ["89", "120a", "121a-real", "120f", "120a"]


def test_cuda_without_the_driver():
    """Only without GGML_CUDA_NO_VMM does the CUDA library need the driver's; its runtime is the shared one."""
    text = CMAKE[CUDA / "CMakeLists.txt"]
    assert re.search(r"PRIVATE CUDA::cudart\)", text)
    assert re.search(r"else\(\)\s+target_link_libraries\(ggml-cuda PRIVATE CUDA::cuda_driver\)\s+endif", text)
    assert text.count("cuda_driver") == 1
    assert re.search(r"ifndef GGML_CUDA_NO_VMM\s+#\s+include <cuda.h>", (CUDA / "ggml-cuda.cu").read_text())


def test_cuda_has_every_kind_of_file():
    """nvcc treats them differently: templates, nothing but an anonymous namespace, a variable on the card, plain."""
    text = {path.stem: path.read_text() for path in CUDA.glob("*.cu")}
    assert set(text) == set(re.findall(r"^ {4}([a-z-]+)\.cu$", CMAKE[CUDA / "CMakeLists.txt"], re.MULTILINE))
    assert len(re.findall(r"^template void .*<(float|half|int8_t)>", text["mul-mat-vec"], re.MULTILINE)) == 3
    inside = text["softmax"].partition("namespace {")[2].rpartition("}  // namespace")
    assert "__global__" in inside[0]
    assert not inside[2].strip()
    assert not re.search(r"^\w", text["softmax"].partition("namespace {")[0], re.MULTILINE)
    assert re.search(r"^static __device__ unsigned long long \w+;", text["launches"], re.MULTILINE)
    assert re.search(r"^__global__ void \w+\(", text["scale"], re.MULTILINE)


def test_targets_are_those_of_llama_cpp():
    """Libraries and binaries have llama.cpp's names; a worker exists only with RPC."""
    text = "\n".join(CMAKE.values())
    libraries = set(re.findall(r"^\s*(?:ggml_add_library|add_library)\(([a-z-]+)\s", text, re.MULTILINE))
    tools = set(re.findall(r"^\s*llama_add_tool\(([a-z-]+) ", text, re.MULTILINE))
    assert libraries >= {"ggml-base", "ggml-cpu", "ggml-cuda", "ggml-rpc", "ggml", "llama"}
    assert tools == {"llama-cli", "llama-bench", "llama-server", "rpc-server"}
    assert re.search(r"if \(GGML_RPC\)\s+llama_add_tool\(rpc-server ", text)


def test_file_names_carry_versions():
    """libllama's file name moves with the build number, as llama.cpp's does; the SONAME stays."""
    text = CMAKE[SAMPLE / "src" / "CMakeLists.txt"]
    assert re.search(r"VERSION\s+0\.0\.\$\{LLAMA_BUILD_NUMBER\}\s+SOVERSION 0\s", text)


def test_protocol():
    """HELLO is command 14 with 24 bytes, and the protocol is 4.0.0."""
    header = (SAMPLE / "ggml/include/ggml-rpc.h").read_text()
    wire = (SAMPLE / "ggml/src/ggml-rpc/protocol.h").read_text()
    assert re.findall(r"RPC_PROTO_(\w+)_VERSION = (\d+);", header) == [("MAJOR", "4"), ("MINOR", "0"), ("PATCH", "0")]
    assert re.search(r"RPC_CMD_HELLO\s+= 14,", wire)
    assert re.search(r"struct rpc_hello_req \{\s+uint8_t conn_caps\[24\];\s+\};", wire)


def test_sources_are_small():
    """The large library is made during the build; the sources stay below 128 KiB, all of them LF text."""
    contents = [path.read_bytes() for path in SAMPLE.rglob("*") if path.is_file()]
    assert 0 < sum(map(len, contents)) < 128 * 1024
    assert not any(b"\r" in content or b"\0" in content for content in contents)


def series() -> list[str]:
    """File names in patches/sample/series."""
    lines = (PATCHES / "series").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_series_names_every_patch():
    """No patch lies there unused, none is named that is not there."""
    assert sorted(series()) == sorted(path.name for path in PATCHES.glob("*.patch"))


def test_patches_apply(tmp_path):
    """The series applies to the sample as it is, exactly, and changes the file that holds the bounds check."""
    tree = shutil.copytree(SAMPLE, tmp_path / "sample")
    for name in series():
        done = subprocess.run(
            ["git", "apply", "--verbose", str(PATCHES / name)],
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "offset" not in done.stderr
    patched = (tree / "ggml/src/ggml-rpc/ggml-rpc.cpp").read_text()
    assert "tensor.nbytes == 0 ? buffer_start : tensor.data" in patched
    assert patched.count("GGML_ASSERT(data") == 2
