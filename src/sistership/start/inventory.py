"""From ssh aliases and what was found there to rows of an inventory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sistership.errors import SistershipError
from sistership.host.answers import parse_version
from sistership.host.docker import ZSTD_SINCE
from sistership.matrix.cuda import unsupported
from sistership.matrix.model import Host
from sistership.start.doctor import Visit
from sistership.start.findings import Level
from sistership.start.inquiry import Answer
from sistership.start.judge import Wanted, judge

#: What this machine is called in an inventory.
HERE = "here"
TOOLKIT = "12.8.1"


@dataclass(frozen=True)
class Row:
    """A line under `hosts:`.

    Attributes:
        keys: the row's keys as they are written, such as `gpu: ["8.9"]`.
        about: what was found there, or why the row is a comment.
        usable: whether the host can be shipped to as the row stands.
        capabilities: of its cards.
        builds: whether it can build images.
    """

    name: str
    keys: tuple[str, ...] = ()
    about: str = ""
    usable: bool = True
    capabilities: tuple[str, ...] = ()
    builds: bool = False

    @property
    def text(self) -> str:
        """The line, without indentation; a comment where the host is not usable."""
        line = f"{self.name}: {{{', '.join(self.keys)}}}"
        line = line if self.usable else f"# {line}"
        return f"{line:<40}  # {self.about}" if self.about else line


def hosts_of(aliases: Sequence[str]) -> list[Host]:
    """A host for each alias that can be one; its name differs where the alias cannot be a name."""
    found: dict[str, Host] = {}
    for alias in aliases:
        if re.search(r"\s", alias):
            continue
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", alias).lstrip(".-")[:100] or "host"
        while name in found or name == HERE:
            name += "-2"
        found[name] = Host(name, ssh=alias)
    return list(found.values())


def unasked(host: Host) -> Row:
    """A row for a host that was not asked."""
    return Row(host.name, tuple(_way(host)))


def row(visit: Visit) -> Row:
    """A row from what was found on a host."""
    host, answer = visit.host, visit.answer
    if isinstance(answer, SistershipError):
        return Row(host.name, tuple(_way(host)), answer.what, usable=False)
    if answer.other_kind and (answer.is_podman or not (answer.elsewhere or answer.engines)):
        about = answer.cli if answer.is_podman else answer.podman or "containerd"
        return Row(
            host.name,
            (*_way(host), *answer.other_kind, *_kind(answer)),
            about,
            capabilities=_capabilities(answer),
            builds=False,
        )
    if answer.server is None and answer.as_root is None and not answer.elsewhere and not answer.engines:
        trouble = next(each for each in judge(Wanted(host), answer, 0.0) if each.level is Level.PROBLEM)
        return Row(host.name, tuple(_way(host)), trouble.what.partition(" (")[0], usable=False)
    return Row(
        host.name,
        (*_way(host), *_engine(host, answer), *_kind(answer)),
        _about(host, answer),
        capabilities=_capabilities(answer),
        builds=_can_build(answer),
    )


def _way(host: Host) -> list[str]:
    if host.local:
        return ["local: true"]
    return [f"ssh: {host.ssh}"] if host.ssh != host.name else []


def _engine(host: Host, answer: Answer) -> list[str]:
    """How its engine is spoken to, where that is not plain `docker`."""
    if answer.server is not None:
        return []
    if answer.as_root is not None:
        return ["sudo: true"]
    if answer.elsewhere:
        return [f"docker: {answer.elsewhere[0]}"]
    del host
    return [f"docker_host: {answer.engines[0].endpoint}"]


def _kind(answer: Answer) -> list[str]:
    keys = [] if answer.platform in {"", "linux/amd64"} else [f"platform: {answer.platform}"]
    capabilities = ", ".join(f'"{each}"' for each in _capabilities(answer))
    return [*keys, *([f"gpu: [{capabilities}]"] if capabilities else [])]


def _capabilities(answer: Answer) -> tuple[str, ...]:
    gpus = answer.smi.gpus if answer.smi else ()
    return tuple(dict.fromkeys(gpu.capability for gpu in gpus if gpu.capability))


def _about(host: Host, answer: Answer) -> str:
    server = answer.server or answer.as_root
    parts = [f"Docker {server.get('Version', '?')}" if server else "Docker"]
    parts += dict.fromkeys(gpu.name for gpu in (answer.smi.gpus if answer.smi else ()))
    if len(answer.engines) > 1 and not host.docker_host:
        parts.append("several engines run there: choose one with docker_host")
    return ", ".join(parts)


def _can_build(answer: Answer) -> bool:
    version = parse_version(str((answer.server or {}).get("Version", "")))
    return version >= ZSTD_SINCE and "buildx" in answer.buildx and "not a docker command" not in answer.buildx


def archs(rows: Sequence[Row]) -> tuple[str, ...]:
    """CMake's names of the cards that were found, as far as the toolkit of the new matrix knows them."""
    capabilities = {capability for each in rows if each.usable for capability in each.capabilities}
    numbers = sorted(int(capability.replace(".", "")) for capability in capabilities)
    # llama.cpp turns these into their exact form; writing it says what is built.
    names = [f"{number}a" if number // 10 == 12 else str(number) for number in numbers]  # noqa: PLR2004 - Blackwell
    return tuple(name for name in names if _known(name))


def _known(arch: str) -> bool:
    try:
        return unsupported(arch, TOOLKIT) is None
    except ValueError:
        return False
