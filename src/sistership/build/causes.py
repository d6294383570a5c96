"""Why builds of llama.cpp and its forks fail, told from the last lines of the log."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """A failure that people meet again and again: how the log shows it, what it is, what to do.

    `passes` tells one that the next try does not meet.
    """

    pattern: str
    why: str
    hint: str
    passes: bool = False


CAUSES: Sequence[Cause] = (
    Cause(
        r"undefined reference to [`'\"]?cuMem",
        "the CUDA driver's VMM functions cannot be linked in a devel image (ggml-org/llama.cpp#23357)",
        "leave `vmm: false` for this variant: it renders GGML_CUDA_NO_VMM=ON",
    ),
    Cause(
        r"loading\.html|\bnpm: (command )?not found|download.*\b(web)?ui\b.*(fail|error)",
        "the embedded UI wants npm or a download (TheTom/llama-cpp-turboquant#221)",
        "leave `ui: false` for this variant: it renders every UI flag OFF",
    ),
    Cause(
        r"Killed signal terminated program|nvcc error.*died due to signal 9|\bKilled\b.*(cc1plus|cicc|ptxas)"
        r"|(cc1plus|cicc|ptxas).*Killed",
        "the compiler was killed: the builder ran out of memory (ggml-org/llama.cpp#17844)",
        "give the builder more RAM or swap; the number of jobs follows its free memory",
    ),
    Cause(
        r"Unsupported gpu architecture|nvcc fatal.*arch",
        "this CUDA toolkit does not know one of the archs",
        "compare `cuda: archs` with the toolkit in the matrix",
    ),
    Cause(
        r"no space left on device",
        "the builder's disk is full",
        "docker builder prune on the builder",
    ),
    Cause(
        r"unknown flag: network|Unknown flag: network",
        "the builder's engine is too old: it has no RUN --network=none",
        "build on Engine 23 or later: `builder: HOST` in the matrix",
    ),
    Cause(
        r"failed to resolve source metadata|manifest unknown|failed to do request: ",
        "a base image cannot be had from its registry",
        "check `base:` in the matrix and the builder's way to that registry",
    ),
    Cause(
        r"\b(cmake|ninja|c\+\+|g\+\+|gcc|nvcc): (command )?not found|CMAKE_MAKE_PROGRAM is not set"
        r"|No CMAKE_CXX_COMPILER could be found",
        "the build base lacks a tool, and the package stage did not install it",
        "add it to `packages:` of the variant or of `defaults:`",
    ),
    Cause(
        # As a line of the log: buildx repeats the whole instruction, this text in it, whatever went wrong.
        r"(?m)^#\d+ [\d.]+ the package archive of this base has no snapshot of ",
        "the package archive that this base uses cannot be read as of a moment",
        "write `snapshot: none` for this variant, and `sistership lock`",
    ),
    Cause(
        r"Temporary failure resolving|Could not resolve host|Unable to fetch some archives",
        "the package stage has no way to its mirror",
        "check the builder's network, or use a base that has the packages",
    ),
    Cause(
        r"buildx.*(not a docker command|unknown command)|unknown command: docker buildx|unknown shorthand flag"
        r"|^unknown flag: --(platform|provenance|raw|format)\b",
        "the docker command there has no buildx",
        "install it: apt-get install docker-buildx (Debian, Ubuntu) or docker-buildx-plugin (docker.com)",
    ),
    Cause(
        # Met on Engine 26.1 with the containerd store, when an image was removed just before.
        r"parent snapshot sha256:[0-9a-f]{64} does not exist",
        "the engine's clean-up took away a layer while the image was put together",
        "build again",
        passes=True,
    ),
)


def explain(log: str) -> Cause | None:
    """The first known cause that the log shows."""
    return next((cause for cause in CAUSES if re.search(cause.pattern, log)), None)


def first_words(log: str, lines: int = 3) -> str:
    """The lines that say why a build did not even begin: below them the command tells how it is called."""
    kept = [line for line in log.splitlines() if line.strip()]
    return "\n".join(kept[:lines])


def last_words(log: str, lines: int = 12) -> str:
    """The lines that say what failed, without buildx's echo of the Dockerfile.

    At the end of a failed build buildx repeats the failing step's own output between two rules; that is what counts.
    """
    all_lines = log.splitlines()
    begins = [number for number, line in enumerate(all_lines) if re.match(r"^ > \[", line)]
    if begins:
        step = itertools.takewhile(lambda line: not re.match(r"^-{4,}$", line), all_lines[begins[-1] + 1 :])
        own = [line for line in step if line.strip()]
        if own:
            return "\n".join(own[-lines:])
    kept = [line for line in all_lines if line.strip() and not re.match(r"^(\s*\d+ \||\s*>>>|-{4,})", line)]
    return "\n".join(kept[-lines:])
