"""What the image is checked for in its own build: the options of check.sh, from the variant. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sistership.matrix.cmake import truth
from sistership.matrix.cuda import code_names
from sistership.matrix.model import architecture
from sistership.recipe.flags import INSTRUCTION_SETS, shell_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sistership.matrix.model import Variant
    from sistership.recipe.flags import Flag


def options(
    variant: Variant, platform: str, given: Sequence[Flag], *, commit: str, programs: Sequence[str], worker: str
) -> tuple[str, ...]:
    """Options of check.sh, one text each, quoted for a shell.

    Args:
        given: every flag of the configure line; what is checked is what was asked for in the end.
        commit: the pin that `--version` must carry.
        worker: the worker's possible names, "a|b"; "" for none.
    """
    named = {
        "backend": variant.backend,
        "commit": commit,
        "worker": worker or "-",
        "programs": " ".join(programs),
        **dict(_code(variant)),
        **dict(_instructions(variant, platform, given)),
    }
    return tuple(f"--{name} {shell_word(value)}" for name, value in named.items())


def _code(variant: Variant) -> Iterator[tuple[str, str]]:
    if variant.cuda is not None:
        yield "archs", " ".join(f"{arch}:{'|'.join(code_names(arch))}" for arch in variant.cuda.archs)


def _instructions(variant: Variant, platform: str, given: Sequence[Flag]) -> Iterator[tuple[str, str]]:
    if variant.options.native:
        yield "unjudged", "native: true is for the processor that built it"
    elif architecture(platform) != "amd64":
        yield "unjudged", f"instruction sets of {architecture(platform)} are not judged yet"
    else:
        on = {flag.name for flag in given if truth(flag.value)}
        yield "sets", " ".join(name for name in INSTRUCTION_SETS if f"GGML_{name}" in on)
