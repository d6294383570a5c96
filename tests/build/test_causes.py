"""Known causes of failed builds, told from logs."""

from __future__ import annotations

import pytest

from sistership.build.causes import explain, last_words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("/usr/bin/ld: libggml-cuda.so: undefined reference to `cuMemCreate'", "vmm: false"),
        ("CMake Error: File tools/ui/loading.html does not exist", "ui: false"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "RAM"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "archs"),
        ("write /x: no space left on device", "prune"),
        ("ERROR: failed to solve: dockerfile parse error: unknown flag: network", "Engine 23"),
        ("ERROR: failed to solve: x: failed to resolve source metadata for x@sha256:1: not found", "base:"),
        ("Err:1 Temporary failure resolving 'mirror.example'", "network"),
        ("docker: unknown command: docker buildx", "docker-buildx"),
        ("#8 4.21 the package archive of this base has no snapshot of 20260501T000000Z", "snapshot: none"),
    ],
)
def test_known_causes(log: str, words: str) -> None:
    """Each failure that people meet is told with its cure."""
    cause = explain(log)
    assert cause is not None
    assert words in cause.hint


def test_the_failing_steps_own_output_counts() -> None:
    """Of buildx's report the repeated output of the step is shown, not the Dockerfile or the command around it."""
    log = (
        "#9 1.2 noise\n------\n > [build 4/6] RUN sh /sistership/check-flags.sh LLAMA_USE_PREBUILT_UI:\n"
        "0.1 CMake Warning: not used\n0.2 as: x.o: no space left on device\n------\n"
        "Dockerfile:33\n--------------------\n  33 | >>> RUN sh /sistership/check-flags.sh\n--------------------\n"
        'ERROR: failed to solve: process "/bin/sh -c sh LLAMA_USE_PREBUILT_UI" did not complete: exit code: 1'
    )
    assert last_words(log).splitlines() == [
        "0.1 CMake Warning: not used",
        "0.2 as: x.o: no space left on device",
    ]
    cause = explain(last_words(log))
    assert cause is not None
    assert "docker builder prune" in cause.hint


def test_unknown_failures_show_their_last_lines() -> None:
    """Without a known cause the log's last lines are shown, without buildx's echo of the Dockerfile."""
    log = "#9 1.2 error: expected ';'\n\n------\n > [internal] x:\n------\n  12 | >>> RUN x\n--------------\nERROR: 1"
    assert explain(log) is None
    assert "expected ';'" in last_words(log)
    assert "12 |" not in last_words(log)
    assert last_words("\n".join(f"line {n}" for n in range(100))).splitlines()[0] == "line 88"


@pytest.mark.parametrize(
    "log",
    [
        "#9 1.0 ccache not found, going on without\n#9 2.0 x.cpp:3: error: expected ';' before '}' token",
        "#9 prebuilt/buildinfo.cpp:1: error: 'x' was not declared",
        "#9 error: file 'models.h' not found",
        '#8 [packages 2/2] RUN … { echo "the package archive of this base has no snapshot of 1" >&2; exit 1; }',
    ],
)
def test_no_cause_is_invented(log: str) -> None:
    """Words that only look like a known failure are no cause: a wrong cure costs more than none."""
    assert explain(log) is None


def test_missing_tool_is_no_registry_trouble() -> None:
    """A base without cmake is told as that."""
    cause = explain("#9 0.1 /bin/sh: 1: cmake: not found")
    assert cause is not None
    assert "packages:" in cause.hint
