"""The script that lists toolchain and packages, run by a plain sh with tools that say what real ones say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sistership import resources

SCRIPT = resources.bundled("dockerfiles") / "support" / "inputs.sh"
#: As the real ones print it.
NVCC = """\
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Fri_Feb_21_20:23:50_PST_2025
Cuda compilation tools, release 12.8, V12.8.93
Build cuda_12.8.r12.8/compiler.35583870_0
"""
GCC = "gcc (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022 Free Software Foundation, Inc.\n"


class Stage:
    """A build stage with a PATH of its own, on which only the tools of a minimal base are."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.out = folder / "bin", folder / "out"
        self.bin.mkdir()
        for name in ("awk", "sort", "mkdir", "readlink", "sh"):
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)

    def tool(self, name: str, says: str, *, to: str = "1") -> None:
        """A tool that prints this for any argument, on standard output or error."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\nwhile read -r line; do echo \"$line\"; done >&{to} <<'END'\n{says.strip()}\nEND\n")
        path.chmod(0o755)

    def run(self, **env: str) -> dict[str, list[str]]:
        """The lines of both lists."""
        shutil.rmtree(self.out, ignore_errors=True)
        argv = ["/bin/sh", str(SCRIPT), str(self.out)]
        done = subprocess.run(argv, env={"PATH": str(self.bin), **env}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return {path.stem: path.read_text().splitlines() for path in self.out.iterdir()}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """An empty stage."""
    return Stage(tmp_path)


def test_the_line_with_the_version(stage: Stage) -> None:
    """Whatever a tool prints around it, on either stream: the first line with a version, blanks made one, sorted."""
    stage.tool("nvcc", NVCC)
    stage.tool("gcc", GCC)
    stage.tool("cmake", "cmake  version\t3.25.1")
    stage.tool("ninja", "1.11.1", to="2")
    assert stage.run()["toolchain"] == [
        "cmake\tcmake version 3.25.1",
        "gcc\tgcc (Debian 12.2.0-14+deb12u1) 12.2.0",
        "ninja\t1.11.1",
        "nvcc\tCuda compilation tools, release 12.8, V12.8.93",
    ]


def test_a_tool_without_a_version_is_told(stage: Stage) -> None:
    """A tool that says nothing is still there: the two fields hold."""
    stage.tool("ld", "")
    assert stage.run()["toolchain"] == ["ld\tno version told"]


def test_other_compiler_behind_cc(stage: Stage) -> None:
    """CMake asks for cc and c++: told where they are no other name of gcc and g++, silent where they are."""
    for name in ("gcc", "g++"):
        stage.tool(name, GCC)
    (stage.bin / "cc").symlink_to("gcc")
    (stage.bin / "c++").symlink_to("g++")
    assert [line.split("\t")[0] for line in stage.run()["toolchain"]] == ["g++", "gcc"]
    (stage.bin / "c++").unlink()
    stage.tool("c++", "Debian clang version 14.0.6")
    assert stage.run()["toolchain"][0] == "c++\tDebian clang version 14.0.6"
    (stage.bin / "g++").unlink()
    assert stage.run()["toolchain"][0] == "c++\tDebian clang version 14.0.6"


def test_packages_that_are_installed(stage: Stage) -> None:
    """Installed ones alone, foreign ones with their architecture, in the order of bytes whatever the locale."""
    rows = [
        "ii \tzlib1g\tamd64\t1:1.2.13.dfsg-1",
        "rc \told-config\tamd64\t1.0",
        "iF \thalf\tamd64\t1.0",
        "hi \theld\tamd64\t2.0",
        "ii \tlibc6\tamd64\t2.36-9",
        "ii \tlibc6\ti386\t2.36-9",
        "ii \ttzdata\tall\t2025b-0",
        "ii \tXlib\tamd64\t1",
    ]
    stage.tool("dpkg", "amd64")
    script = stage.bin / "dpkg-query"
    script.write_text("#!/bin/sh\nprintf '" + "\\n".join(rows).replace("\t", "\\t") + "\\n'\n")
    script.chmod(0o755)
    expected = [
        "Xlib\t1",
        "held\t2.0",
        "libc6\t2.36-9",
        "libc6:i386\t2.36-9",
        "tzdata\t2025b-0",
        "zlib1g\t1:1.2.13.dfsg-1",
    ]
    first = stage.run(LC_ALL="de_DE.UTF-8")["packages"]
    assert first == expected
    assert first == stage.run(LANG="C.UTF-8", TZ="Asia/Tokyo")["packages"]


def test_base_without_dpkg(stage: Stage) -> None:
    """Another distribution's base is no failure: the list holds a note alone."""
    packages = stage.run()["packages"]
    assert len(packages) == 1
    assert packages[0].startswith("# this base has no dpkg-query")


def test_what_dpkg_itself_says(tmp_path: Path) -> None:
    """On a real Debian the names and versions are those of dpkg-query, as many as it has installed."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("no Debian here")
    subprocess.run(["/bin/sh", str(SCRIPT), str(tmp_path)], check=True)
    asked = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${binary:Package} ${Version}\n"]
    rows = [row.split() for row in subprocess.check_output(asked, text=True).splitlines()]
    expected = {(name.split(":")[0], version) for status, name, version in rows if status == "installed"}
    found = [line.split("\t") for line in (tmp_path / "packages.tsv").read_text().splitlines()]
    assert {(name.split(":")[0], version) for name, version in found} == expected
