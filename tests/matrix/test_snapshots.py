from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from sistership.errors import MatrixError
from sistership.matrix import snapshots
from sistership.matrix.load import parse
from sistership.matrix.names import TextError

NOBLE = "nvidia/cuda:12.8.1-devel-ubuntu24.04"
TEXT = """\
version: 1
forks: {{f: {{git: https://git.example/f}}}}
defaults: {{{defaults}}}
variants:
  alpha:
    fork: f
    commit: 84e908c625fb60992b4cdef8180fb12fa9b4c4bf
    image: alpha
    tag: v1
    backend: cpu
    packages: [{packages}]
    base: {{build: "{base}", runtime: "{base}"}}
    {own}
"""


def wanted(own: str = "", *, base: str = NOBLE, defaults: str = "", packages: str = "cmake") -> str:
    """What the variant wants."""
    text = TEXT.format(own=own, base=base, defaults=defaults, packages=packages)
    return parse(text.encode(), Path("buildmatrix.yaml")).variants["alpha"].snapshot


@pytest.mark.parametrize(
    "text",
    ["2026-05-01", "20260501", "20260501T000000Z", "2026-05-01T00:00:00Z", "2026-05-01 00:00:00"],
)
def test_spellings(text):
    """A date is read as it is usually written; YAML types none of them."""
    assert snapshots.moment(text) == "20260501T000000Z"
    assert wanted(f"snapshot: {text}") == "20260501T000000Z"


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-5", "", "01.05.2026", "2020-01-01"])
def test_what_is_no_moment(text):
    """Anything else is refused with an example, and so is a moment that no archive keeps."""
    with pytest.raises(TextError):
        snapshots.moment(text)


def test_stamp():
    """The lock's own moment is UTC, to the minute."""
    assert snapshots.stamp(datetime(2026, 5, 1, 12, 34, 56, tzinfo=UTC)) == "20260501T123400Z"
    east = timezone(timedelta(hours=2))
    assert snapshots.stamp(datetime(2026, 5, 1, 1, 0, tzinfo=east)) == "20260430T230000Z"


@pytest.mark.parametrize(
    ("reference", "answers"),
    [
        (NOBLE, True),
        (f"{NOBLE}@sha256:{'5' * 64}", True),
        ("nvcr.example/nvidia/cuda:13.0.0-devel-ubuntu24.04", True),
        ("ubuntu:24.04", True),
        ("ubuntu:noble-20260101", True),
        ("docker.io/library/ubuntu:26.04", True),
        ("ubuntu:22.04", False),
        ("nvidia/cuda:12.8.1-devel-ubuntu22.04", False),
        ("debian:bookworm", False),
        ("debian:12-slim", False),
        ("debian:trixie", None),
        ("nvidia/cuda:12.8.1-devel-rockylinux9", False),
        ("fedora:41", False),
        ("127.0.0.1:5000/practice/build:bookworm", None),
        (f"ubuntu@sha256:{'5' * 64}", None),
    ],
)
def test_which_bases_answer(reference, answers):
    """Known from the name alone: yes, no, or not to be told."""
    assert snapshots.answers(reference) is answers


def test_decisions():
    """Bases that can are pinned by themselves; others float; `none` and an empty package stage want nothing."""
    assert wanted() == "auto"
    assert wanted(base="debian:bookworm") == ""
    assert wanted(base="mirror.example/build:1") == ""
    assert wanted("snapshot: none") == "none"
    assert wanted(packages="") == "none"
    assert wanted(defaults="snapshot: none") == "none"
    assert wanted("snapshot: auto", defaults="snapshot: none") == "auto"
    assert wanted(defaults="snapshot: 2026-05-01") == "20260501T000000Z"
    assert wanted(defaults="snapshot: 2026-05-01", base="debian:bookworm") == ""
    assert wanted("snapshot: 2026-05-01", base="mirror.example/build:1") == "20260501T000000Z"


def test_refusals():
    """A date for an archive that keeps none, and a date that is none, are told where they stand."""
    with pytest.raises(MatrixError, match=r"buildmatrix\.yaml:13:15: .*cannot be read as of a moment"):
        wanted("snapshot: 2026-05-01", base="debian:bookworm")
    with pytest.raises(MatrixError, match=r"buildmatrix\.yaml:13:15: .*is no date"):
        wanted("snapshot: soon")
