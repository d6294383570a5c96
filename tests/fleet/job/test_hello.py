"""A real worker on a real host, asked over both ways whether it is ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from sistership.deploy.hello import Answer, State, Version, ask
from sistership.host.inventory import connected
from sistership.host.lines import Line
from sistership.matrix.model import Host

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet
    from tests.fleet.job.conftest import Project

HOST, PORT = "containerd26", 50151
NAME = "practice-hello"


@pytest.fixture
def worker(fleet: Fleet, shipped: Project) -> Iterator[Host]:
    """The sample's worker, started a moment ago."""
    shipped.run("ship", "--variant", "sample", "--hosts", HOST)
    command = f"rpc-server -H 127.0.0.1 -p {PORT}"
    fleet.ssh(
        HOST, f"docker rm -f {NAME} >/dev/null 2>&1; docker run -d --name {NAME} --network host job-sample:v1 {command}"
    )
    yield Host(HOST, ssh=HOST, ssh_config=fleet.files.ssh_config)
    fleet.ssh(HOST, f"docker rm -f {NAME}")


def until(state: State, dial: partial[object], seconds: float = 1.0) -> Answer:
    """Ask until this is the answer, 30 seconds at most."""
    end = time.monotonic() + 30
    while (answer := ask(dial, seconds=seconds)).state is not state:
        assert time.monotonic() < end, answer
    return answer


@pytest.mark.parametrize("way", ["openssh", "paramiko"])
def test_worker_is_ready_busy_and_gone(fleet: Fleet, worker: Host, way: str) -> None:
    """Ready with the version of its protocol; silent while it serves another client; then nothing listens."""
    with connected([replace(worker, transport=way)]) as (peer,):
        dial = partial(peer.transport.dial, PORT)
        assert until(State.READY, dial).version == Version(4, 0, 0)
        with dial() as other:
            _said_hello(other)
            assert ask(dial, seconds=1).state is State.SILENT
        assert until(State.READY, dial).version is not None
        fleet.ssh(HOST, f"docker rm -f {NAME}")
        assert until(State.REFUSED, dial).version is None


def _said_hello(line: Line) -> None:
    """This client is being served."""
    line.settimeout(10)
    line.sendall(b"\x0e" + (24).to_bytes(8, "little") + bytes(24))
    assert line.recv(1)
