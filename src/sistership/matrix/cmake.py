"""A variant's own CMake flags: what they may be called, and which belong to an option.

A flag that an option decides may be repeated with the same value (it is given once all the same), never contradicted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sistership.matrix.cuda import ArchError, canonical
from sistership.matrix.names import TextError
from sistership.matrix.shape import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sistership.matrix.findings import Findings
    from sistership.matrix.model import Backend, Options
    from sistership.matrix.nodes import Path

_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ON: Final = frozenset({"ON", "TRUE", "YES", "Y", "1"})
_OFF: Final = frozenset({"OFF", "FALSE", "NO", "N", "0", ""})
_ARCHS: Final = "CMAKE_CUDA_ARCHITECTURES"

#: Flags that the recipe takes from the commit or from the image's layout.
_FIXED: Final = {
    "LLAMA_BUILD_NUMBER": "the commit",
    "LLAMA_BUILD_COMMIT": "the commit",
    "CMAKE_INSTALL_PREFIX": "the recipe",
    "CMAKE_CUDA_COMPILER": "the build image",
}

#: Names before b3236; the source ignores them, so `LLAMA_NATIVE: OFF` would leave GGML_NATIVE on.
_OLD: Final = {
    "LLAMA_CUBLAS": "GGML_CUDA",
    "LLAMA_CUDA": "GGML_CUDA",
    "LLAMA_RPC": "GGML_RPC",
    "LLAMA_NATIVE": "GGML_NATIVE",
    "LLAMA_CUDA_NO_VMM": "GGML_CUDA_NO_VMM",
}


def truth(text: str) -> bool | None:
    """What CMake takes a value for: True, False, or None for any other text."""
    word = text.upper()
    return True if word in _ON else False if word in _OFF else None


def owned(options: Options, backend: Backend) -> dict[str, tuple[bool, str]]:
    """Flag → (the value it must have, who decides it)."""
    flags = {
        "GGML_CUDA": (backend == "cuda", f"backend: {backend}"),
        "GGML_RPC": (options.rpc, "options.rpc"),
        "GGML_NATIVE": (options.native, "options.native"),
        "GGML_CUDA_NO_VMM": (not options.vmm, "options.vmm"),
        "LLAMA_BUILD_UI": (options.ui, "options.ui"),
        "LLAMA_BUILD_WEBUI": (options.ui, "options.ui"),
    }
    if not options.ui:
        flags["LLAMA_USE_PREBUILT_UI"] = (False, "options.ui")
    return flags


def flags(
    path: Path,
    row: Mapping[str, str],
    decided: Mapping[str, tuple[bool, str]],
    archs: tuple[str, ...],
    findings: Findings,
) -> dict[str, str]:
    """The flags that are really the user's: without those that only repeat an option.

    Args:
        path: where the `cmake` key is.
        row: the flags as written.
        decided: what options say, see `owned`.
        archs: the canonical arch list; empty for the backend "cpu".
        findings: gets bad names, contradictions and old names.
    """
    result: dict[str, str] = {}
    for key, value in row.items():
        here: Path = (*path, key)
        if not findings.check(here, key, _check_key, key=True) or not findings.check(here, value, _check_value):
            continue
        if key in _FIXED:
            findings.problem(here, f"cmake: {key} is decided by {_FIXED[key]}", "take it out", key=True)
        elif key == _ARCHS:
            _archs(here, value, archs, findings)
        elif key in decided:
            wanted, owner = decided[key]
            if truth(value) is not wanted:
                message = f"cmake: {key}: {value} contradicts {owner}, which says {'ON' if wanted else 'OFF'}"
                findings.problem(here, message, f"take it out and change {owner.partition(':')[0]}")
        else:
            if key in _OLD:
                findings.warn(here, f"cmake: {key} is an old name that the source ignores", f"it is {_OLD[key]} now")
            result[key] = value
    return result


def _archs(path: Path, value: str, archs: tuple[str, ...], findings: Findings) -> None:
    try:
        same = canonical(value) == archs
    except ArchError:
        same = False
    if not same:
        findings.problem(path, f"cmake: {_ARCHS} contradicts cuda.archs", "take it out and change cuda.archs")


def _check_key(key: str) -> None:
    if _KEY.fullmatch(key):
        return
    bare = key.removeprefix("-D").partition(":")[0].partition("=")[0]
    hint = f"write {bare}: VALUE, without -D and without a type" if _KEY.fullmatch(bare) else "use letters, digits, _"
    raise TextError(f'cmake: "{key}" is not a flag', hint)


def _check_value(value: str) -> None:
    if value != UNREADABLE and re.search(r"[\x00-\x1f\x7f]", value):
        raise TextError("a flag's value is one line of text", "write it on one line")
