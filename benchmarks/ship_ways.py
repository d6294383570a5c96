"""The ways to bring an image to hosts: by this program, and by the pipelines that people write by hand."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ship_images import NAME

from sistership.fleet import faults
from sistership.image.layout import Store
from sistership.image.release import OWN_REGISTRY, Release

#: Where the image is, as people have it: in the engine that built it.
BUILDER = "builder"
_AWAY = f".{NAME}"  # folder on the builder, in root's home
_PATIENCE = 120
ONCE = Path(__file__).with_name("ship_once.py")

#: A load goes on for a moment after its connection was cut, and may name an image then.
_NO_LOAD = r"""
loading() {
  for each in /proc/[0-9]*/cmdline; do
    case "$(tr '\0' ' ' < "$each" 2>/dev/null)" in 'docker load'*) return 0 ;; esac
  done
  return 1
}
while loading; do sleep 0.2; done
"""
_LISTED = rf"docker images --format '{{{{.Repository}}}}:{{{{.Tag}}}}' | grep -E '^({OWN_REGISTRY}/)?{NAME}:'"


@dataclass(frozen=True)
class Setup:
    """What is shipped and from where.

    Attributes:
        releases: by name, see `ship_images.make`.
        ssh_config: reaches the practice hosts from this machine.
    """

    store: Store
    releases: Mapping[str, Release]
    ssh_config: Path


@dataclass(frozen=True)
class Sample:
    """What one way took, once.

    Attributes:
        seconds: until every host has the image; ours has verified it as well.
        received: bytes that arrived at the hosts' network devices.
        cpu: seconds of our process and of its ssh; None for a pipeline.
        peak: bytes of memory of our process; None for a pipeline.
    """

    seconds: float
    received: int
    cpu: float | None = None
    peak: int | None = None


def ours(setup: Setup, wanted: str, hosts: Sequence[str], *, minimize: bool = False) -> Sample:
    """Ship a release by this program, in a process of its own. A difference is made anew.

    Raises:
        SystemExit: a host does not verify.
    """
    shutil.rmtree(setup.store.root / "differences", ignore_errors=True)
    release = setup.releases[wanted]
    order = {
        "store": str(setup.store.root),
        "key": release.key,
        "reference": release.reference,
        "files": dict(release.files),
        "hosts": list(hosts),
        "ssh_config": str(setup.ssh_config),
        "minimize": minimize,
    }
    before, began = received(hosts), time.monotonic()
    with _running([sys.executable, str(ONCE)], signal.SIGINT) as process:
        told = process.communicate(json.dumps(order).encode())[0]
    after = received(hosts)
    if process.returncode != 0:
        raise SystemExit(f"the ship ended with {process.returncode}: {told.decode(errors='replace')}")
    found = json.loads(told.splitlines()[-1])
    if found["failed"]:
        raise SystemExit("\n".join(found["failed"]))
    return Sample(found["ended"] - began, after - before, found["cpu"], found["peak"])


def pipeline(name: str, host: str, *, packed: bool) -> str:
    """The pipeline that people write by hand, as they would type it on the builder."""
    ssh = f"ssh -F {_AWAY}/ssh_config -o BatchMode=yes {host}"
    if packed:
        return f"docker save {name} | zstd -3 -T0 | {ssh} 'zstd -d | docker load >/dev/null'"
    return f"docker save {name} | {ssh} 'docker load >/dev/null'"


def theirs(setup: Setup, wanted: str, hosts: Sequence[str], *, packed: bool = True, at_once: bool = False) -> Sample:
    """Send a release by pipelines on the builder, which holds it.

    Only the pipelines are timed, on the builder: the way there is no part of what people do.

    Args:
        packed: with zstd in between.
        at_once: all hosts at the same time; else one after the other.

    Raises:
        SystemExit: a pipeline failed, or a host does not hold the image afterwards.
    """
    release = setup.releases[wanted]
    words = [f"{{ {pipeline(release.unique, host, packed=packed)}; }}" for host in hosts]
    body = "\n".join(f"{each} & all+=($!)" for each in words) if at_once else "\n".join(words)
    waits = 'for each in "${all[@]}"; do wait "$each"; done' if at_once else ""
    script = f"set -e -o pipefail; LC_ALL=C; all=(); began=$EPOCHREALTIME\n{body}\n{waits}\necho $began $EPOCHREALTIME"
    before = received(hosts)
    # What runs there ends when this end goes away: a broken connection alone would leave it at work.
    guarded = f"""
exec 3<&0
setsid bash -c {shlex.quote(script)} </dev/null & work=$!
(cat; kill -- -$work) <&3 >/dev/null 2>&1 & guard=$!
wait $work; status=$?
kill $guard; exit $status
"""
    with _running(_ssh(setup, guarded)) as process:
        assert process.stdout is not None  # noqa: S101  a pipe was asked for
        told = process.stdout.read().decode(errors="replace")
        status = process.wait()
    after = received(hosts)
    if status != 0:
        raise SystemExit(f"the pipeline ended with {status}: {told}")
    for host in hosts:
        faults.run(host, ["docker", "image", "inspect", "--format", "{{.Id}}", release.unique])
    began, ended = map(float, told.splitlines()[-1].split())
    return Sample(ended - began, after - before)


def received(hosts: Sequence[str]) -> int:
    """Bytes that have arrived at the hosts since they were started."""
    device = "/sys/class/net/eth0/statistics/rx_bytes"
    return sum(int(faults.run(host, ["cat", device])) for host in hosts)


def forget(hosts: Sequence[str]) -> None:
    """Remove every image of the benchmark, and every file that it left."""
    files = f"/root/.cache/sistership/stage /root/{_AWAY}"
    script = f"{_NO_LOAD}\n{_LISTED} | xargs -r docker rmi -f >/dev/null; rm -rf {files}"
    for host in hosts:
        faults.run(host, ["sh", "-c", script], seconds=_PATIENCE)


def back(setup: Setup, hosts: Sequence[str]) -> None:
    """Have the first release on the hosts, under all its names, and no other."""
    first = setup.releases["first"]
    keep = f"^({first.unique}|{first.reference})$"
    lacking = []
    for host in hosts:
        held = f"docker image inspect {first.unique} >/dev/null 2>&1"
        names = f"docker tag {first.unique} {first.reference}; {_LISTED} | grep -vE '{keep}'"
        script = f"{_NO_LOAD}\n{held} || exit 0; {names} | xargs -r docker rmi -f >/dev/null; echo held"
        if faults.run(host, ["sh", "-c", script], seconds=_PATIENCE).strip() != "held":
            lacking.append(host)
    if lacking:
        forget(lacking)
        ours(setup, "first", lacking)


def to_builder(setup: Setup) -> None:
    """All releases into the builder's engine, and what its ssh needs to reach the hosts; `forget` removes both."""
    for name in setup.releases:
        ours(setup, name, [BUILDER])
    _give_ssh(setup)


def _give_ssh(setup: Setup) -> None:
    """Copy the practice fleet's own ssh files to the builder."""
    folder, out = setup.ssh_config.parent, io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("ssh_config", "key", "known_hosts"):
            data = (folder / name).read_bytes().replace(str(folder).encode(), f"/root/{_AWAY}".encode())
            header = tarfile.TarInfo(name)
            header.size, header.mode = len(data), 0o600
            tar.addfile(header, io.BytesIO(data))
    command = _ssh(setup, f"mkdir -p -m 700 {_AWAY} && tar x -C {_AWAY}")
    subprocess.run(command, input=out.getvalue(), check=True, timeout=_PATIENCE)


def _ssh(setup: Setup, script: str) -> list[str]:
    return ["ssh", "-F", str(setup.ssh_config), "-o", "BatchMode=yes", BUILDER, script]


@contextmanager
def _running(argv: Sequence[str], end: signal.Signals | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is told to end when the block fails, by a signal or by the end of its input, and waited for."""
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
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
