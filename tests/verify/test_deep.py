"""Files inside an image, hashed on the host: the script run for real with a small stand-in for the engine's CLI.

The engine itself is asked in tests/fleet; here every way the answer can be wrong is tried quickly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.matrix.model import Host
from sistership.verify.deep import differing_file

DOCKER = """#!/bin/sh
case "$1" in
create) echo warning >&2; echo 0123456789ab ;;
cp) tar -C "{root}" -cf - "${{2#*:/}}" ;;
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
    yield Peer(Host("here", local=True), transport, str(docker))
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
