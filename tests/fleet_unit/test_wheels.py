"""CUDA out of Python packages."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from sistership.errors import HostUnfitError
from sistership.fleet import wheels
from sistership.fleet.paths import State
from sistership.fleet.process import Stopped
from sistership.fleet.spec import EPOCH

NVCC = {"nvidia/cu13/bin/nvcc": b"\x7fELF nvcc", "nvidia/cu13/bin/nvcc.profile": b"TOP = x\n"}
RUNTIME = {
    "nvidia/cu13/include/cuda_runtime.h": b"// h\n",
    "nvidia/cu13/lib/libcudart.so.13": b"\x7fELF cudart",
    "nvidia/cu13/lib/libcudart_static.a": b"!<arch>\n",
}
OTHER = {
    "nvidia/cu13/cuda_cccl/.metadata/x.json": b"{}",
    "nvidia/cu13/include/nvvm.h": b"// h\n",
    "nvidia/cu13/lib/libnvvm.so.4": b"\x7fELF nvvm",
    "nvidia/cu13/nvvm/bin/cicc": b"\x7fELF cicc",
}
CUDA = "usr/local/cuda-13.2"


def wheel(folder: Path, name: str, files: dict[str, bytes], *, year: int = 2026, backwards: bool = False) -> Path:
    """A wheel as NVIDIA packs them: programs have mode 0744, every package the same licence."""
    path = folder / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
        f"{info}/licenses/License.txt": b"terms\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in sorted({**files, **metadata}.items(), reverse=backwards):
            entry = zipfile.ZipInfo(member, (year, 1, 2, 3, 4, 6))
            entry.external_attr = (0o100744 if data.startswith(b"\x7fELF") and ".so" not in member else 0o100644) << 16
            archive.writestr(entry, data)
    return path


def layer(paths, part) -> bytes:
    """The tar of some wheels."""
    sink = io.BytesIO()
    wheels.write_layer(wheels.tree(paths, part), sink)
    return sink.getvalue()


def test_pins_are_one_release():
    """Every package is pinned exactly, once, with a sum, and all come from one release of CUDA."""
    pins = wheels.pins()
    assert {pin.version.rsplit(".", 1)[0] for pin in pins} == {"13.2"}
    names = [pin.name for pin in pins]
    assert names == sorted(set(names))
    assert {"nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cuobjdump"} < set(names)
    assert [pin.name for pin in wheels.needed("runtime")] == ["nvidia-cuda-runtime"]


@pytest.mark.parametrize("line", ["nvidia-nvvm>=13", "nvidia-nvvm==13.2.86", "nvidia-nvvm==13 --hash=md5:00"])
def test_a_loose_pin_is_refused(line):
    """A range, a missing sum or another kind of sum would let the base change."""
    with pytest.raises(ValueError, match="NAME==VERSION"):
        wheels.parse(f"# pins\n\n{line}\n")


def test_layout_is_nvidias(tmp_path):
    """The toolkit lies where NVIDIA's images have it, programs can be run by everybody, nothing unused comes along."""
    paths = [wheel(tmp_path, name, files) for name, files in (("a", NVCC), ("b", RUNTIME), ("c", OTHER))]
    with tarfile.open(fileobj=io.BytesIO(layer(paths, "toolkit"))) as tar:
        found = {member.name: member for member in tar}
    links = {name: member.linkname for name, member in found.items() if member.issym()}
    assert links == {
        "usr/local/cuda": "cuda-13.2",
        f"{CUDA}/include": "targets/x86_64-linux/include",
        f"{CUDA}/lib": "targets/x86_64-linux/lib",
        f"{CUDA}/lib64": "targets/x86_64-linux/lib",
        f"{CUDA}/targets/x86_64-linux/lib/libcudart.so": "libcudart.so.13",
    }
    assert {name: member.mode for name, member in found.items() if member.isreg()} == {
        f"{CUDA}/EULA.txt": 0o644,
        f"{CUDA}/bin/nvcc": 0o755,
        f"{CUDA}/bin/nvcc.profile": 0o644,
        f"{CUDA}/nvvm/bin/cicc": 0o755,
        f"{CUDA}/targets/x86_64-linux/include/cuda_runtime.h": 0o644,
        f"{CUDA}/targets/x86_64-linux/lib/libcudart.so.13": 0o644,
        f"{CUDA}/targets/x86_64-linux/lib/libcudart_static.a": 0o644,
    }
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in found.values()} == {(EPOCH, 0, 0, "", "")}
    assert list(found) == sorted(found)
    assert found["usr"].isdir()
    assert found["usr/local"].mode == 0o755


def test_runtime_has_the_runtime_alone(tmp_path):
    """An image that only runs gets libcudart and the terms it comes under: no compiler, no headers, no plain .so."""
    paths = [wheel(tmp_path, name, files) for name, files in (("a", NVCC), ("b", RUNTIME))]
    with tarfile.open(fileobj=io.BytesIO(layer(paths, "runtime"))) as tar:
        files = [member.name for member in tar if not member.isdir()]
    assert files == [
        "usr/local/cuda",
        f"{CUDA}/EULA.txt",
        f"{CUDA}/lib",
        f"{CUDA}/lib64",
        f"{CUDA}/targets/x86_64-linux/lib/libcudart.so.13",
    ]


def test_equal_files_equal_layer(tmp_path):
    """Neither times nor the order inside a package reach the layer."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = wheel(tmp_path / "one", "a", {**NVCC, **RUNTIME})
    two = wheel(tmp_path / "two", "a", {**NVCC, **RUNTIME}, year=2030, backwards=True)
    assert one.read_bytes() != two.read_bytes()
    assert layer([one], "toolkit") == layer([two], "toolkit")


def test_packages_must_not_contradict(tmp_path):
    """Two packages with different files of one name are refused: the order of pins would decide."""
    one = wheel(tmp_path, "a", {"nvidia/cu13/include/x.h": b"1"})
    two = wheel(tmp_path, "b", {"nvidia/cu13/include/x.h": b"2"})
    with pytest.raises(HostUnfitError, match="different files"):
        wheels.tree([one, two], "toolkit")


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """A package that pip finds without a network, and its pin."""
    folder = tmp_path / "offered"
    folder.mkdir()
    path = wheel(folder, "nvidia-practice", RUNTIME)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return wheels.Pin("nvidia-practice", "1.0", hashlib.sha256(path.read_bytes()).hexdigest())


def fetch(pin, home: State):
    """Fetch with what it reported."""
    said: list[str] = []
    return wheels.fetch(pin, home, threading.Event(), said.append), said


def leftovers(home: State) -> list[str]:
    """What lies in the cache of packages."""
    return sorted(path.name for path in home.wheels.iterdir())


def test_downloaded_once(tmp_path, offered, monkeypatch):
    """pip itself downloads and checks a package; a second time nothing runs, a damaged file is asked for again."""
    home = State(tmp_path / "home")
    path, said = fetch(offered, home)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == offered.sha256
    assert (leftovers(home), len(said)) == (["nvidia-practice-1.0.whl"], 1)
    monkeypatch.setattr(wheels, "stream", lambda *_args, **_named: 1)
    assert fetch(offered, home) == (path, [])
    path.write_bytes(path.read_bytes()[:-1])
    (home.logs / "nvidia-practice.log").write_text("ERROR: no such package\n")
    with pytest.raises(HostUnfitError, match="could not be downloaded") as caught:
        fetch(offered, home)
    assert "ERROR: no such package" in str(caught.value)


def test_another_file_of_that_name_is_refused(tmp_path, offered):
    """What an index offers under the pinned version but with other bytes never enters the cache."""
    home = State(tmp_path / "home")
    with pytest.raises(HostUnfitError) as caught:
        fetch(wheels.Pin(offered.name, offered.version, "0" * 64), home)
    assert "nvidia-practice 1.0 could not be downloaded" in str(caught.value)
    assert "fleet.up" in str(caught.value)
    assert leftovers(home) == []


def test_a_cut_download_leaves_nothing_half_done(tmp_path, monkeypatch):
    """Interrupted while pip writes, the cache holds what was whole before and no part of the other."""
    home = State(tmp_path / "home")
    home.wheels.mkdir(parents=True)
    (home.wheels / "nvidia-practice-1.0.whl").write_bytes(b"PK whole")

    def cut(argv, *_args, **_named):
        folder = next(word for word in argv if word.startswith("--dest=")).removeprefix("--dest=")
        (Path(folder) / "half.whl").write_bytes(b"PK")
        raise Stopped

    monkeypatch.setattr(wheels, "stream", cut)
    with pytest.raises(Stopped):
        fetch(wheels.Pin("nvidia-other", "1.0", "0" * 64), home)
    assert leftovers(home) == ["nvidia-practice-1.0.whl"]


def test_without_pip(tmp_path, offered, monkeypatch):
    """An interpreter without pip is told how to get it."""
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(HostUnfitError, match="no pip") as caught:
        fetch(offered, State(tmp_path / "home"))
    assert "ensurepip" in str(caught.value)
