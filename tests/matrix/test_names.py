"""Names, references, platforms, commits and git addresses."""

from __future__ import annotations

import pytest

from sistership.matrix.names import (
    Reference,
    TextError,
    check_commit,
    check_git,
    check_image,
    check_name,
    check_platform,
    is_path,
    nearest,
    parse_reference,
)

DIGEST = "sha256:" + "5" * 64


@pytest.mark.parametrize(
    ("text", "reference", "repository"),
    [
        ("debian", Reference("", "debian"), "docker.io/library/debian"),
        ("debian:bookworm", Reference("", "debian", "bookworm"), "docker.io/library/debian"),
        ("docker.io/debian:12", Reference("docker.io", "debian", "12"), "docker.io/library/debian"),
        ("team/app", Reference("", "team/app"), "docker.io/team/app"),
        ("localhost/app", Reference("localhost", "app"), "localhost/app"),
        ("127.0.0.1:5000/a/b:c", Reference("127.0.0.1:5000", "a/b", "c"), "127.0.0.1:5000/a/b"),
        ("[::1]:5000/a", Reference("[::1]:5000", "a"), "[::1]:5000/a"),
        (f"nvidia/cuda:12.8.1@{DIGEST}", Reference("", "nvidia/cuda", "12.8.1", DIGEST), "docker.io/nvidia/cuda"),
        ("a__b-c---d/e.f", Reference("", "a__b-c---d/e.f"), "docker.io/a__b-c---d/e.f"),
    ],
)
def test_references_are_read_in_parts(text, reference, repository):
    """Domain, path, tag and digest as Docker's reference grammar has them."""
    assert parse_reference(text) == reference
    assert parse_reference(text).repository == repository


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Debian",
        "a//b",
        "-a",
        "a_",
        "a___b",
        "a:",
        "a:.b",
        f"a:{'b' * 129}",
        "a@sha256:12",
        f"a@{DIGEST[:-1]}",
        "a b",
        "a/" * 140 + "a",
        "5" * 64,
        "http://x/y",
        "a:b:c",
        "a\n",
    ],
)
def test_other_references_are_refused(text):
    """What an engine would refuse is refused here."""
    with pytest.raises(TextError):
        parse_reference(text)


@pytest.mark.parametrize("text", ["a:1", f"a@{DIGEST}", "sistership.local/a"])
def test_image_names_carry_no_tag(text):
    """The tag has its own key, and our own domain is not for users."""
    with pytest.raises(TextError):
        check_image(text)


@pytest.mark.parametrize("name", ["gpu-main", "no", "on", "x-1", "12.10", "_a", "null", "GPU_1.lan"])
def test_names_that_can_be_selected(name):
    """Words that YAML would re-type are names like others."""
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", "a,b", "^a", "-a", "a b", "a*", "a?", "[a]", "a/b", ".", "..", "a\n", "a" * 101, "ä"]
)
def test_names_that_cannot(name):
    """Nothing that a selector, a shell or a file name reads otherwise."""
    with pytest.raises(TextError):
        check_name(name)


@pytest.mark.parametrize("text", ["linux/amd64", "linux/arm64", "linux/arm64/v8", "linux/arm/v7"])
def test_platforms(text):
    """Platforms as OCI names them."""
    check_platform(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("amd64", "write linux/amd64"),
        ("linux/x86_64", "write linux/amd64"),
        ("aarch64", "write linux/arm64"),
        ("linux/amd64/", "write linux/amd64 or linux/arm64"),
        ("linux", "write linux/amd64 or linux/arm64"),
        ("LINUX/AMD64", "write linux/amd64 or linux/arm64"),
    ],
)
def test_other_platforms_are_refused_with_the_right_one(text, hint):
    """The names that `uname -m` gives are told in OCI's words."""
    with pytest.raises(TextError) as caught:
        check_platform(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "text", ["84e908c6", "a" * 40, "main", "v1.0", "feature/x", "tqp-v0.3.0", "b9079", "refs/heads/x"]
)
def test_commits(text):
    """Hashes, tags and branches."""
    check_commit(text)


@pytest.mark.parametrize(
    "text", ["", "a" * 41, "1" * 64, "-x", "a b", "a..b", "a~1", "a^", "a:b", "x.lock", "a/", "@", "HEAD@{1}"]
)
def test_other_commits_are_refused(text):
    """What git would take for an option, a range or an expression."""
    with pytest.raises(TextError):
        check_commit(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("https://git.example/a", False),
        ("ssh://git@git.example/a", False),
        ("git@git.example:a/b", False),
        ("box:a.git", False),
        (".sistership/fleet/sample.git", True),
        ("../a", True),
        ("/srv/git/a", True),
        ("~/src/a", True),
        ("a/b", True),
        ("./a:b", True),
    ],
)
def test_git_addresses_and_paths(text, path):
    """A path is what has no scheme and no host."""
    check_git(text)
    assert is_path(text) is path


@pytest.mark.parametrize(
    "text", ["", "-x", "ext::sh -c x", "fd::3", "ftp://a/b", "https://u:p@a/b", "https://a/ b", "a\nb"]
)
def test_other_git_addresses_are_refused(text):
    """No command, no password, no option in disguise."""
    with pytest.raises(TextError):
        check_git(text)


def test_nearest_ignores_case_and_lists_what_there_is():
    """One near name is suggested; without one all are listed."""
    assert nearest("GPU-Mian", ["gpu-main", "gpu-worker"]) == 'did you mean "gpu-main"?'
    assert nearest("zzz", ["gpu-main", "gpu-worker"]) == "known: gpu-main, gpu-worker"
    assert nearest("zzz", []) is None
