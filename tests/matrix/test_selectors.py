"""`--variant` and `--hosts`."""

from __future__ import annotations

from pathlib import Path

import pytest

from sistership.errors import UsageError
from sistership.matrix import selectors
from sistership.matrix.load import parse

TEXT = b"""
version: 1
forks: {upstream: {git: https://git.example/llama.cpp}}
x-cpu: &cpu
  fork: upstream
  commit: main
  image: llamacpp
  backend: cpu
  base: {build: "debian:bookworm", runtime: "debian:bookworm-slim"}
variants:
  upstream: {<<: *cpu, tag: a}
  turboquant: {<<: *cpu, tag: b}
  upstream-cpu: {<<: *cpu, tag: c}
hosts: {gpu-main: , gpu-worker: , no: , on: , arm: }
groups: {workers: [arm, gpu-worker, no], most: [workers, gpu-main, gpu-worker], "off": [on]}
"""


@pytest.fixture(scope="module")
def matrix():
    """Five hosts, three variants, groups of both."""
    return parse(TEXT, Path("/project/buildmatrix.yaml"))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, "gpu-main gpu-worker no on arm"),
        ("no", "no"),
        ("on,no", "no on"),
        ("workers", "gpu-worker no arm"),
        ("most", "gpu-main gpu-worker no arm"),
        ("gpu-*", "gpu-main gpu-worker"),
        ("gpu-?ain", "gpu-main"),
        ("[no]?", "no on"),
        ("arm,gpu-main,arm", "gpu-main arm"),
        ("workers,^no", "gpu-worker arm"),
        ("^no,workers", "gpu-worker arm"),
        ("^workers", "gpu-main on"),
        ("^gpu-*,^off", "no arm"),
        (" no , on ", "no on"),
        ("off", "on"),
    ],
)
def test_hosts(matrix, text, wanted):
    """Names, groups, globs and `^` select in the order of the inventory, each host once."""
    assert " ".join(host.name for host in selectors.hosts(matrix, text)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, "upstream turboquant upstream-cpu"),
        ("upstream*", "upstream upstream-cpu"),
        ("^turboquant", "upstream upstream-cpu"),
    ],
)
def test_variants(matrix, text, wanted):
    """Variants are selected the same way, without groups."""
    assert " ".join(variant.name for variant in selectors.variants(matrix, text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '--hosts "" has an empty part\n  next: name a host or group, or leave --hosts out for all'),
        (" ", '--hosts " " has an empty part\n  next: name a host or group, or leave --hosts out for all'),
        ("no,", '--hosts "no," has an empty part\n  next: name a host or group, or leave --hosts out for all'),
        ("^", '--hosts "^" has an empty part\n  next: name a host or group, or leave --hosts out for all'),
        (
            "--variant",
            (
                '--hosts "--variant" is not a host or group\n'
                "  why:  the value of an option cannot begin with a dash\n"
                "  next: put a value after --hosts"
            ),
        ),
        ("gpu-mian", '--hosts: no host or group "gpu-mian"\n  next: did you mean "gpu-main"?'),
        ("wrokers", '--hosts: no host or group "wrokers"\n  next: did you mean "workers"?'),
        ("^gpu-mian", '--hosts: no host or group "gpu-mian"\n  next: did you mean "gpu-main"?'),
        (
            "z*",
            '--hosts: no host or group "z*"\n  next: known: gpu-main, gpu-worker, no, on, arm, workers, most, off',
        ),
        ("no,^no", '--hosts "no,^no" leaves out everything it names\n  next: leave out less'),
    ],
)
def test_a_selector_never_means_nothing(matrix, text, message):
    """An empty, unknown or self-defeating selector is a usage error, never "nothing to do"."""
    with pytest.raises(UsageError) as caught:
        selectors.hosts(matrix, text)
    assert str(caught.value) == message
    assert caught.value.code == 2


def test_groups_are_no_variants(matrix):
    """A group name means nothing to --variant."""
    with pytest.raises(UsageError, match='no variant "workers"'):
        selectors.variants(matrix, "workers")
