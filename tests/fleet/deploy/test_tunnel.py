"""Tunnels between two real hosts: opened, told apart, closed, and broken in every way that people meet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sistership.deploy.tunnel import State, Tunnel, close_tunnel, open_tunnel, state
from sistership.errors import HostUnfitError, HostUnreachableError
from sistership.host.inventory import Peer, connected
from sistership.matrix.model import Host

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

SERVER, WORKER = "containerd26", "classic20"
LOCAL, REMOTE = 50253, 50254
KEY, KEYS = "/root/.ssh/practice-tunnel", "/etc/practice/authorized_keys"
TUNNEL = Tunnel("main.worker", "practice-worker", LOCAL, REMOTE)


@pytest.fixture(scope="module")
def server(fleet: Fleet) -> Iterator[Peer]:
    """The server's host, whose ssh gets to the worker's host by a key of its own."""
    address = fleet.states[WORKER].address
    fleet.ssh(
        SERVER,
        f"mkdir -p /root/.ssh; rm -f {KEY} {KEY}.pub; ssh-keygen -q -t ed25519 -N '' -C {TUNNEL.destination} -f {KEY}",
    )
    key = fleet.ssh(SERVER, f"cat {KEY}.pub").strip()
    fleet.ssh(WORKER, f"echo '{key}' >> {KEYS}")
    fleet.ssh(SERVER, f"ssh-keyscan -t ed25519 {address} > /root/.ssh/known_hosts 2>/dev/null")
    config = f"Host practice-worker\\n  HostName {address}\\n  IdentityFile {KEY}\\n"
    fleet.ssh(SERVER, f"printf '{config}' > /root/.ssh/config")
    with connected([Host(SERVER, ssh=SERVER, ssh_config=fleet.files.ssh_config)]) as (peer,):
        yield peer
        close_tunnel(peer, TUNNEL)
    fleet.ssh(SERVER, f"rm -f /root/.ssh/config /root/.ssh/known_hosts {KEY} {KEY}.pub")
    fleet.ssh(WORKER, f"sed -i '/ {TUNNEL.destination}$/d' {KEYS}")


@pytest.fixture
def closed(server: Peer) -> Iterator[Peer]:
    """The server's host with no tunnel, before and after."""
    close_tunnel(server, TUNNEL)
    assert state(server, TUNNEL) is State.DOWN
    yield server
    close_tunnel(server, TUNNEL)
    assert state(server, TUNNEL) is State.DOWN


def until(peer: Peer, wanted: State) -> None:
    """Ask until it is so, 60 seconds at most."""
    end = time.monotonic() + 60
    while (found := state(peer, TUNNEL)) is not wanted:
        assert time.monotonic() < end, found


def test_leads_to_the_worker_and_leaves_nothing(fleet: Fleet, closed: Peer) -> None:
    """Opened once however often it is asked for; bytes go through; closed without a socket, a file, a process."""
    open_tunnel(closed, TUNNEL)
    first = fleet.ssh(SERVER, "pgrep -f [p]ractice-worker")
    open_tunnel(closed, TUNNEL)
    assert state(closed, TUNNEL) is State.UP
    assert fleet.ssh(SERVER, "pgrep -f [p]ractice-worker") == first
    with closed.transport.dial(LOCAL) as line:  # nobody listens at its end: ssh accepted all the same
        line.settimeout(10)
        assert line.recv(10) == b""
    fleet.ssh(WORKER, f"nohup perl -MIO::Socket::INET -e '{_perl()}' >/dev/null 2>&1 & echo $! > /run/practice-echo")
    try:
        end = time.monotonic() + 20
        while (said := _read(closed)) != b"worker":
            assert time.monotonic() < end, said
    finally:
        fleet.ssh(WORKER, "kill $(cat /run/practice-echo); rm /run/practice-echo")
    close_tunnel(closed, TUNNEL)
    gone = "ls ~/.cache/sistership | grep -c tunnels; pgrep -f [p]ractice-worker || true"
    end = time.monotonic() + 20
    while (left := fleet.ssh(SERVER, gone).split()) != ["0"]:
        assert time.monotonic() < end, left


def _perl() -> str:
    return (
        f'$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => {REMOTE}, Listen => 5, ReuseAddr => 1); '
        'while ($c = $s->accept) { print $c "worker"; close $c }'
    )


def _read(peer: Peer) -> bytes:
    with peer.transport.dial(LOCAL) as line:
        line.settimeout(10)
        return line.recv(10)


def test_dead_one_is_made_anew(fleet: Fleet, closed: Peer) -> None:
    """Its ssh was killed: the socket alone is left, which is told, and opening makes it whole."""
    open_tunnel(closed, TUNNEL)
    fleet.ssh(SERVER, "pkill -9 -f [p]ractice-worker")
    until(closed, State.STALE)
    open_tunnel(closed, TUNNEL)
    assert state(closed, TUNNEL) is State.UP


def test_foreign_one_is_neither_taken_nor_closed(fleet: Fleet, closed: Peer) -> None:
    """A tunnel that somebody opened by hand on the same port."""
    by_hand = f"ssh -f -N -L 127.0.0.1:{LOCAL}:127.0.0.1:{REMOTE} practice-worker </dev/null >/dev/null 2>&1"
    fleet.ssh(SERVER, by_hand)
    try:
        assert state(closed, TUNNEL) is State.FOREIGN
        with pytest.raises(HostUnfitError, match=f"port {LOCAL} of its loopback is held by something else"):
            open_tunnel(closed, TUNNEL)
        close_tunnel(closed, TUNNEL)
        assert state(closed, TUNNEL) is State.FOREIGN
    finally:
        fleet.ssh(SERVER, "pkill -f [p]ractice-worker")
    until(closed, State.DOWN)


def test_worker_s_host_that_cannot_be_reached(closed: Peer) -> None:
    """A name nobody knows, a key nobody takes: told with what has to work by hand."""
    for destination in ("nohost.invalid", "nobody@practice-worker"):
        with pytest.raises(HostUnreachableError) as caught:
            open_tunnel(closed, Tunnel(TUNNEL.name, destination, LOCAL, REMOTE))
        assert f"`ssh {destination} true` has to work" in str(caught.value.hint)
        assert caught.value.why
