"""Forks, hosts, groups and builders: from rows to values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from sistership.matrix import names
from sistership.matrix.model import EngineKind, Fork, Host
from sistership.matrix.shape import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sistership.matrix.findings import Findings
    from sistership.matrix.nodes import Path
    from sistership.matrix.schema import ForkRow, HostRow

_CAPABILITY: Final = re.compile(r"([1-9][0-9]?)\.([0-9])")
#: The command of each kind of engine, where the matrix does not name another.
_COMMANDS: Final[Mapping[EngineKind, str]] = {"docker": "docker", "podman": "podman", "containerd": "ctr"}
#: The namespace of the kubelet's images: what lies in another one, no pod can use.
_KUBERNETES: Final = "k8s.io"
_DOCKER_HOST: Final = re.compile(r"(unix|tcp|ssh|fd)://\S+")


def fork(name: str, row: ForkRow, findings: Findings) -> Fork:
    """A fork; its git address is absolute where it is a path."""
    path: Path = ("forks", name)
    findings.check(path, name, names.check_name, key=True)
    if not findings.check((*path, "git"), row.git, names.check_git) or not names.is_path(row.git):
        return Fork(name, row.git, row.git)
    return Fork(name, str(below(findings.project, row.git)), row.git)


def below(project: FilePath, text: str) -> FilePath:
    """A path of the matrix: `~` is the user's home, relative ones start at the project's folder."""
    try:
        path = FilePath(text).expanduser()
    except RuntimeError:  # ~someone who does not exist here
        path = FilePath(text)
    return project / path


def host(name: str, row: HostRow, ssh_config: str | None, findings: Findings) -> Host:
    """A host; without `local` and `ssh` its own name is the ssh alias."""
    path: Path = ("hosts", name)
    findings.check(path, name, names.check_name, key=True)
    if row.local and row.ssh is not None:
        findings.problem((*path, "ssh"), "local: true and ssh exclude each other", "take one of them out")
    if row.ssh is not None:
        findings.check((*path, "ssh"), row.ssh, _check_ssh)
    engine = _engine(path, row, findings)
    if row.local and row.transport is not None:
        findings.problem((*path, "transport"), "local: true needs no transport", "take it out")
    if row.platform is not None:
        findings.check((*path, "platform"), row.platform, names.check_platform)
    for index, capability in enumerate(row.gpu):
        findings.check((*path, "gpu", index), capability, _check_capability)
    if row.ssh_config is not None:
        findings.check((*path, "ssh_config"), row.ssh_config, check_path)
    config = row.ssh_config or ssh_config
    return Host(
        name=name,
        local=row.local,
        ssh=None if row.local else row.ssh or name,
        ssh_config=below(findings.project, config) if config and not row.local else None,
        docker=row.docker or _COMMANDS[engine],
        docker_host=row.docker_host,
        context=row.context,
        namespace=row.namespace or _KUBERNETES if engine == "containerd" else None,
        sudo=row.sudo,
        platform=row.platform,
        gpu=tuple(dict.fromkeys(row.gpu)),
        transport=row.transport,
        engine=engine,
    )


def _engine(path: Path, row: HostRow, findings: Findings) -> EngineKind:
    """What kind of engine a host has: as it is written, else what its command's name says."""
    name = PurePosixPath(row.docker or "docker").name
    told: EngineKind = "podman" if name.startswith("podman") else "containerd" if name == "ctr" else "docker"
    kind = row.engine or told
    if row.docker is not None:
        findings.check((*path, "docker"), row.docker, _check_command)
    if row.docker_host is not None:
        findings.check((*path, "docker_host"), row.docker_host, _check_docker_host)
    if row.context is not None:
        findings.check((*path, "context"), row.context, _check_context)
        if kind != "docker":
            findings.problem((*path, "context"), "only Docker has contexts", "use docker_host in its place")
        elif row.docker_host is not None:
            findings.problem((*path, "context"), "context and docker_host exclude each other", "take one of them out")
    if row.namespace is not None:
        findings.check((*path, "namespace"), row.namespace, _check_namespace)
        if kind != "containerd":
            findings.problem((*path, "namespace"), "only containerd has namespaces", "write engine: containerd too")
    return kind


def check_path(text: str) -> None:
    """A path of a file, anywhere.

    Raises:
        TextError: empty, or with control characters.
    """
    if not text or re.search(r"[\x00-\x1f\x7f]", text):
        raise names.TextError(f'"{text}" is not a path', "write the path of the file, or take the line out")


def _check_ssh(text: str) -> None:
    if not text or text.startswith("-") or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise names.TextError(
            f'"{text}" is not an ssh destination', "write an alias of your ssh configuration, or user@address"
        )


def _check_command(text: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", text) or text.startswith("-"):
        hint = "write sudo: true beside it" if text.startswith("sudo ") else "write docker, podman, or a path"
        raise names.TextError(f'"{text}" is not the name of a command', hint)


def _check_docker_host(text: str) -> None:
    if not _DOCKER_HOST.fullmatch(text):
        raise names.TextError(f'"{text}" is not a DOCKER_HOST', "write for example unix:///run/user/1000/docker.sock")


def _check_context(text: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", text):
        raise names.TextError(f'"{text}" is not the name of a docker context', "see `docker context ls` there")


def _check_namespace(text: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*", text):
        raise names.TextError(f'"{text}" is not a namespace of containerd', "see `ctr namespaces ls` there")


def _check_capability(text: str) -> None:
    if _CAPABILITY.fullmatch(text):
        return
    digits = re.fullmatch(r"([1-9][0-9]?)([0-9])", text)
    hint = f'write "{digits[1]}.{digits[2]}"' if digits else 'write it as nvidia-smi shows it, such as "8.9"'
    raise names.TextError(f'"{text}" is not a compute capability', hint)


def groups(rows: Mapping[str, tuple[str, ...]], findings: Findings) -> dict[str, tuple[str, ...]]:
    """Every group as host names; a group may hold groups, but never itself."""
    hosts = findings.written("hosts")
    for name, members in rows.items():
        path: Path = ("groups", name)
        findings.check(path, name, names.check_name, key=True)
        if name in hosts:
            line = findings.document.mark(("hosts", name), key=True).line
            findings.problem(path, f"a host has the same name (line {line})", "give one of them another name", key=True)
        if not members:
            findings.problem(path, "the group is empty", "name its hosts or take it out")
        for index, member in enumerate(members):
            findings.is_known((*path, index), member, [*hosts, *findings.written("groups")], "host or group")
    in_circles: set[str] = set()
    for name in rows:
        circle = _circle(name, rows)
        if circle and not in_circles & set(circle):
            text = " → ".join(circle)
            findings.problem(("groups", name), f"the group holds itself: {text}", "take one of these out", key=True)
        in_circles.update(circle)
    return {name: tuple(member for member in _reach(name, rows) if member in hosts) for name in rows}


def _reach(name: str, rows: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Every name that the group leads to, depth first → the group that holds it."""
    found: dict[str, str] = {}
    waiting = [(member, name) for member in reversed(rows[name])]
    while waiting:
        member, holder = waiting.pop()
        if member not in found:
            found[member] = holder
            waiting += [(below, member) for below in reversed(rows.get(member, ()))]
    return found


def _circle(name: str, rows: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The way from the group back to itself, or ()."""
    holders = _reach(name, rows)
    if name not in holders:
        return ()
    way = [name]
    while len(way) == 1 or way[-1] != name:
        way.append(holders[way[-1]])
    return tuple(reversed(way))


def builders(
    path: Path, row: Mapping[str, str], platforms: Iterable[str], hosts: Mapping[str, Host], findings: Findings
) -> dict[str, str]:
    """Platform → host that builds for it.

    Args:
        path: where the `builder` key is.
        row: as the schema reads it; the platform "" stands for all of `platforms`.
        platforms: what is built.
        hosts: the inventory.
        findings: gets unknown hosts and platforms, and hosts of another platform.
    """
    result: dict[str, str] = {}
    for platform, name in row.items():
        here: Path = (*path, platform) if platform else path
        if platform:
            findings.check(here, platform, names.check_platform, key=True)
        if not findings.is_known(here, name, findings.written("hosts"), "host") or name not in hosts:
            continue
        if hosts[name].engine != "docker":
            hint = "name a host with Docker Engine; a build needs its buildx"
            findings.problem(here, f'builder: host "{name}" has {hosts[name].engine}', hint)
        for built in [platform] if platform else platforms:
            own = hosts[name].platform
            if own is not None and built not in {own, UNREADABLE}:
                hint = "name a builder for each platform: {linux/amd64: HOST, linux/arm64: HOST}"
                findings.problem(here, f'builder: host "{name}" is {own}, not {built}', hint)
            result[built] = name
    return result
