"""Files inside an image, hashed on the host: the script run for real with a small stand-in for the engine's CLI.

The engine itself is asked in tests/fleet; here every way the answer can be wrong is tried quickly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.matrix.model import Host
from sistership.verify.deep import differing_file

DOCKER = """#!/bin/sh
case "$1" in
create) echo warning >&2; echo 0123456789ab ;;
cp) echo "$2" >> "{root}/copied"; tar -C "{root}" -cf - "${{2#*:/}}" ;;
inspect) cat "{root}/folders" 2>/dev/null ;;
rm) touch "{root}/removed" ;;
esac
"""


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """This machine with an engine that holds the files of a folder."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "a b").write_bytes(b"one")
    (tmp_path / "app" / "empty").write_bytes(b"")
    docker = tmp_path / "docker"
    docker.write_text(DOCKER.format(root=tmp_path))
    docker.chmod(0o755)
    transport = Local("here")
    yield Peer(Host("here", local=True), transport, Docker(str(docker)))
    transport.close()


def sha(data: bytes) -> str:
    """sha256 as hex."""
    return hashlib.sha256(data).hexdigest()


def test_equal_files_are_equal(peer: Peer, tmp_path: Path) -> None:
    """Names with spaces and empty files count too, and the container is removed."""
    expected = {"/app/a b": sha(b"one"), "/app/empty": sha(b"")}
    assert differing_file(peer, "sha256:x", expected) is None
    assert (tmp_path / "removed").exists()


def test_each_kind_of_difference_is_named(peer: Peer, tmp_path: Path) -> None:
    """Changed, missing and cut files are named; a container that cannot be made fails on the first."""
    assert differing_file(peer, "sha256:x", {"/app/a b": sha(b"two"), "/app/empty": sha(b"")}) == "/app/a b"
    assert differing_file(peer, "sha256:x", {"/app/a b": sha(b"one"), "/app/none": sha(b"x")}) == "/app/none"
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    assert differing_file(peer, "sha256:x", {"/app/a b": sha(b"one")}) == "/app/a b"


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    """The engine's own folders of an image, topmost first: a container's own, a layer above, and the one with files."""
    folders = [tmp_path / "layers" / name for name in ("init", "above", "files")]
    (folders[0] / "etc").mkdir(parents=True)
    (folders[1] / "app" / "bin").mkdir(parents=True)
    (folders[2] / "app").mkdir(parents=True)
    for name in ("a b", "empty"):
        (folders[2] / "app" / name).write_bytes((tmp_path / "app" / name).read_bytes())
    (tmp_path / "folders").write_text(":".join(map(str, folders)) + "\n")
    return folders


def same(peer: Peer) -> bool:
    """Whether the files are those of the image."""
    return differing_file(peer, "sha256:x", {"/app/a b": sha(b"one"), "/app/empty": sha(b"")}) is None


def test_files_are_read_in_the_engine_s_own_folder(peer: Peer, tmp_path: Path, layers: list[Path]) -> None:
    """A folder above that has none of the file's directory hides nothing; what is damaged there is found."""
    (layers[1] / "app").rename(layers[1] / "opt")
    assert same(peer)
    assert not (tmp_path / "copied").exists()
    (layers[2] / "app" / "a b").write_bytes(b"two")
    assert not same(peer)


def _another_above(layers: list[Path]) -> None:
    (layers[1] / "app" / "a b").write_bytes(b"one")
    (layers[2] / "app" / "a b").write_bytes(b"two")


def _hidden_above(layers: list[Path]) -> None:
    (layers[1] / "app" / "bin").rmdir()
    (layers[1] / "app").rmdir()
    (layers[1] / "app").write_bytes(b"")


def _by_a_link(layers: list[Path]) -> None:
    (layers[2] / "app").rename(layers[2] / "other")
    (layers[2] / "app").symlink_to(layers[2] / "other")


def _itself_a_link(layers: list[Path]) -> None:
    (layers[2] / "app" / "a b").rename(layers[2] / "a b")
    (layers[2] / "app" / "a b").symlink_to(layers[2] / "a b")


@pytest.mark.parametrize("change", [lambda _: None, _hidden_above, _by_a_link, _itself_a_link])
def test_what_is_not_certain_is_asked_of_the_engine(
    peer: Peer, tmp_path: Path, layers: list[Path], change: Callable[[list[Path]], None]
) -> None:
    """Its directory in a folder above too, a file in the directory's place, a symbolic link: the engine knows."""
    change(layers)
    assert same(peer)
    assert "/app/a b" in (tmp_path / "copied").read_text()


def test_the_topmost_file_counts(peer: Peer, tmp_path: Path, layers: list[Path]) -> None:
    """As the engine shows it: the file of the layer above, not the one below."""
    _another_above(layers)
    assert differing_file(peer, "sha256:x", {"/app/a b": sha(b"one")}) is None
    assert differing_file(peer, "sha256:x", {"/app/a b": sha(b"two")}) == "/app/a b"
    assert not (tmp_path / "copied").exists()


def test_many_files_are_each_hashed_once(peer: Peer, tmp_path: Path) -> None:
    """More than are hashed at a time; each answer belongs to its own file."""
    files = {f"/app/{number}": bytes([number]) * 9 for number in range(23)}
    for path, data in files.items():
        (tmp_path / path[1:]).write_bytes(data)
    expected = {path: sha(data) for path, data in files.items()}
    assert differing_file(peer, "sha256:x", expected) is None
    assert len((tmp_path / "copied").read_text().splitlines()) == len(files)
    (tmp_path / "app" / "17").write_bytes(b"other")
    assert differing_file(peer, "sha256:x", expected) == "/app/17"
