"""The cause table's rows for compiled files. Pure.

Those of nvcc were measured with nvcc 13.0 and 13.5, those of gcc and binutils with gcc 12.2 and ld 2.40.
"""

from __future__ import annotations

from typing import Final

from sistership.compare.evidence import Evidence, Row, evex, vex
from sistership.compare.model import FOLLOWING, Cause, What

_NVCC: Final = "measured with nvcc 13.0"
_GCC: Final = "measured with gcc 12.2"
_TOOLKIT: Final = r"Cuda compilation tools|cuda_\d+\.\d+\.r\d|^(?:GCC|clang|LLD|mold)\b.*\d|\bnvcc\b.*V\d"
_BUILDINFO: Final = (".debug_", ".zdebug_")
_DEVICE: Final = (".nv_fatbin", ".nvFatBin", "__nv_")


def _moved_debug(evidence: Evidence) -> bool:
    parts = evidence.named(*_BUILDINFO)
    folders = (any(text.startswith("/") for part in parts for text in part.only[side]) for side in (0, 1))
    return evidence.moved_files(parts) is not None or all(folders)


def _moved_source(evidence: Evidence) -> bool:
    rest = [part for part in evidence.telling if not part.name.startswith(_BUILDINFO) and part.what is not What.LINES]
    return evidence.moved_files(rest) is not None


def _only(evidence: Evidence, *names: str) -> bool:
    telling = [part for part in evidence.telling if part.what is What.SECTION]
    return bool(telling) and all(part.name.startswith(names) for part in telling)


def _one_sided(evidence: Evidence, *names: str) -> bool:
    return any(None in part.sizes for part in evidence.named(*names) if part.what is What.SECTION)


def _loader(evidence: Evidence, *tags: str) -> bool:
    return any(text.startswith(tags) for part in evidence.of(What.DYNAMIC) for text in part.strings)


def _compiler(evidence: Evidence) -> bool:
    return bool(evidence.named(".comment")) or evidence.on_both(_TOOLKIT)


def _more_avx(evidence: Evidence) -> bool:
    return evidence.more_code(vex) and not evidence.more_code(evex)


ELF: Final[tuple[Row, ...]] = (
    Row(
        lambda e: e.on_either(r"\btmpxft_[0-9a-f]{8}_"),
        Cause(
            "nvcc-file-symbol",
            "nvcc writes its process number into the name of a FILE symbol (tmpxft_<PID>_…)",
            "nvcc -objtemp, or strip at link (-Wl,-s for EXE, SHARED and MODULE)",
            _NVCC,
        ),
    ),
    Row(
        Evidence.nvcc_path,
        Cause(
            "nvcc-path-hash",
            "nvcc writes a hash of the source's path into names with internal linkage (_GLOBAL__N__, _INTERNAL_)",
            "build at the same absolute path; no flag removes it",
            _NVCC,
        ),
    ),
    Row(
        Evidence.nvcc_process,
        Cause(
            "nvcc-module-id",
            "nvcc writes its process number into the module id of a file without a plain external function",
            "-frandom-seed=<path relative to the source root> for each file (CUDA 12.9 or later); with an older"
            " toolkit no flag removes it: ship the one build",
            _NVCC,
        ),
    ),
    Row(
        lambda e: e.on_either(r"(?i)\bccache\b|\.ccache/"),
        Cause(
            "ccache",
            "one build took objects from ccache that another directory or other flags had made",
            "GGML_CCACHE=OFF, or a cache of its own for each check build (its own mount id)",
            "ccache manual, base_dir and hash_dir",
        ),
    ),
    Row(
        lambda e: _loader(e, "RPATH", "RUNPATH"),
        Cause(
            "rpath",
            "the loader's search path holds the build directory",
            "CMAKE_BUILD_RPATH_USE_ORIGIN=ON, or an install RPATH with $ORIGIN",
            "CMake manual",
        ),
    ),
    Row(
        _moved_source,
        Cause(
            "source-path",
            "__FILE__ puts the path of a source file into the program",
            "-ffile-prefix-map=<source root>=. (through nvcc: -Xcompiler=-ffile-prefix-map=…)",
            _GCC,
        ),
    ),
    Row(
        _moved_debug,
        Cause(
            "debug-path",
            "debug information holds the directories of the build (DW_AT_comp_dir, DW_AT_name)",
            "-ffile-prefix-map=<directory>=. for source and build directory, or strip",
            _GCC,
        ),
    ),
    Row(
        lambda e: _loader(e, "NEEDED"),
        Cause(
            "found-library",
            "one build found a library that the other did not (NCCL, RDMA, curl, OpenSSL, OpenMP …)",
            "switch what is found by chance OFF (GGML_CUDA_NCCL, GGML_RPC_RDMA, LLAMA_CURL, LLAMA_OPENSSL)"
            " and pin the build base by digest",
            "llama.cpp's CMake options",
        ),
    ),
    Row(
        lambda e: _loader(e, "SONAME"),
        Cause(
            "soname",
            "the library's SONAME carries another version",
            "build the same commit, with LLAMA_BUILD_NUMBER given",
            "llama.cpp's CMake files",
        ),
    ),
    Row(
        _compiler,
        Cause(
            "compiler",
            "another version of a compiler or linker made it",
            "pin the build base by digest and the package archive by snapshot, in the lock",
            _GCC,
        ),
    ),
    Row(
        lambda e: bool(e.named(*_DEVICE)) and not (e.nvcc_path() or e.nvcc_process() or _compiler(e)),
        Cause(
            "nvcc-device-code",
            "device code differs and its names cannot be read: a process number in the module id, another order of"
            " -gencode, -split-compile, -G, or another toolkit",
            "sort the arch list, leave -split-compile and -G out, and give -frandom-seed for each file"
            " (CUDA 12.9 or later); with an older toolkit ship the one build",
            _NVCC,
        ),
    ),
    Row(
        lambda e: e.more_code(evex) or e.on_both(r"-march=\S+"),
        Cause(
            "native",
            "one build has code for the builder's own CPU (-march=native; AVX-512 where the other has none)",
            "GGML_NATIVE=OFF and every instruction set by name, from the variant's CPU baseline",
            "ggml's CMake options",
        ),
    ),
    Row(
        _more_avx,
        Cause(
            "epoch-in-cmake",
            "one build has AVX code, the other none: with SOURCE_DATE_EPOCH in cmake's environment and NATIVE=OFF ggml"
            " switches SSE4.2, AVX, AVX2, FMA, F16C and BMI2 off",
            "unset SOURCE_DATE_EPOCH for cmake and set each GGML_<set> flag; compare `options: cpu` of both",
            "measured with ggml's CMake files",
        ),
    ),
    Row(
        lambda e: _one_sided(e, ".symtab", *_BUILDINFO),
        Cause(
            "strip",
            "one build is stripped, the other is not",
            "the same linker flags for both: -Wl,-s for EXE, SHARED and MODULE",
            _GCC,
        ),
    ),
    Row(
        lambda e: _one_sided(e, ".gnu.lto_") or e.on_both(r"\.gnu\.lto_\S+"),
        Cause(
            "lto-seed",
            "link-time optimisation names its sections with a random number",
            "-frandom-seed=<path relative to the source root>",
            "gcc manual, -frandom-seed",
        ),
    ),
)

#: Said only where nothing above fits.
GUESSES: Final[tuple[Row, ...]] = (
    Row(
        lambda e: any(part.code for part in e.parts),
        Cause(
            "other-code",
            "machine code differs: another source, other flags (-O, -march), another compiler, or objects in"
            " another order",
            "compare commit, patches and flags of both recipes, and pin the build base by digest",
            _GCC,
        ),
    ),
    Row(
        lambda e: _only(e, ".strtab", ".symtab", ".shstrtab") or bool(e.of(What.SYMBOLS)),
        Cause(
            "symbol-names",
            "names in the symbol table differ, what runs does not",
            "strip (-Wl,-s for EXE, SHARED and MODULE)",
            _GCC,
        ),
    ),
)

#: The build-id is added to whatever else was found.
ELF_CONSEQUENCES: Final[tuple[Row, ...]] = (
    Row(
        lambda e: any(part.name in FOLLOWING for part in e.parts),
        Cause(
            "build-id",
            "the build-id is a hash of everything the linker read",
            "nothing of its own: it is equal once the rest is, also what was stripped afterwards",
            "ld manual, --build-id",
            consequence=True,
        ),
    ),
)
