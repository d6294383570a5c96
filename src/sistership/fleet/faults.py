"""Faults to practise with: each is a context manager that mends what it broke, whatever happens inside.

They reach a host through its container, never through the network, so they work while the host cannot be reached.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sistership.errors import HostUnfitError
from sistership.fleet import containers, lifecycle
from sistership.fleet.process import tail
from sistership.fleet.spec import HOSTS, LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


#: Seconds that something done inside a host may take when the caller names no limit.
PATIENCE = 60
#: Empty on a practice host, and looked into before the folder with the real programs.
_OWN = "/usr/local/bin"
_DROP = (("INPUT", "-i"), ("OUTPUT", "-o"))


def run(host: str, argv: Sequence[str], *, seconds: int = PATIENCE) -> str:
    """Run `argv` as root on practice host `host`; returns its standard output.

    Raises:
        HostUnfitError: the host is missing or off, or the command failed or took longer than `seconds`.
    """
    container = lifecycle.container_of(host)
    if container.status != "running":
        raise HostUnfitError(f"practice host is {container.status}", where=host, hint="fleet.up")
    done = containers.run(container, argv, seconds)
    if done.code != 0:
        raise HostUnfitError(f"{argv[0]} ended with {done.code}", where=host, why=tail(done.errors or done.out))
    return done.out


def _until(what: str, host: str, seconds: float, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise HostUnfitError(f"{what} did not happen within {seconds:.0f} s", where=host)
        time.sleep(0.2)


def _succeeds(host: str, *argv: str) -> bool:
    try:
        run(host, argv, seconds=5)
    except HostUnfitError:
        return False
    return True


@contextmanager
def cut(host: str) -> Iterator[None]:
    """No packet gets in or out, as with a pulled cable; connections that were open hang until it is back."""
    for chain, way in _DROP:
        run(host, ["iptables", "-w", "-I", chain, way, "eth0", "-j", "DROP"])
    try:
        yield
    finally:
        for chain, way in _DROP:
            run(host, ["iptables", "-w", "-D", chain, way, "eth0", "-j", "DROP"])


@contextmanager
def powered_off(host: str, project: Path) -> Iterator[None]:
    """The host is off; afterwards it boots, may have another address, and `project`'s ssh files know it.

    Off means now, as when the power fails: nothing in it gets to finish.
    """
    container = lifecycle.container_of(host)
    container.kill()
    container.wait(timeout=PATIENCE)
    try:
        yield
    finally:
        power_on(host, project)


def power_on(host: str, project: Path) -> None:
    """Boot a host that is off, wait until it works, and rewrite `project`'s ssh files."""
    lifecycle.up(project, hosts=[host])


@contextmanager
def without_engine(host: str) -> Iterator[None]:
    """Dockerd is killed and stays dead, while sshd answers."""
    run(host, ["sh", "-c", "kill -KILL $(cat /run/docker.pid)"])
    try:
        yield
    finally:
        _start(host, "practice-engine")
        _until("starting the engine", host, PATIENCE, lambda: _succeeds(host, "docker", "info"))


@contextmanager
def without_sshd(host: str) -> Iterator[None]:
    """Sshd and its open sessions are killed: connections are refused, while the engine runs on."""
    run(host, ["sh", "-c", _kill_by_name("sshd")])
    try:
        yield
    finally:
        _start(host, "practice-sshd")
        _until("starting sshd", host, PATIENCE, lambda: _succeeds(host, "bash", "-c", ": </dev/tcp/127.0.0.1/22"))


def _kill_by_name(prefix: str) -> str:
    """Shell text that kills the processes whose name starts with `prefix` (minimal hosts have no pkill)."""
    return (
        f'for p in /proc/[0-9]*; do case "$(cat $p/comm 2>/dev/null)" in {prefix}*) '
        'kill -KILL "${p#/proc/}" 2>/dev/null;; esac; done; true'
    )


def _start(host: str, script: str) -> None:
    lifecycle.container_of(host).exec_run([f"/usr/local/sbin/{script}"], detach=True)


@contextmanager
def small_disk(host: str, folder: str, size: int) -> Iterator[None]:
    """`folder` (absolute, made if missing) is a file system of `size` bytes of its own, empty at first."""
    run(host, ["mkdir", "-p", folder])
    run(host, ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "practice-disk", folder])
    try:
        yield
    finally:
        run(host, ["umount", "-l", folder])


def stand_in(host: str, program: str, script: str) -> None:
    """From now on `program` (a plain name) is this script on the host, for whoever finds it by PATH; see `honest`."""
    put = 'printf %s "$2" > "$1.new" && chmod 755 "$1.new" && mv "$1.new" "$1"'
    run(host, ["sh", "-c", put, "stand-in", f"{_OWN}/{program}", script])


def honest(host: str) -> None:
    """No program on the host has a stand-in any more."""
    run(host, ["sh", "-c", f"rm -f {_OWN}/*"])


@contextmanager
def shaped(host: str, rate: str) -> Iterator[None]:
    """What the host receives is limited to `rate`, in the words of tc(8): ``1gbit``, ``100mbit``.

    A token bucket slows what leaves a device, so it sits on the outer end of the host's cable.
    """
    index = run(host, ["cat", "/sys/class/net/eth0/iflink"]).strip()
    device = f"dev=$(ip -o link | sed -n 's/^{index}: \\([^@:]*\\).*/\\1/p') && test -n \"$dev\""
    _on_machine(host, f'{device} && tc qdisc replace dev "$dev" root tbf rate {rate} burst 256kb latency 50ms')
    try:
        yield
    finally:
        _on_machine(host, f'{device} && tc qdisc del dev "$dev" root')


def _on_machine(host: str, script: str) -> None:
    """Run a shell script in the machine's own network, from a container: needs neither root nor tc on the machine."""
    containers.connect().containers.run(
        HOSTS[host].root.image,
        ["sh", "-c", script],
        network_mode="host",
        cap_add=["NET_ADMIN"],
        labels=dict(LABELS),
        remove=True,
    )
