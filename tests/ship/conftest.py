"""This machine as a host: its staging folder, and an engine whose CLI is a script of the test's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.matrix.model import Host


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's staging folder, in a place of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "sistership" / "stage"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """This machine, whose engine is the script `docker` below tmp_path."""
    transport = Local("here")
    yield Peer(Host("here", local=True, docker_host="unix:///nowhere"), transport, Docker(str(tmp_path / "docker")))
    transport.close()
