"""What is offered after which words. The shells themselves are tried in test_shells.py."""

from __future__ import annotations

import pytest

from sistership.errors import UsageError
from sistership.start.completion import Flag, Offer, Paths, Verb, answer, cut, offer, script, split
from sistership.start.names import Names

VERBS = {
    "ship": Verb(
        "Send.",
        (
            Flag("--dry-run", "", value=False),
            Flag("--hosts", "", value=True),
            Flag("--jobs", "", value=True),
            Flag("--matrix", "", value=True),
            Flag("--variant", "", value=True),
        ),
    ),
    "build": Verb(
        "Build.", tuple(Flag(name, "", value=True) for name in ("--builder", "--output", "--platform", "--source"))
    ),
    "completion": Verb("Print.", (Flag("--quiet", "", value=False),), positional=1),
    "diff": Verb("Compare.", (), positional=2),
    "fleet.up": Verb("Start.", ()),
    "import": Verb("Read.", (Flag("--quiet", "", value=False),), positional=1),
}
NAMES = Names(("alpha", "beta"), ("gpu-a", "gpu-b", "nas"), ("workers", "gpus"), ("upstream",))


def offered(*words: str) -> Offer:
    """What fits after `sistership WORDS`; names come from a matrix called other.yaml only when it is named."""
    other = Names(("gamma",), ("cpu-a",))
    return offer(words, VERBS, lambda matrix: other if matrix == "other.yaml" else NAMES)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], ["ship", "build", "completion", "diff", "fleet.up", "import"]),
        (["build", "--platform", "linux/ar"], ["linux/arm64"]),
        (["build", "--builder", "n"], ["nas"]),
        (["s"], ["ship"]),
        (["fleet"], ["fleet.up"]),
        (["-"], ["--help", "--list", "--version"]),
        (["--help", "b"], ["build"]),
        (["nonsense", ""], ["ship", "build", "completion", "diff", "fleet.up", "import"]),
        (["ship", "--h"], ["--hosts"]),
        (["ship", ""], ["--dry-run", "--hosts", "--jobs", "--matrix", "--variant"]),
        (["ship", "--dry-run", "--hosts", "a", "--"], ["--jobs", "--matrix", "--variant"]),
        (["ship", "--hosts", ""], ["gpu-a", "gpu-b", "nas", "workers", "gpus"]),
        (["ship", "--hosts", "gpu-"], ["gpu-a", "gpu-b"]),
        (["ship", "--hosts", "^w"], ["^workers"]),
        (["ship", "--hosts", "gpu-a,g"], ["gpu-a,gpu-b", "gpu-a,gpus"]),
        (
            ["ship", "--hosts", "workers,^gpu-a,^"],
            ["workers,^gpu-a,^gpu-b", "workers,^gpu-a,^nas", "workers,^gpu-a,^gpus"],
        ),
        (["ship", "--hosts=na"], ["--hosts=nas"]),
        (["ship", "--dry-run=na"], []),
        (["ship", "--jobs", ""], []),
        (["ship", "--variant", "b"], ["beta"]),
        (["ship", "--matrix", "other.yaml", "--variant", ""], ["gamma"]),
        (["ship", "--matrix=other.yaml", "--hosts", ""], ["cpu-a"]),
        (["build", "--source", "u"], ["upstream="]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["completion", "-"], ["--quiet"]),
        (["diff", "a"], ["alpha"]),
        (["build", "--source", "upstream=x", "--so"], ["--source"]),
    ],
)
def test_words(words: list[str], expected: list[str]) -> None:
    """Verbs, flags that are not given yet, and names in lists with ^ and = as they are typed."""
    assert list(offered(*words).words) == expected


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (["ship", "--matrix", ""], Paths.FILES),
        (["ship", "--matrix=x"], Paths.FILES),
        (["build", "--output", ""], Paths.FILES),
        (["import", "x"], Paths.FILES),
        (["diff", "x"], Paths.FILES),
        (["build", "--source", "upstream="], Paths.FOLDERS),
        (["ship", "--hosts", ""], Paths.NONE),
    ],
)
def test_paths(words: list[str], paths: Paths) -> None:
    """Flags that take a path let the shell offer its own."""
    assert offered(*words).paths is paths


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sistership ship --ho", ["sistership", "ship", "--ho"]),
        ("sistership ship ", ["sistership", "ship", ""]),
        ("sistership ship --matrix 'my fi", ["sistership", "ship", "--matrix", "my fi"]),
        ('sistership ship --matrix "a b" ', ["sistership", "ship", "--matrix", "a b", ""]),
        ("sistership ship it's \"x", ["sistership", "ship", 'its "x']),
    ],
)
def test_lines_are_split_as_shells_do(line: str, expected: list[str]) -> None:
    """Also while a quote is still open."""
    assert split(line) == expected


@pytest.mark.parametrize(
    ("token", "own", "expected"),
    [
        ("--hosts=gp", "gp", ["gpu"]),
        ("--hosts=", "=", ["gpu"]),
        ("--hosts=gp", "--hosts=gp", ["--hosts=gpu"]),
    ],
)
def test_bash_gets_the_part_that_it_replaces(token: str, own: str, expected: list[str]) -> None:
    """bash cuts words at =, unless COMP_WORDBREAKS was changed."""
    assert list(cut(Offer({"--hosts=gpu": ""}), token, own).words) == expected


def test_answers_are_lines() -> None:
    """One line about paths and spaces, then a word and its meaning a line, whatever the meaning holds."""
    assert answer(Offer({"a": "x\n  y\tz"}, Paths.FILES, open_ended=True)) == "files open\na\tx y z\n"
    assert answer(Offer()) == "closed\n"


def test_unknown_shells_are_refused() -> None:
    """The error names the shells there are."""
    with pytest.raises(UsageError, match="no completion for csh") as caught:
        script("csh")
    assert caught.value.hint == "choose one of: bash, zsh, fish"
