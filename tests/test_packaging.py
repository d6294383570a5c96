"""What a user gets: wheel, source archive, pinned dependencies, scripts; and what must never be in them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sistership

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONSTRAINTS = (ROOT / "constraints.txt").read_text()

# In pieces, so that this file does not hold them itself.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in [
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("snapshot", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("security", "ubuntu", "com"),
        ("ports", "ubuntu", "com"),
        ("py" + "pi", "org"),
        ("files", "python" + "hosted", "org"),
        ("registry", "npm" + "js", "org"),
    ]
]
#: Wherever this checkout lies, nothing in it may say so.
MACHINE_PATHS = [f"{ROOT}/"]
PUBLISHED = [
    ".ci",
    "dockerfiles",
    "docs",
    "patches",
    "schemas",
    "scripts",
    "src",
    "tests",
    *(path.name for pattern in ("*.toml", "*.txt", "*.md", "*.yaml", "*.json", "*.py") for path in ROOT.glob(pattern)),
]


def files(folder: Path) -> list[Path]:
    """All files below `folder`, or itself, without what interpreters leave behind."""
    found = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in found if "__pycache__" not in path.parts]


def build(target: str, folder: Path) -> Path:
    """The project built as "wheel" or "sdist" into `folder`."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Mapping[str, bytes]:
    """Path → content of everything in the wheel."""
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> frozenset[str]:
    """Paths in the source archive, without its top folder."""
    with tarfile.open(build("sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        return frozenset(name.partition("/")[2] for name in archive.getnames())


@pytest.mark.parametrize("folder", ["dockerfiles", "patches", "schemas"])
def test_wheel_carries_templates_and_patches(wheel, folder):
    """`sistership` works in a folder of its own: every template and patch is package data, byte for byte."""
    expected = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in files(ROOT / folder)}
    assert expected
    got = {name.removeprefix("sistership/data/"): data for name, data in wheel.items()}
    assert {name: got.get(name) for name in expected} == expected


def test_wheel_carries_the_whole_package(wheel):
    """No room is dropped (`build` is on many ignore lists), and the sample's sources come along unchanged."""
    source = ROOT / "src"
    expected = {path.relative_to(source).as_posix(): path.read_bytes() for path in files(source / "sistership")}
    assert "sistership/build/__init__.py" in expected
    assert "sistership/fleet/sample/CMakeLists.txt" in expected
    assert {name: wheel.get(name) for name in expected} == expected


def test_wheel_carries_nothing_else(wheel):
    """Package, data, metadata: no tests, no caches."""
    meta = f"sistership-{sistership.__version__}.dist-info/"
    assert [name for name in wheel if not name.startswith(("sistership/", meta)) or "__pycache__" in name] == []


def test_wheel_metadata(wheel):
    """Version, licence and command are those of the project."""
    meta = f"sistership-{sistership.__version__}.dist-info"
    assert f"Version: {sistership.__version__}\n".encode() in wheel[f"{meta}/METADATA"]
    assert b"Apache License" in wheel[f"{meta}/licenses/LICENSE"]
    assert b"sistership = sistership.tasks.program:main" in wheel[f"{meta}/entry_points.txt"]


def test_sdist_can_make_the_wheel(sdist):
    """The source archive holds what the wheel is made from, and what the scripts need."""
    needed = ["pyproject.toml", "LICENSE", "README.md", "constraints.txt", "scripts/hatch_build.py", "scripts/setup"]
    bundled = [path for folder in ("dockerfiles", "patches", "schemas") for path in files(ROOT / folder)]
    needed += [path.relative_to(ROOT).as_posix() for path in bundled]
    assert [name for name in needed if name not in sdist] == []


def pins() -> dict[str, str]:
    """Package → version of constraints.txt."""
    found = re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def test_every_pin_has_hashes():
    """Each package is pinned to one version with at least one sha256, and to nothing that is no package."""
    entries = re.split(r"\n(?=\S)", CONSTRAINTS.strip())
    packages = [entry for entry in entries if not entry.startswith("#")]
    assert packages
    bad = [e for e in packages if not re.fullmatch(r"[\w.-]+==\S+( \\\n    --hash=sha256:[0-9a-f]{64})+", e)]
    assert bad == []


def test_constraints_hold_no_url():
    """No URL, index or path: whoever installs uses the index that the machine is set up for."""
    assert re.findall(r"\w+://\S+|^-.*|^\.?/.*| @ .*", CONSTRAINTS, re.MULTILINE) == []


def test_every_dependency_is_pinned():
    """What pyproject.toml asks for (the build backend too) is pinned to a version that satisfies it."""
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"], *PROJECT["build-system"]["requires"]]
    got = pins()
    for requirement in map(Requirement, wanted):
        version = got.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not pinned: run scripts/pin"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} is pinned to {version}"


def test_published_files_name_no_registry_and_no_machine():
    """Package mirrors are found on the machine at run time, and nothing depends on where the project was written."""
    found = []
    for path in (path for name in PUBLISHED for path in files(ROOT / name)):
        text = path.read_bytes().decode(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in REGISTRY_HOSTS + MACHINE_PATHS if word in text]
    assert found == []


def scripts() -> list[Path]:
    """Everything in scripts/ and .ci/ that bash reads."""
    return [path for folder in ("scripts", ".ci") for path in files(ROOT / folder) if path.suffix in {"", ".sh"}]


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_scripts_are_bash(script):
    """Each script can be started, stops at its first error, and parses."""
    if script.suffix != ".sh":
        assert script.stat().st_mode & 0o111
        assert script.read_text().startswith("#!/usr/bin/env bash\n")
        assert "\nset -euo pipefail\n" in script.read_text()
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=30)


#: Distribution → what it is imported as, where the two differ.
MODULES = {"pyyaml": {"yaml"}, "pydantic": {"pydantic", "pydantic_core"}}
#: Names that only type checkers import.
TYPES_ONLY = {"_typeshed"}


def imports(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_package_imports_what_it_declares():
    """Every third-party import of the package is a declared dependency, not one that came along by chance."""
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    third_party = set().union(*(MODULES.get(name, {name}) for name in declared))
    known = third_party | set(sys.stdlib_module_names) | TYPES_ONLY | {"sistership"}
    sources = [path for path in files(ROOT / "src") if path.suffix == ".py"]
    unknown = {path.relative_to(ROOT).as_posix(): imports(path) - known for path in sources}
    assert {path: names for path, names in unknown.items() if names} == {}
