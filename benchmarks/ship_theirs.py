"""The ways of others: pipelines that people write by hand, and skopeo with a registry."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack

from ship_hosts import AWAY, PATIENCE, cpu_seconds
from ship_images import REPOSITORY, layout_name
from ship_ours import on_builder
from ship_registry import Registry
from ship_setup import BUILDER, Sample, Setup, counted, registry_of, running, ssh

from sistership.fleet import faults
from sistership.image.release import Release, short


def pipeline(name: str, host: str, *, packed: bool) -> str:
    """The pipeline that people write by hand, as they would type it on the builder."""
    away = f"ssh -F {AWAY}/ssh_config -o BatchMode=yes {host}"
    if packed:
        return f"docker save {name} | zstd -3 -T0 | {away} 'zstd -d | docker load >/dev/null'"
    return f"docker save {name} | {away} 'docker load >/dev/null'"


#: Tells how much memory a session's programs had together at most: what each that runs has had at most is added up
#: twice a second, without starting a program for it.
_PEAKS = r"""
peaks() {
  local most=0 sum line status process name kb; exec 4<> <(:)
  while kill -0 "$1" 2>/dev/null; do
    sum=0
    for status in /proc/[0-9]*/status; do
      process=${status#/proc/}; process=${process%/status}
      read -r line < "/proc/$process/stat" || continue
      set -- "$1" ${line##*) }
      [ "$5" = "$1" ] || continue
      while read -r name kb _; do [ "$name" != VmHWM: ] || sum=$((sum + kb)); done < "$status"
    done 2>/dev/null
    [ "$sum" -le "$most" ] || most=$sum
    read -r -t 0.5 -u 4
  done
  echo "peak $most"
}
"""


def theirs(setup: Setup, wanted: str, hosts: Sequence[str], *, packed: bool = True, at_once: bool = False) -> Sample:
    """Send a release by pipelines on the builder, which holds it.

    Only the pipelines are timed, on the builder: the way there is no part of what people do.

    Args:
        packed: with zstd in between.
        at_once: all hosts at the same time; else one after the other.

    Raises:
        SystemExit: a pipeline failed, or a host does not hold the image afterwards.
    """
    on_builder(setup, wanted)
    _give_ssh(setup)
    release = setup.releases[wanted]
    words = [f"{{ {pipeline(release.unique, host, packed=packed)}; }}" for host in hosts]
    body = "\n".join(f"{each} & all+=($!)" for each in words) if at_once else "\n".join(words)
    waits = 'for each in "${all[@]}"; do wait "$each"; done' if at_once else ""
    script = f"set -e -o pipefail; LC_ALL=C; all=(); began=$EPOCHREALTIME\n{body}\n{waits}\necho $began $EPOCHREALTIME"
    # What runs there ends when this end goes away: a broken connection alone would leave it at work.
    guarded = f"""{_PEAKS}
exec 3<&0
setsid bash -c {shlex.quote(script)} </dev/null & work=$!
(cat; kill -- -$work) <&3 >/dev/null 2>&1 & guard=$!
peaks $work & watch=$!
wait $work; status=$?
wait $watch
kill $guard; exit $status
"""
    used = cpu_seconds([BUILDER])
    with counted(hosts) as add:
        with running(ssh(setup, f"exec bash -c {shlex.quote(guarded)}")) as process:
            assert process.stdout is not None  # noqa: S101  a pipe was asked for
            told = process.stdout.read().decode(errors="replace")
            status = process.wait()
        if status != 0:
            raise SystemExit(f"the pipeline ended with {status}: {told}")
        *_, times, peak = told.splitlines()
        began, ended = map(float, times.split())
        sample = add(Sample(ended - began, 0, cpu_seconds([BUILDER]) - used, peak=int(peak.split()[1]) << 10))
    for host in hosts:
        faults.run(host, ["docker", "image", "inspect", "--format", "{{.Id}}", release.unique])
    return sample


def by_skopeo(setup: Setup, wanted: str, hosts: Sequence[str]) -> Sample:
    """Push the packed image by skopeo from this machine, then have every host pull it, all at once.

    Raises:
        SystemExit: skopeo or a pull failed.
    """
    registry = registry_of(setup)
    with counted(hosts, (registry.builder,)) as add:
        began = time.monotonic()
        cpu, peak = pushed(setup, registry, setup.releases[wanted])
        pulled(setup, registry, setup.releases[wanted], hosts)
        return add(Sample(time.monotonic() - began, 0, cpu, peak=peak))


def pushed(setup: Setup, registry: Registry, release: Release) -> tuple[float, int]:
    """Have skopeo push a release. Returns its processor seconds and its bytes of memory at most."""
    source = f"oci:{setup.store.root}:{layout_name(release.key)}"
    target = f"docker://{registry.host}/{REPOSITORY}:{short(release.image.config)}"
    argv = ["skopeo", "copy", "--quiet", "--dest-cert-dir", str(registry.certificate), source, target]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=told, stderr=told)
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            told.seek(0)
            raise SystemExit(f"skopeo ended with {process.returncode}: {told.read().decode(errors='replace')}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def pulled(setup: Setup, registry: Registry, release: Release, hosts: Sequence[str]) -> None:
    """Have hosts pull a release, all at once, and give it our own name."""
    source = f"{registry.host}/{REPOSITORY}:{short(release.image.config)}"
    script = f"docker pull -q {source} && docker tag {source} {release.unique}"
    with ExitStack() as stack:
        pulls = [stack.enter_context(running(ssh(setup, script, host))) for host in hosts]
        for pull in pulls:
            told = pull.communicate()[0]
            if pull.returncode != 0:
                raise SystemExit(f"the pull ended with {pull.returncode}: {told.decode(errors='replace')}")


def _give_ssh(setup: Setup) -> None:
    """Copy the practice fleet's own ssh files to the builder."""
    folder, out = setup.ssh_config.parent, io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("ssh_config", "key", "known_hosts"):
            data = (folder / name).read_bytes().replace(str(folder).encode(), f"/root/{AWAY}".encode())
            header = tarfile.TarInfo(name)
            header.size, header.mode = len(data), 0o600
            tar.addfile(header, io.BytesIO(data))
    command = ssh(setup, f"mkdir -p -m 700 {AWAY} && tar x -C {AWAY}")
    subprocess.run(command, input=out.getvalue(), check=True, timeout=PATIENCE)
