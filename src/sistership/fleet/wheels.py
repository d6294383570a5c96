"""CUDA's compiler and runtime out of Python packages: downloaded once, laid out as in NVIDIA's images.

The files are NVIDIA's own. Only these packages offer a compiler where NVIDIA's registry cannot be reached,
and only since CUDA 13.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from sistership.errors import HostUnfitError
from sistership.fleet.process import Sink, stream, tail
from sistership.fleet.spec import EPOCH, Cuda, digest_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping, Sequence

    from sistership.fleet.paths import State
    from sistership.fleet.process import Reporter

PINS: Final = Path(__file__).with_name("cuda-wheels.txt")
#: A package is at most 65 MB; a slow line gets this long (seconds).
PATIENCE: Final = 1200.0

_HOME: Final = "usr/local/cuda-13.2"
_TARGET: Final = "targets/x86_64-linux"
_INSIDE: Final = "nvidia/cu13/"
#: Folders of the packages → folders of NVIDIA's layout.
_FOLDERS: Final = {"bin": "bin", "nvvm": "nvvm", "include": f"{_TARGET}/include", "lib": f"{_TARGET}/lib"}
#: `lib` is what the packages' own nvcc.profile names; `lib64` and `include` are what everybody else does.
_LINKS: Final = {
    "usr/local/cuda": "cuda-13.2",
    f"{_HOME}/include": f"{_TARGET}/include",
    f"{_HOME}/lib": f"{_TARGET}/lib",
    f"{_HOME}/lib64": f"{_TARGET}/lib",
    f"{_HOME}/{_TARGET}/lib/libcudart.so": "libcudart.so.13",
}
_RUNTIME: Final = "libcudart.so.13"
#: A library for programs that compile while they run; 65 MB that nvcc does not use.
_UNUSED: Final = re.compile(r"lib/libnvvm\.so.*|include/nvvm\.h")
_LICENCE: Final = re.compile(r"[^/]+\.dist-info/licenses/License\.txt")
_PIN: Final = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9.]+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package: exact version, and the sha256 (64 hex digits) of its wheel."""

    name: str
    version: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True)
class Entry:
    """A file of the layer (`data`) or a symlink (`target`)."""

    data: bytes = b""
    executable: bool = False
    target: str = ""


def parse(text: str) -> tuple[Pin, ...]:
    """The pins of a requirements file.

    Raises:
        ValueError: a line is no exact version with one sha256.
    """
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    found = [_PIN.fullmatch(line) for line in lines]
    if None in found:
        raise ValueError(f"not NAME==VERSION --hash=sha256:…: {lines[found.index(None)]}")
    return tuple(Pin(**match.groupdict()) for match in found if match)


@cache
def pins() -> tuple[Pin, ...]:
    """The packages that the CUDA bases are made of."""
    return parse(PINS.read_text())


def key(part: Cuda) -> str:
    """Sixty-four hex digits that change with the pins and with the way they are laid out."""
    return digest_of({"v": 1, "epoch": EPOCH, "part": part, "pins": list(map(str, pins())), "links": _LINKS})


def needed(part: Cuda) -> tuple[Pin, ...]:
    """The packages of one part."""
    return pins() if part == "toolkit" else tuple(pin for pin in pins() if pin.name == "nvidia-cuda-runtime")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def argv(requirements: Path, folder: Path) -> list[str]:
    """The pip call that puts the wheels of `requirements` into `folder`."""
    exact = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"]
    return [sys.executable, "-m", "pip", "download", *exact, f"--dest={folder}", f"--requirement={requirements}"]


def fetch(pin: Pin, state: State, stop: threading.Event, report: Reporter) -> Path:
    """The package's wheel in the cache; downloaded when it is missing or damaged. Only whole files get its name.

    Raises:
        HostUnfitError: this interpreter has no pip, or pip could not download it.
        Stopped: `stop` was set.
    """
    path = state.wheels / f"{pin.name}-{pin.version}.whl"
    if path.is_file() and _sha256(path) == pin.sha256:
        return path
    if importlib.util.find_spec("pip") is None:
        hint = f"{sys.executable} -m ensurepip, then fleet.up again"
        raise HostUnfitError("this interpreter has no pip", where=sys.executable, hint=hint)
    report(f"{pin.name} {pin.version}: downloading (once)")
    state.wheels.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download.", dir=state.wheels) as name:
        folder, log = Path(name), state.logs / f"{pin.name}.log"
        requirements = folder / "requirements.txt"
        requirements.write_text(f"{pin}\n")
        command = argv(requirements, folder)
        code = stream(command, io.BytesIO(), log=log, seconds=PATIENCE, stop=stop, env=dict(os.environ))
        wheels = list(folder.glob("*.whl"))
        if code != 0 or len(wheels) != 1:
            raise HostUnfitError(
                f"{pin.name} {pin.version} could not be downloaded",
                where="practice fleet",
                why=tail(log.read_text(errors="replace"), 2),
                hint="check the connection and pip's settings (index, proxy, find-links), then fleet.up again",
            )
        wheels[0].replace(path)
    return path


def place(member: str, part: Cuda) -> str | None:
    """Where a wheel's file goes in the image (without a leading slash), None where it is left out."""
    if _LICENCE.fullmatch(member):
        return f"{_HOME}/EULA.txt"  # the same in every package
    inside = member.removeprefix(_INSIDE)
    folder, _, rest = inside.partition("/")
    if inside == member or folder not in _FOLDERS or _UNUSED.fullmatch(inside):
        return None
    if part == "runtime" and inside != f"lib/{_RUNTIME}":
        return None
    return f"{_HOME}/{_FOLDERS[folder]}/{rest}"


def tree(wheels: Iterable[Path], part: Cuda) -> dict[str, Entry]:
    """Path → entry of everything in the layer but its folders.

    Raises:
        HostUnfitError: two packages have different files of one name.
    """
    found: dict[str, Entry] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                path = None if info.is_dir() else place(info.filename, part)
                if path is None:
                    continue
                # The packages' modes have the owner's bits alone to go by (0744).
                entry = Entry(archive.read(info), executable=bool(info.external_attr >> 16 & 0o100))
                if found.setdefault(path, entry) != entry:
                    raise HostUnfitError(f"two packages have different files {path}", where=wheel.name)
    folders = {str(folder) for path in found for folder in PurePosixPath(path).parents}
    for path, target in _LINKS.items():
        resolved = str(PurePosixPath(path).parent / target)
        if (resolved in found and part == "toolkit") or resolved in folders:
            found[path] = Entry(target=target)
    return found


def write_layer(entries: Mapping[str, Entry], sink: Sink) -> None:
    """Write the entries and their folders as a tar: sorted, root's, of one time.

    Folders that Debian has already (usr, usr/local) are written as Debian has them: engines that unpack a layer
    alone would otherwise make them up.
    """
    folders = {str(folder) for path in entries for folder in PurePosixPath(path).parents} - {"."}
    with tarfile.open(fileobj=_Writer(sink), mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as tar:
        for path in sorted({*folders, *entries}):
            header = tarfile.TarInfo(path)
            header.mtime, header.mode, header.type = EPOCH, 0o755, tarfile.DIRTYPE
            if entry := entries.get(path):
                header.type = tarfile.SYMTYPE if entry.target else tarfile.REGTYPE
                header.mode = 0o777 if entry.target else 0o755 if entry.executable else 0o644
                header.linkname, header.size = entry.target, len(entry.data)
                tar.addfile(header, io.BytesIO(entry.data))
            else:
                tar.addfile(header)


class _Writer(io.RawIOBase):
    """A sink as the file that tarfile wants."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # tarfile gives bytes
        self._sink.write(data)
        return len(data)


def layer(part: Cuda, sink: Sink, state: State, stop: threading.Event, report: Reporter) -> None:
    """Write the tar of `part` into `sink`.

    Raises:
        HostUnfitError: a package is not in the cache and cannot be downloaded.
        Stopped: `stop` was set.
    """
    wheels: Sequence[Path] = [fetch(pin, state, stop, report) for pin in needed(part)]
    write_layer(tree(wheels, part), sink)
