"""What every way to bring an image to hosts works with: where it begins, what it took, how programs are run."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ship_hosts import cpu_seconds, received
from ship_registry import Registry

from sistership.image.layout import Store
from sistership.image.release import Release

#: Where the image is, as people have it: in the engine that built it.
BUILDER = "builder"


@dataclass(frozen=True)
class Setup:
    """What is shipped and from where.

    Attributes:
        releases: by name, see `ship_images`.
        ssh_config: reaches the practice hosts from this machine.
        registry: on the builder; None where no way needs one.
    """

    store: Store
    releases: Mapping[str, Release]
    ssh_config: Path
    registry: Registry | None = None


@dataclass(frozen=True)
class Sample:
    """What one way took, once.

    Attributes:
        seconds: until every host has the image; ours has verified it as well.
        received: bytes that arrived at the network devices of the hosts, and of the registry's.
        cpu: processor seconds where it is sent from: of our process and its ssh, or of the whole builder.
        cpu_hosts: processor seconds of the hosts.
        peak: bytes of memory of our process at most, or of a pipeline's programs together, without its engine.
        staged: bytes in a host's staging folder at most, where that was watched.
        course: what ours did when: start, end (seconds), host, what.
    """

    seconds: float
    received: int
    cpu: float = 0.0
    cpu_hosts: float = 0.0
    peak: int = 0
    staged: int | None = None
    course: tuple[tuple[float, float, str, str], ...] = ()


@contextmanager
def counted(hosts: Sequence[str], beside: Sequence[str] = ()) -> Iterator[Callable[[Sample], Sample]]:
    """What arrives and is used on hosts while a way is at work: the block's function adds it to a sample.

    Args:
        beside: further hosts whose bytes count.
    """
    devices = [*hosts, *(each for each in beside if each not in hosts)]
    before, used = received(devices), cpu_seconds(hosts)

    def add(sample: Sample) -> Sample:
        return replace(sample, received=received(devices) - before, cpu_hosts=cpu_seconds(hosts) - used)

    yield add


def registry_of(setup: Setup) -> Registry:
    """The registry, for a way that needs one."""
    if setup.registry is None:
        raise SystemExit("this way needs the registry")
    return setup.registry


def ssh(setup: Setup, script: str, host: str = BUILDER) -> list[str]:
    """The argv that runs a script on a practice host."""
    return ["ssh", "-F", str(setup.ssh_config), "-o", "BatchMode=yes", host, script]


@contextmanager
def running(
    argv: Sequence[str], end: signal.Signals | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is told to end when the block fails, by a signal or by the end of its input, and waited for."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environ,
    )
    try:
        yield process
    finally:
        if process.poll() is None and end is not None:
            process.send_signal(end)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()
