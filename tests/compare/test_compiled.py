"""The same rows with files that a real compiler made, where there is one; `test_causes` proves them without."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .made import told

SOURCE = """
#include <stdio.h>
void axpy(float *restrict a, const float *restrict b, int n) { for (int i = 0; i < n; i++) a[i] += 3 * b[i]; }
void where(void) { printf("%s", WHERE); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Compiles SOURCE in a folder, with flags, to the bytes of the object or library."""
    if shutil.which("gcc") is None:
        return None
    root: Path = tmp_path_factory.mktemp("compiled")

    def run(folder: str, *flags: str, where: str = "__FILE__") -> bytes:
        place = root / folder
        place.mkdir(exist_ok=True)
        (place / "x.c").write_text(SOURCE)
        argv = ["gcc", "-O3", "-fPIC", f"-DWHERE={where}", *flags, str(place / "x.c"), "-o", str(place / "x.o")]
        subprocess.run(argv if "-shared" in flags else [*argv, "-c"], check=True, cwd=place, capture_output=True)
        return (place / "x.o").read_bytes()

    return run


def test_the_same_compile_is_the_same(compiled):
    """Two compiles of one file at one path: nothing to tell."""
    if compiled is None:
        return
    assert compiled("a") == compiled("a")


@pytest.mark.parametrize(
    ("one", "other", "place", "cause"),
    [
        (("a",), ("b",), ".rodata.str", "source-path"),
        (("a", "-g", '-DWHERE="x"'), ("b", "-g", '-DWHERE="x"'), ".debug_line_str", "debug-path"),
        (("a",), ("a", "-march=x86-64-v3"), ".text", "epoch-in-cmake"),
        (("a",), ("a", "-O1"), ".text", "other-code"),
        (("a", "-shared"), ("a", "-shared", "-s"), ".symtab", "strip"),
        (("a", "-shared", "-Wl,-rpath,/tmp/x"), ("a", "-shared", "-Wl,-rpath,/tmp/y"), ".dynamic", "rpath"),
        (("a", "-shared", "-Wl,-soname,libx.so.1"), ("a", "-shared", "-Wl,-soname,libx.so.2"), ".dynamic", "soname"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_rows_that_gcc_can_show(compiled, one, other, place, cause):
    """What gcc does with another folder, CPU, optimisation or linker flag is told by section and cause."""
    if compiled is None or (cause == "epoch-in-cmake" and _machine() != "x86_64"):
        return
    parts, causes = told(compiled(*one), compiled(*other))
    assert any(name.startswith(place) for name in parts)
    assert causes[0] == cause


def test_date_macros(compiled):
    """__TIME__ of two moments; the compiler's clock is set by SOURCE_DATE_EPOCH alone, so that nothing waits."""
    if compiled is None:
        return
    parts, causes = told(compiled("a", where='"14:38:43"'), compiled("a", where='"14:38:45"'))
    assert next(iter(parts.values())).only == (("14:38:43",), ("14:38:45",))
    assert causes == ("date-macro",)


def test_static_libraries(compiled, tmp_path):
    """ar without D writes times and modes; with D in another order, the order."""
    if compiled is None:
        return
    for name in ("a-member-with-a-long-name.o", "b.o"):
        (tmp_path / name).write_bytes(compiled("a"))
    files = [str(path) for path in sorted(tmp_path.glob("*.o"))]
    made = []
    for flags, members in (("rcU", files), ("rcD", files), ("rcD", files[::-1])):
        path = tmp_path / f"{len(made)}.a"
        subprocess.run(["ar", flags, str(path), *members], check=True, capture_output=True)
        made.append(path.read_bytes())
    assert told(made[0], made[1])[1] == ("ar-header",)
    assert "a-member-with-a-long-name.o/header" in told(made[0], made[1])[0]
    assert told(made[1], made[2])[1] == ("input-order",)


def _machine() -> str:
    return subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
