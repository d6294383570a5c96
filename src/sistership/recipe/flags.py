"""The CMake flags of a variant: each once, each a must or a guard.

A *must* has to be known to the source: where it is not, the image would lack what the matrix says, and the build fails.
A *guard* keeps something out (a download, a library found by chance, an instruction the oldest CPU lacks);
a source that does not know the flag has nothing to guard against.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sistership.matrix.cmake import truth
from sistership.matrix.model import Variant, architecture

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Where the image has its libraries.
LIBRARIES: Final = "/app/lib"
STUBS: Final = "/usr/local/cuda/lib64/stubs"
#: Instruction sets of ggml, by the x86-64 level that first has them. The last group belongs to no level: never.
_X86: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("x86-64-v2", ("SSE42",)),
    ("x86-64-v3", ("AVX", "AVX2", "BMI2", "FMA", "F16C")),
    ("x86-64-v4", ("AVX512",)),
    ("", ("AVX_VNNI", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_TILE", "AMX_INT8", "AMX_BF16")),
)
#: Instruction sets that a build for x86-64 may have, by their names in ggml without "GGML_".
INSTRUCTION_SETS: Final = tuple(name for _, names in _X86 for name in names)
#: Stripped, because nvcc writes process numbers into symbol names. RPATH instead of RUNPATH,
#: because only it also serves the libraries that our libraries need.
_LINK: Final = "-Wl,-s -Wl,--disable-new-dtags"
_PREFIXES: Final = ("-ffile-prefix-map=/src=.", "-ffile-prefix-map=/build=.")
_ON: Final = {True: "ON", False: "OFF"}


@dataclass(frozen=True)
class Flag:
    """One `-D`. Without a type (`NAME:BOOL=`), which would hide from CMake that nobody uses it."""

    name: str
    value: str
    must: bool = False

    def __str__(self) -> str:
        """For a shell line."""
        return f"-D{self.name}={shell_word(self.value)}"


def shell_word(text: str) -> str:
    """Quoted where it has to be, the way people write it, so that `;` stays in one word."""
    quoted = shlex.quote(text)
    return f'"{text}"' if quoted != text and not set(text) & set('"\\$`!') else quoted


def flags(variant: Variant, platform: str, *, number: str, commit: str) -> tuple[Flag, ...]:
    """Every flag of the variant's configure line, the user's own values in place of ours.

    Args:
        variant: where `cmake` names a flag of ours, its value wins.
        platform: decides the CPU flags.
        number: build number, for `--version`.
        commit: the full hash, for `--version`: the image itself says which pin it was made from.
    """
    named = [
        *_what(variant),
        *_guards(variant),
        *_cpu(variant, platform),
        Flag("LLAMA_BUILD_NUMBER", number),
        Flag("LLAMA_BUILD_COMMIT", commit),
        *_toolchain(variant),
    ]
    return tuple(_merged(named, variant.cmake))


def _what(variant: Variant) -> Iterator[Flag]:
    cuda, options = variant.cuda, variant.options
    yield Flag("CMAKE_BUILD_TYPE", "Release", must=True)
    yield Flag("GGML_CUDA", _ON[cuda is not None], must=True)
    yield Flag("GGML_RPC", _ON[options.rpc], must=options.rpc)
    yield Flag("GGML_NATIVE", _ON[options.native], must=True)
    if cuda is not None:
        if not options.vmm:
            yield Flag("GGML_CUDA_NO_VMM", "ON", must=True)
        yield Flag("CMAKE_CUDA_ARCHITECTURES", ";".join(cuda.archs), must=True)
    yield Flag("LLAMA_BUILD_TESTS", "OFF")
    yield Flag("LLAMA_BUILD_EXAMPLES", "OFF")
    yield Flag("LLAMA_BUILD_TOOLS", "ON", must=True)
    yield Flag("LLAMA_BUILD_SERVER", "ON", must=True)


def _guards(variant: Variant) -> Iterator[Flag]:
    yield Flag("BUILD_SHARED_LIBS", "ON")
    yield Flag("LLAMA_BUILD_UI", _ON[variant.options.ui])
    yield Flag("LLAMA_BUILD_WEBUI", _ON[variant.options.ui])
    yield Flag("LLAMA_USE_PREBUILT_UI", "OFF")  # it downloads, and there is no network
    for name in ("GGML_CUDA_NCCL", "GGML_RPC_RDMA", "LLAMA_CURL", "LLAMA_OPENSSL"):
        yield Flag(name, "OFF")  # on where the base has the library: the base would decide what is inside
    if truth(variant.cmake.get("GGML_BACKEND_DL", "OFF")):
        yield Flag("GGML_BACKEND_DIR", LIBRARIES)  # without it ggml looks for its backends beside the program alone


def _cpu(variant: Variant, platform: str) -> Iterator[Flag]:
    """Each instruction set by name: the defaults depend on the environment and on the version."""
    if variant.options.native:
        return
    level = variant.options.baseline(platform)
    if architecture(platform) == "arm64":
        yield Flag("GGML_CPU_ARM_ARCH", level)
    if architecture(platform) == "amd64":
        for first, names in _X86:
            for name in names:
                yield Flag(f"GGML_{name}", _ON[bool(first) and first <= level])


def _toolchain(variant: Variant) -> Iterator[Flag]:
    languages = ("C", "CXX", "CUDA") if variant.cuda is not None else ("C", "CXX")
    yield Flag("GGML_CCACHE", "OFF")  # our launcher is the one that uses ccache
    for language in languages:
        yield Flag(f"CMAKE_{language}_COMPILER_LAUNCHER", "/sistership/launch.sh")
    for language in languages:
        prefix = "-Xcompiler=" if language == "CUDA" else ""
        yield Flag(f"CMAKE_{language}_FLAGS", " ".join(prefix + option for option in _PREFIXES))
    stub = " -Wl,-rpath-link,/stubs" if variant.cuda is not None and variant.options.vmm else ""
    for kind in ("EXE", "SHARED", "MODULE"):
        yield Flag(f"CMAKE_{kind}_LINKER_FLAGS", _LINK + stub)
    yield Flag("CMAKE_BUILD_WITH_INSTALL_RPATH", "ON")
    yield Flag("CMAKE_INSTALL_RPATH", "$ORIGIN/../lib;$ORIGIN")


def _merged(ours: Iterable[Flag], theirs: Mapping[str, str]) -> Iterator[Flag]:
    left = dict(theirs)
    for flag in ours:
        yield replace(flag, value=left.pop(flag.name)) if flag.name in left else flag
    for name in sorted(left):
        yield Flag(name, left[name], must=True)
