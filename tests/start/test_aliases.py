"""Names from ssh configurations, as ssh_config(5) says they are written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sistership.start.aliases import aliases, user_config


def config(folder: Path, text: str, **others: str) -> Path:
    """A configuration file, and others beside it (`a__b` is a/b)."""
    for name, content in others.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "config").write_text(text)
    return folder / "config"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Host gpu-a\n", ["gpu-a"]),
        ("host gpu-a gpu-b\n  HostName 10.0.0.9\nHOST=nas\n", ["gpu-a", "gpu-b", "nas"]),
        ('Host = "gpu-a" gpu-b # two\n', ["gpu-a", "gpu-b"]),
        ("Host *\nHost gpu-* !gpu-b gpu-?\nHost a\n", ["a"]),
        ("#Host no\n  # Host no\nHostName no\nMatch host no\nHost yes\n", ["yes"]),
        ("Host a\nHost b a\n", ["a", "b"]),
        ("Host github.com git-github gitlab.example gpu-git\n", ["gpu-git"]),
        ("Host -oProxyCommand=x a\n", ["a"]),
        ("\ufeffHost a\r\nHost b\r\n", ["b"]),
        ("", []),
    ],
)
def test_names(tmp_path: Path, text: str, expected: list[str]) -> None:
    """Every spelling of Host; wildcards, negations, comments, git servers and options in disguise are no hosts."""
    assert list(aliases(config(tmp_path, text), base=tmp_path)) == expected


def test_include_is_followed(tmp_path: Path) -> None:
    """Relative names start at the base, globs and several words work, in the place where they stand (case C43)."""
    others = {
        "extra.conf": "Host b\nMatch all\nInclude more.d/*.conf\n",
        "more.d__1.conf": "Host c\n",
        "more.d__2.conf": "Host d",
    }
    text = f"Include extra.conf missing\nHost a\nHost *\nInclude {tmp_path}/last\nHost f\n"
    path = config(tmp_path, text, last="Host e\n", **others)
    assert list(aliases(path, base=tmp_path)) == ["b", "c", "d", "a", "e", "f"]


def test_include_circles_end(tmp_path: Path) -> None:
    """A file that includes itself is no endless story."""
    path = config(tmp_path, "Include config\nHost a\nHost *\nInclude other\n", other="Include config\nHost b\n")
    assert list(aliases(path, base=tmp_path)) == ["a", "b"]


def test_an_include_inside_a_block_counts_for_that_block(tmp_path: Path) -> None:
    """The common slip, an Include at the end of the last Host block: ssh applies it to that host alone."""
    path = config(
        tmp_path, "Host gpu-*\nInclude more\nMatch user x\nInclude never\n", more="Host gpu-a nas\n", never="Host b"
    )
    assert aliases(path, base=tmp_path) == ("gpu-a",)


def test_no_file_no_names(tmp_path: Path) -> None:
    """Without a configuration there are no aliases, and no error."""
    assert aliases(tmp_path / "config") == ()


def test_the_configuration_is_that_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh ignores $HOME; so do we."""
    monkeypatch.setenv("HOME", "/nonexistent")
    assert user_config().parts[-2:] == (".ssh", "config")
    assert not str(user_config()).startswith("/nonexistent")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh program to compare with")
def test_ssh_knows_each_name(tmp_path: Path) -> None:
    """What is found resolves in ssh itself to what the files say, and what is left out does not."""
    text = f'Include {tmp_path}/first\nHost "one" two\n  HostName 10.9.9.9\nInclude {tmp_path}/more\n'
    more = "Host three two\n HostName 10.9.9.9\n"
    path = config(tmp_path, text, first="Host zero\n HostName 10.9.9.9\n", more=more)
    found = aliases(path, base=tmp_path)
    assert found == ("zero", "one", "two")
    for name in (*found, "three"):
        shown = subprocess.run(["ssh", "-G", "-F", str(path), name], capture_output=True, text=True, check=True)
        assert ("hostname 10.9.9.9" in shown.stdout) == (name in found), name
