"""Hosts at work with an older image, a ship to them, and what has to hold afterwards."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sistership.errors import INTERRUPTED
from sistership.fleet import faults

from .links import Link, until

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Done, Project

T = TypeVar("T")
STAGE = "/root/.cache/sistership/stage"
NAME = "job-sample:v1"
#: Bytes of a conversation before the first layer: handshakes, lock, probe.
BEGIN = 25_000
#: Runs the whole time, from the older image.
KEEPER = "keeper"
#: The older image: the sample's files as one layer, no layer and no blob shared with the sample.
FLATTEN = f"""
set -e
docker image inspect --format '{{{{json .}}}}' {NAME} | sed 's/"{NAME}",//; s/,"{NAME}"//' > /root/shown.json
id=$(docker create {NAME} true); docker export $id > /root/flat.tar; docker rm $id >/dev/null
docker images -q | sort -u | xargs docker rmi -f >/dev/null
docker import -c 'ENV PATH=/app/bin:/usr/bin:/bin' /root/flat.tar {NAME}; rm /root/flat.tar
docker run -d --restart always --network none --name {KEEPER} {NAME} sleep infinity >/dev/null
"""
RESET = f"""
rm -f /usr/local/bin/* /run/fault.*; rm -rf {STAGE}/* /root/.cache/sistership/ship.lock.d
docker ps -aq --no-trunc | grep -v "$(docker inspect -f '{{{{.Id}}}}' {KEEPER})" | xargs -r docker rm -f >/dev/null
docker tag OLD {NAME}
names=$(docker images --format '{{{{.Repository}}}}:{{{{.Tag}}}}' | grep -vx -e {NAME} -e '.*<none>.*')
[ -z "$names" ] || docker rmi $names >/dev/null
docker images --no-trunc --format '{{{{.ID}}}}' | sort -u | grep -vx OLD | xargs -r docker rmi -f >/dev/null
docker start {KEEPER} >/dev/null
"""
LOOK = f"""
echo "tag $(docker image inspect -f '{{{{.Id}}}}' {NAME} 2>&1)"
echo "keeper $(docker inspect -f '{{{{.Id}}}} {{{{.State.Running}}}} {{{{.State.StartedAt}}}}' {KEEPER} 2>&1)"
echo "works $(docker exec {KEEPER} llama-cli --version 2>&1 | grep -c version:)"
echo "runs $(docker run --rm --network none {NAME} llama-cli --version 2>&1 | grep -c version:)"
"""
#: A docker command that stops in the middle of a load until /run/fault.hold goes: the engine has read a part.
HELD_LOAD = """#!/bin/sh
case " $* " in *" load "*) ;; *) exec /usr/bin/docker "$@" ;; esac
{ head -c 5000000; : > /run/fault.reached; while [ -e /run/fault.hold ]; do sleep 0.05; done; cat; } \\
    | /usr/bin/docker "$@"
"""


@dataclass(frozen=True)
class Ended:
    """A ship that ended: exit code, its JSON lines, what it said on standard error, seconds."""

    code: int
    lines: tuple[dict[str, Any], ...]
    err: str
    seconds: float

    def host(self, name: str) -> dict[str, Any] | None:
        """The line on one host; None when it did not get so far, or when the run was interrupted meanwhile."""
        if self.code == INTERRUPTED:
            return None
        return next((line for line in self.lines if line["type"] == "host" and line["host"] == name), None)

    def sent(self, name: str) -> int:
        """Image bytes sent to a host, as it says."""
        line = self.host(name)
        return int(line["sent"]) if line else 0

    def exit(self, name: str) -> int:
        """A host's own exit code, or that of the whole where there is none."""
        line = self.host(name)
        return int(line["exit"]) if line else self.code

    def trouble(self, name: str) -> dict[str, Any]:
        """What it says is wrong with a host, or with all: what, why, next; empty when nothing is."""
        line = self.host(name) or next((line for line in self.lines if line["type"] == "error"), None)
        return (line and line["error"]) or {}


@dataclass
class Scene:
    """The hosts of one test."""

    project: Project
    links: dict[str, Link]
    hosts: tuple[str, ...]
    old: dict[str, str] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)
    #: Bytes to and from each host of a ship that sent everything undisturbed.
    whole: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> str:
        """The hosts as `--hosts` has them."""
        return ",".join(self.hosts)

    def on_all(self, work: Callable[[str], T]) -> dict[str, T]:
        """Host → what `work` gives for it, all hosts at once."""
        with ThreadPoolExecutor() as pool:
            return dict(zip(self.hosts, pool.map(work, self.hosts), strict=True))

    def everywhere(self, script: str, seconds: int = 120) -> dict[str, str]:
        """Run a shell script in every host, past its network; host → what it printed."""
        return self.on_all(lambda host: inside(host, script, seconds))

    # --- before

    def settle(self) -> None:
        """Each host new to the scene ships once, undisturbed, and is then at work with an older image."""
        new = [host for host in self.hosts if host not in self.old]
        if not new:
            return
        for host in new:
            self.project.forget(host)
            self.links[host].clear()
        self.ship(new, code=0)
        for host in new:
            self.whole[host] = sum(self.links[host].counted())
            line = self.project.fleet.ssh(host, FLATTEN, seconds=120).split()[-1]
            self.old[host] = line

    def reset(self) -> None:
        """Every host as it was before the first fault."""
        self.settle()
        self.on_all(lambda host: inside(host, RESET.replace("OLD", self.old[host])))
        for host in self.hosts:
            self.links[host].clear()
            found = self._looked(host)
            assert found["tag"] == self.old[host], f"{host}: {found}"
            self.started[host] = found["keeper"]

    def leave(self) -> None:
        """The container that was at work on each host of the scene goes, and no program is a stand-in any more."""
        for host in self.old:
            faults.honest(host)
            inside(host, f"docker rm -f {KEEPER}")

    # --- the ship

    def start(self, hosts: list[str] | None = None) -> subprocess.Popen[str]:
        """A ship to the hosts, under way."""
        return self.project.start("ship", "--json", "--variant", "sample", "--hosts", ",".join(hosts or self.hosts))

    def finish(self, process: subprocess.Popen[str], seconds: float = 200) -> Ended:
        """Wait for a ship to end."""
        began = time.monotonic()
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        lines = tuple(json.loads(line) for line in out.splitlines() if line.startswith("{"))
        return Ended(process.returncode, lines, err, time.monotonic() - began)

    def ship(self, hosts: list[str] | None = None, *, code: int | None = None) -> Ended:
        """Ship, from start to end."""
        ended = self.finish(self.start(hosts))
        assert code is None or ended.code == code, f"exit {ended.code}: {ended.lines[-4:]} {ended.err[-2000:]}"
        return ended

    def cut_at(self, host: str, part: str, share: float, lacks: int) -> None:
        """The host's cable will be cut at a byte of the next ship.

        Args:
            part: `begin`, before the first layer; `layers`; or `end`, the talk after them.
            share: of that part, 0 to 1.
            lacks: bytes of layers that will be sent.
        """
        talk = self.whole[host] - sum(self.layers().values())
        low, high = {"begin": (0, BEGIN), "layers": (BEGIN, BEGIN + lacks), "end": (BEGIN + lacks, talk + lacks)}[part]
        self.links[host].clear()
        self.links[host].rule(round(low + share * (high - low)), "cut")

    def held_at_byte(self, at: int, deed: str = "hold") -> subprocess.Popen[str]:
        """A ship that stands still after `at` bytes, or to which something else happened there, on every host."""
        for host in self.hosts:
            self.links[host].rule(at, deed)
        process = self.start()
        until(lambda: all(self.links[host].reached() for host in self.hosts), f"byte {at}")
        return process

    def let_go(self) -> None:
        """What `held_at_byte` holds goes on."""
        for host in self.hosts:
            self.links[host].let_go()

    @contextmanager
    def held_load(self) -> Iterator[subprocess.Popen[str]]:
        """A ship whose engines have all read a part of the archive and wait for more; they go on with the end."""
        self.everywhere(": > /run/fault.hold")
        self.stand_in("docker", HELD_LOAD)
        process = self.start()
        reached = "ls /run/fault.reached 2>/dev/null || true"
        try:
            until(lambda: all(self.everywhere(reached).values()), "the load")
            yield process
        finally:
            self.go_on_loading()

    def go_on_loading(self) -> None:
        """Held loads go on, and the next load is not held."""
        self.everywhere("rm -f /usr/local/bin/docker /run/fault.hold /run/fault.reached")

    def stand_in(self, program: str, text: str) -> None:
        """On every host, what is called `program` is this script from now on, until `reset` or `honest`."""
        for host in self.hosts:
            faults.stand_in(host, program, text)

    def honest(self) -> None:
        """Programs are themselves again."""
        for host in self.hosts:
            faults.honest(host)

    # --- after

    def staged(self, host: str) -> dict[str, int]:
        """Name → bytes of what lies in a host's staging folder."""
        script = f"cd {STAGE} 2>/dev/null && find . -maxdepth 1 -type f -printf '%f %s\\n'; true"
        listing = inside(host, script)
        return {name: int(size) for name, size in (line.split() for line in listing.splitlines())}

    def layers(self) -> dict[str, int]:
        """Staged name → bytes of every layer of the image."""
        return {f"{layer['digest'][7:]}.zst": layer["size"] for layer in self.project.record()["layers"]}

    def _looked(self, host: str) -> dict[str, str]:
        lines = inside(host, LOOK).splitlines()
        return {word: rest for word, _, rest in (line.partition(" ") for line in lines)}

    def look(self, *, restarted: bool) -> dict[str, dict[str, str]]:
        """What every host runs now: tag, container, whether the container and its image work.

        Args:
            restarted: the fault ended the containers too; waits until they are back.
        """

        def one(host: str) -> dict[str, str]:
            running = f"docker inspect -f '{{{{.State.Running}}}}' {KEEPER} 2>&1 || true"
            if restarted:
                until(lambda: "true" in inside(host, running), f"{host}: the container's return", 60)
            return self._looked(host)

        return self.on_all(one)

    def broken(self, host: str, found: dict[str, str], verdict: str | None, *, restarted: bool) -> list[str]:
        """What a fault left broken on a host: empty when it runs what it ran.

        Args:
            found: what `look` saw there.
            verdict: of the image behind the tag, where the tag has moved.
            restarted: the container may have been started anew; it has to be the same one.
        """
        wrong = []
        if found["tag"] != self.old[host] and verdict != "ok":
            wrong.append(f"{host}: the tag points to {found['tag']}, neither what it was nor a whole image ({verdict})")
        before, now = self.started[host].split(), found["keeper"].split()
        if now[:2] != before[:2] or (now != before and not restarted):
            wrong.append(f"{host}: the container was {before}, is {now}")
        if (found["works"], found["runs"]) != ("1", "1"):
            wrong.append(f"{host}: the container or its image does not work: {found}")
        return wrong

    def verdict(self, hosts: list[str]) -> dict[str, str]:
        """Host → verdict, the files inside the image hashed too."""
        if not hosts:
            return {}
        done: Done = self.project.verify("--deep", "--hosts", ",".join(hosts), code=None)
        return done.verdicts()

    def rollback(self, host: str) -> str:
        """The ID behind the name that the older image keeps after it was replaced."""
        name = f"{NAME.partition(':')[0]}:rollback-{self.old[host][7:19]}"
        return inside(host, f"docker image inspect -f '{{{{.Id}}}}' {name} 2>&1; true").strip()


_HONEST = "/usr/sbin:/usr/bin:/sbin:/bin"


def inside(host: str, script: str, seconds: int = 120) -> str:
    """Run a shell script as root in a host, past its network and past what stands in for programs; what it printed."""
    out, end, _ = faults.run(
        host, ["bash", "-c", f"PATH={_HONEST}\n{script}\nprintf 'end of %s' script"], seconds=seconds
    ).partition("end of script")
    assert end, f"{host}: what the script printed did not come to its end: {out!r} of {script}"
    return out


def matches(pattern: str, trouble: dict[str, Any], err: str) -> bool:
    """Whether a message, or what was said before there was one, has the words."""
    text = " ".join(str(trouble.get(part) or "") for part in ("what", "where", "why", "next"))
    return re.search(pattern, f"{text}\n{err}") is not None
