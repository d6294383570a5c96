"""sha256 on a host, by whichever of three programs is there and works."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from sistership.host.sums import SHA256

DATA = bytes(range(256)) * 999
#: Notes that it was asked for a sum of something, and gives it.
REAL = '#!/bin/sh\necho "$0" >> "{used}"\nexec {program} "$@"\n'


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with nothing on it but what a sum needs besides."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("cut", "cat", "perl"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return folder


def give(tools: Path, name: str, text: str) -> None:
    """A program of that name."""
    (tools / name).write_text(text)
    (tools / name).chmod(0o755)


def summed(tools: Path) -> str:
    """What the shell prints for DATA."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"{SHA256}\nsha256"], input=DATA, env={"PATH": str(tools)}, capture_output=True, check=False
    )
    return done.stdout.decode().strip()


@pytest.mark.parametrize(
    ("there", "used"),
    [
        ({"openssl": None, "sha256sum": None}, "openssl"),
        ({"openssl": "#!/bin/sh\nexit 1\n", "sha256sum": None}, "sha256sum"),
        ({"openssl": "#!/bin/sh\ncat >/dev/null; echo junk\n", "sha256sum": None}, "sha256sum"),
        ({"sha256sum": None}, "sha256sum"),
        ({"shasum": None}, "shasum"),
    ],
)
def test_whichever_works(tools: Path, tmp_path: Path, there: dict[str, str | None], used: str) -> None:
    """openssl first; one that is broken is passed over; the sum is right by all of them."""
    for name, text in there.items():
        program = shutil.which(name)
        if text is None and program is None:
            pytest.skip(f"{name} is not installed")
        give(tools, name, text or REAL.format(used=tmp_path / "used", program=program))
    assert summed(tools) == hashlib.sha256(DATA).hexdigest()
    assert Path((tmp_path / "used").read_text().split()[-1]).name == used


def test_without_any_there_is_no_sum(tools: Path) -> None:
    """Nothing that could be taken for one is printed."""
    assert summed(tools) == ""
