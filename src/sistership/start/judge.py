"""From a host's answer to findings: pure, and in the words of the matrix.

A problem is what would make `build`, `ship` or `verify` fail there; everything else is at most a warning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from sistership.errors import HostUnfitError, SistershipError
from sistership.host.answers import parse_version
from sistership.host.docker import ZSTD_SINCE
from sistership.host.engines import DEFAULT, engine_chosen, no_engine, refuse_elsewhere, refuse_several
from sistership.matrix.model import Host, Variant
from sistership.start.cards import cards
from sistership.start.findings import Finding, fine, from_error, problem, warning
from sistership.start.inquiry import Answer

GIB: Final = 1 << 30
#: A CUDA image and its layers while they are staged and loaded need about this much.
_ROOM: Final = 10 * GIB
#: Seconds that a clock may differ: more confuses certificates, package signatures and whoever reads two logs.
CLOCK: Final = 30
#: How kinds of engines are called.
_KINDS: Final = {"podman": "Podman"}
_HASHES: Final = ("sha256sum", "shasum", "openssl")
_INFLATE: Final = ("zstd", "gzip")


@dataclass(frozen=True)
class Wanted:
    """What the matrix wants of a host.

    Attributes:
        host: its row.
        variants: those that are meant to run there.
        builds: platforms that it builds for; empty: it is no builder.
    """

    host: Host
    variants: tuple[Variant, ...] = ()
    builds: tuple[str, ...] = ()


def judge(wanted: Wanted, answer: Answer, skew: float) -> list[Finding]:
    """Everything there is to say of one host that answered.

    Args:
        skew: seconds that its clock is ahead of ours.
    """
    name = wanted.host.name
    if not answer.system and not answer.tools:
        cure = f"see what comes of it by hand: ssh {wanted.host.ssh or name} uname -sm"
        return [problem(name, "shell", "it ran nothing of what it was asked", cure)]
    found = [*_engine(wanted, answer), *_others(wanted.host, answer)]
    if answer.info and not answer.is_podman and answer.own is None:
        found += [fine(name, "store", f"{answer.store}, in {answer.info.get('DockerRootDir') or 'an unknown folder'}")]
        found += _builder(wanted, answer)
    found += _platform(wanted, answer)
    found += [*_disk(name, answer), *_staging(name, answer), *_tools(name, answer), *_sudo(wanted.host, answer)]
    found += cards(wanted.host, wanted.variants, answer)
    return [*found, _clock(name, answer, skew)]


def _engine(wanted: Wanted, answer: Answer) -> list[Finding]:
    host = wanted.host
    if isinstance(answer.own, SistershipError):
        return [from_error(host.name, "engine", answer.own)]
    if answer.own is not None:
        return [fine(host.name, "engine", f"{_KINDS.get(host.engine, host.engine)} {answer.own.version}")]
    if answer.is_podman:
        what = f"{answer.cli or answer.podman}: Podman, and the matrix says Docker"
        return [problem(host.name, "engine", what, _write(host, answer.other_kind))]
    if answer.server is None:
        return [_no_engine(host, answer)]
    how = "rootless" if any("rootless" in str(each) for each in answer.info.get("SecurityOptions") or []) else "rootful"
    version = answer.server.get("Version", "?")
    if not answer.info:
        what = f"Docker {version} answers only in part: `docker info` failed"
        return [problem(host.name, "engine", what, "see what `docker info` says there")]
    return [fine(host.name, "engine", f"Docker {version}, {how}, ID {answer.daemon[:12] or 'unknown'}")]


def _no_engine(host: Host, answer: Answer) -> Finding:
    """Why no engine answered, with the line of the matrix that cures it where we know one."""
    path = answer.programs.get("docker")
    if path and answer.engines and host.docker not in {"docker", path}:
        cure = f"take `docker: {host.docker}` out of {host.name} in the matrix"
        return problem(host.name, "engine", f"{host.docker} reaches no engine, and {path} does", cure)
    error = no_engine(host.name, answer.server_text, [each for each in answer.engines if each.endpoint != DEFAULT])
    if answer.as_root is not None and not host.sudo and answer.uid != 0:
        return problem(
            host.name,
            "engine",
            f"{error.what}, but `sudo -n docker` works (Docker {answer.as_root.get('Version', '?')})",
            f"write it in the matrix: {host.name}: {{sudo: true}}",
        )
    if answer.elsewhere and PurePath(host.docker).name == host.docker:
        cure = f"write it in the matrix: {host.name}: {{docker: {answer.elsewhere[0]}}}"
        return problem(host.name, "engine", "the docker command is not on PATH there", cure)
    if answer.other_kind:
        there = answer.podman if "podman" in answer.other_kind[0] else "containerd and its ctr"
        return problem(host.name, "engine", f"no docker command, but {there}", _write(host, answer.other_kind))
    return from_error(host.name, "engine", error)


def _write(host: Host, keys: Sequence[str]) -> str:
    return f"write it in the matrix: {host.name}: {{{', '.join(keys)}}}"


def _others(host: Host, answer: Answer) -> list[Finding]:
    """Further engines on the machine, and whether it is clear which is meant."""
    found = []
    if not engine_chosen(host) and answer.own is None:
        try:
            refuse_elsewhere(host.name, answer.endpoint, local=host.local)
            refuse_several(host.name, answer.endpoint, answer.engines)
        except HostUnfitError as error:
            found.append(from_error(host.name, "engine", error))
    also = []
    if answer.podman and not answer.is_podman and host.engine != "podman":
        also.append(answer.podman)
    # Docker brings a containerd of its own, at the first of these places.
    own = {"/run/containerd/containerd.sock"} if answer.server is not None else set()
    if host.engine == "containerd":
        own = {(host.docker_host or "/run/containerd/containerd.sock").removeprefix("unix://")}
    also += [
        f"containerd at {each}" for each in answer.sockets if each.endswith("/containerd.sock") and each not in own
    ]
    if also:
        found.append(fine(host.name, "engine", f"also there, and left alone: {', '.join(also)}"))
    return found


def _builder(wanted: Wanted, answer: Answer) -> list[Finding]:
    if not wanted.builds:
        return []
    name, version = wanted.host.name, parse_version(str((answer.server or {}).get("Version", "")))
    if version < ZSTD_SINCE:
        what = f"it builds {', '.join(wanted.builds)}, and Docker before 23.0 cannot"
        return [problem(name, "buildx", what, "update Docker Engine there, or name another `builder:` in the matrix")]
    if "buildx" not in answer.buildx or "not a docker command" in answer.buildx:
        what = f"it builds {', '.join(wanted.builds)}, and `docker buildx` is missing"
        return [problem(name, "buildx", what, "install docker-buildx (Debian) or docker-buildx-plugin there")]
    return [fine(name, "buildx", f"builds {', '.join(wanted.builds)} with {answer.buildx.split('/')[-1]}")]


def _platform(wanted: Wanted, answer: Answer) -> list[Finding]:
    name, declared, real = wanted.host.name, wanted.host.platform, answer.platform
    if not real:
        what = f"unknown machine: {answer.system or 'it did not say'}"
        return [warning(name, "platform", what, "see what `uname -sm` says there")]
    if declared and not _same(declared, real):
        cure = f"write it in the matrix: {name}: {{platform: {real}}}"
        return [problem(name, "platform", f"it is {real}, the matrix says {declared}", cure)]
    fitting = [each.name for each in wanted.variants if any(_same(platform, real) for platform in each.platforms)]
    others = [each.name for each in wanted.variants if each.name not in fitting]
    if wanted.variants and not fitting:
        cure = f"add {real} to `platforms:` of a variant, and a `builder:` of that platform"
        return [problem(name, "platform", f"{real}, and no variant is built for it", cure)]
    left_out = f"; not for it: {', '.join(others)}" if others else ""
    return [fine(name, "platform", f"{real}{left_out}")]


def _same(one: str, other: str) -> bool:
    """Whether two platforms are one: the variant (v8) counts only where both have it."""
    return all(a == b for a, b in zip(one.split("/"), other.split("/"), strict=False))


def _disk(name: str, answer: Answer) -> list[Finding]:
    where = answer.folder
    if not where:
        return []
    if answer.room is None:
        cure = "see what `df` says there" if answer.own else "see what `docker system df` says there"
        return [warning(name, "disk", f"free space in {where} is not known", cure)]
    text = f"{answer.room / GIB:.1f} GiB free in {where}"
    if answer.room < _ROOM:
        cure = "make room there" if answer.own else "make room: docker image prune"
        return [warning(name, "disk", f"{text}; a CUDA image takes several", cure)]
    return [fine(name, "disk", text)]


def _staging(name: str, answer: Answer) -> list[Finding]:
    """Where a ship leaves layers until they are loaded."""
    if not answer.cache_writable:
        what = f"{answer.user or 'we'} cannot write to {answer.cache or 'the cache folder'}, where images are staged"
        return [problem(name, "staging", what, "give the user there a home with a writable .cache")]
    if answer.cache_free is not None and answer.cache_free < GIB:
        what = f"{answer.cache_free / GIB:.1f} GiB free in {answer.cache}, where layers wait until they are loaded"
        return [warning(name, "staging", what, "make room there")]
    return []


def _tools(name: str, answer: Answer) -> list[Finding]:
    if not answer.tools & set(_HASHES):
        what = "no sha256sum, shasum or openssl: what arrives cannot be checked"
        return [problem(name, "tools", what, "install coreutils there")]
    version = str((answer.server or {}).get("Version", ""))
    if answer.server is not None and parse_version(version) < ZSTD_SINCE and "zstd" not in answer.tools:
        form = "as gzip" if "gzip" in answer.tools else "uncompressed"
        what = f"Docker {version} cannot read zstd layers and the host has no zstd: layers travel {form}"
        return [warning(name, "tools", what, "install zstd there: less is sent")]
    there = [tool for tool in (*_INFLATE, *_HASHES) if tool in answer.tools]
    return [fine(name, "tools", ", ".join(there))]


def _sudo(host: Host, answer: Answer) -> list[Finding]:
    """Whether root can be asked for. `sudo -n true` may fail where sudoers allow docker alone: the engine decides."""
    if host.sudo and (answer.server is not None or answer.engine):
        return [fine(host.name, "sudo", f"lets us use {PurePath(host.docker).name} without a password")]
    if host.sudo or answer.sudo is None or answer.uid == 0:
        return []  # the engine's finding says it
    return [fine(host.name, "sudo", "works without a password" if answer.sudo else "asks for a password")]


def _clock(name: str, answer: Answer, skew: float) -> Finding:
    if answer.clock is None:
        return warning(name, "clock", "not known", "see what `date` says there")
    if abs(skew) <= CLOCK:
        return fine(name, "clock", "agrees with this machine")
    ahead = "ahead of" if skew > 0 else "behind"
    what = f"{_duration(abs(skew))} {ahead} this machine"
    return warning(name, "clock", what, "turn on time synchronisation there: timedatectl set-ntp true")


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def skew_of(clock: int | None, before: float, after: float) -> float:
    """Seconds that a clock is ahead, by what is certain: 0 when its reading lies between asking and answering."""
    if clock is None or before - 1 <= clock <= after:
        return 0.0
    return clock - after if clock > after else clock + 1 - before


def one_daemon_two_names(answers: Sequence[tuple[str, Answer]]) -> list[Finding]:
    """Hosts that are one engine: the same ID under the same run of a kernel. A cloned disk has the ID alone."""
    first: dict[str, tuple[str, str]] = {}
    found = []
    for host, answer in answers:
        other, boot = first.setdefault(answer.daemon, (host, answer.boot)) if answer.daemon else (host, "")
        if other == host:
            continue
        if boot == answer.boot:
            what = f"it is the same engine as {other}: one machine under two names"
            found.append(warning(host, "engine", what, "take one of the two out of the matrix"))
        else:
            what = f"its engine has the ID of that of {other}, another machine: a cloned disk"
            cure = "there: remove engine-id (before Docker 25: key.json) from Docker's folder and restart it"
            found.append(warning(host, "engine", what, cure))
    return found


def whose_clock(skews: Sequence[tuple[str, float]]) -> float | None:
    """When two hosts or more differ from us by the same, it is our clock: by how much it is wrong; else None."""
    off = [skew for _, skew in skews]
    if len(off) > 1 and all(abs(skew) > CLOCK for skew in off) and max(off) - min(off) <= CLOCK:
        return -sum(off) / len(off)
    return None
