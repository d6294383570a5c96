"""What a practice host holds, and what arrives and is used there: read through its container, not over the network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ship_images import NAME, REPOSITORY

from sistership.fleet import faults, lifecycle
from sistership.image.release import OWN_REGISTRY, Release

#: Folder of the benchmark on the builder, in root's home.
AWAY = f".{NAME}"
PATIENCE = 120  # seconds
_STAGE = "/root/.cache/sistership/stage"
WATCH = f"/run/{NAME}.staged"

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
#: Names of the benchmark's images: people's, our own, in its registry, and while one is exported.
NAMED = rf"(([^ ]*/)?{NAME}[:@]|[0-9.:]+/{REPOSITORY}[:@]|{OWN_REGISTRY}/raw:a+$)"
_FORMAT = '{{.Repository}}{{if eq .Tag "<none>"}}@{{.Digest}}{{else}}:{{.Tag}}{{end}}'
_OURS = f"docker images --digests --format '{_FORMAT}' | grep -E '^{NAMED}'"


def received(hosts: Sequence[str]) -> int:
    """Bytes that have arrived at the hosts since they were started."""
    device = "/sys/class/net/eth0/statistics/rx_bytes"
    return sum(int(faults.run(host, ["cat", device])) for host in hosts)


def cpu_seconds(hosts: Sequence[str]) -> float:
    """Processor seconds that the hosts have used since they were started, engine and all."""
    found = 0.0
    for container in map(lifecycle.container_of, hosts):
        stats = container.client.api.stats(container.id, stream=False, one_shot=True)
        found += stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
    return found


def forget(hosts: Sequence[str]) -> None:
    """Remove every image of the benchmark, and every file that it left."""
    files = f"{_STAGE} /root/{AWAY}"
    script = f"{_NO_LOAD}\n{_OURS} | xargs -r docker rmi -f >/dev/null; rm -rf {files}"
    for host in hosts:
        faults.run(host, ["sh", "-c", script], seconds=PATIENCE)


def holds(host: str, name: str) -> bool:
    """Whether the host's engine knows an image by this name."""
    script = f"docker image inspect {name} >/dev/null 2>&1 && echo held || true"
    return faults.run(host, ["sh", "-c", script]).strip() == "held"


def keep_only(host: str, release: Release) -> bool:
    """Have no other image of the benchmark than this one, under its own name and people's; False: it is not there."""
    if not holds(host, release.unique):
        return False
    keep = f"^({re.escape(release.unique)}|{re.escape(release.reference)}|docker.io/library/{release.reference})$"
    names = f"docker tag {release.unique} {release.reference}; {_OURS} | grep -vE '{keep}'"
    script = f"{_NO_LOAD}\n{{ {names}; }} | xargs -r docker rmi -f >/dev/null"
    faults.run(host, ["sh", "-c", script], seconds=PATIENCE)
    return True


def name_raw(host: str, release: Release, raw: str) -> None:
    """Give an image the name that a builder's own image has while it is exported."""
    faults.run(host, ["docker", "tag", release.unique, raw])


@contextmanager
def staged_most(host: str) -> Iterator[list[int]]:
    """How many bytes the staging folder held at most meanwhile; the list has them when the block has ended.

    Looked at ten times a second, which takes processor time there: not for a sample whose seconds count.
    """
    script = f"""
rm -f {WATCH}*; mkfifo {WATCH}.wait; exec 3<>{WATCH}.wait; echo 0 > {WATCH}
while [ -p {WATCH}.wait ]; do
  now=$(du -sb {_STAGE} 2>/dev/null | cut -f1)
  [ "${{now:-0}}" -le "$(cat {WATCH})" ] || echo "$now" > {WATCH}
  read -t 0.1 -u 3
done
mv {WATCH} {WATCH}.most
"""
    found: list[int] = []
    faults.run(host, ["bash", "-c", f"({script}) >/dev/null 2>&1 </dev/null &"])
    try:
        yield found
    finally:
        end = f"rm -f {WATCH}.wait; until [ -e {WATCH}.most ]; do sleep 0.1; done; cat {WATCH}.most; rm {WATCH}.most"
        found.append(int(faults.run(host, ["sh", "-c", end]).strip()))
