"""Which engine a host's docker command speaks to, and what is wrong when none answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sistership.errors import HostUnfitError
from sistership.matrix.model import Host

#: Where the command looks when nobody tells it otherwise: the engine of root.
DEFAULT: Final = "unix:///var/run/docker.sock"


def engine_chosen(host: Host) -> bool:
    """Whether the matrix says which of several engines of a host is meant; sudo means that of root."""
    return bool(host.docker_host or host.context or host.sudo)


#: Kind of engine → what a person types there: to list images and containers, to remove an image, to read its log.
BY_HAND: Final[Mapping[str, Mapping[str, str]]] = {
    "docker": {
        "images": "docker image ls",
        "containers": "docker ps --all",
        "remove": "docker image rm",
        "log": "journalctl -u docker -n 50",
    },
    "podman": {
        "images": "podman image ls",
        "containers": "podman ps --all --external",
        "remove": "podman image rm",
        "log": "podman system check",
    },
    "containerd": {
        "images": "ctr -n k8s.io images ls",
        "containers": "ctr -n k8s.io containers ls",
        "remove": "ctr -n k8s.io images rm",
        "log": "journalctl -u containerd -n 50",
    },
}


@dataclass(frozen=True)
class Engine:
    """An engine that answers at an endpoint."""

    endpoint: str
    daemon: str

    @property
    def kind(self) -> str:
        """Whose it is."""
        return "root's" if self.endpoint == DEFAULT else "rootless"


def engines(text: str) -> tuple[Engine, ...]:
    """What `look_around` of docker.sh printed; one engine at two sockets counts once."""
    pairs = (line.split() for line in text.splitlines())
    found = {pair[1]: Engine(*pair) for pair in pairs if len(pair) == 2}  # noqa: PLR2004 - endpoint and ID
    return tuple(found.values())


def refuse_several(host: str, endpoint: str, around: Sequence[Engine]) -> None:
    """With several engines and none chosen, the image could land in the wrong one.

    Args:
        host: the host's name.
        endpoint: where the command there leads by its own configuration; another than root's is a choice made there.
        around: the engines that answer.

    Raises:
        HostUnfitError: it is not said which is meant.
    """
    if len(around) < 2 or endpoint not in {"", DEFAULT}:  # noqa: PLR2004 - several
        return
    shown = "; ".join(f"{engine.kind} {engine.daemon} at {engine.endpoint}" for engine in around)
    choices = " or ".join(engine.endpoint for engine in around)
    raise HostUnfitError(
        "several engines run there, and none is chosen",
        where=host,
        why=shown,
        hint=f"say which one in the matrix: docker_host: {choices}",
    )


def refuse_elsewhere(host: str, endpoint: str, *, local: bool) -> None:
    """The docker command of a host must lead to an engine of that host.

    Raises:
        HostUnfitError: it leads to another machine (`docker context use` was run once and forgotten, moby/moby#12548).
    """
    if not endpoint or endpoint.startswith(("unix://", "npipe://", "fd://")):
        return
    raise HostUnfitError(
        f"its docker client's current context leads to {endpoint}, not to {'this' if local else 'that'} machine",
        where=host,
        hint="docker context use default there, or choose `docker_host:` or `context:` for it in the matrix",
    )


@dataclass(frozen=True)
class _Cause:
    pattern: str
    what: str
    hint: Mapping[str, str]


def _cause(pattern: str, what: str, docker: str, podman: str = "") -> _Cause:
    return _Cause(pattern, what, {"docker": docker, "podman": podman or docker})


_CAUSES: Final = (
    _cause(
        r"sudo: .*(password|terminal|tty)|a password is required",
        "sudo asks for a password there",
        "allow docker in sudoers without a password (NOPASSWD), or join the docker group and drop `sudo:`",
        "allow podman in sudoers without a password (NOPASSWD), or drop `sudo:` and use that user's own images",
    ),
    _cause(
        r"is not allowed to execute|is not in the sudoers|may not run sudo",
        "sudo does not allow it there",
        "allow that command in sudoers (NOPASSWD), or join the docker group and drop `sudo:`",
        "allow that command in sudoers (NOPASSWD), or drop `sudo:` and use that user's own images",
    ),
    _cause(
        r"sudo: (command )?not found",
        "there is no sudo there",
        "install sudo, or join the docker group and drop `sudo:`",
        "install sudo, or drop `sudo:` and use that user's own images",
    ),
    _cause(
        r"newuidmap|newgidmap|no subuid ranges|subordinate",
        "its user has no subordinate IDs there, which rootless Podman needs",
        "there: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER, then podman system migrate",
    ),
    _cause(
        r"[Pp]ermission denied",
        "no right to use the engine there",
        "add the user to the docker group, or set `sudo: true` for this host in the matrix",
        "see what `podman info` says there, or set `sudo: true` for this host in the matrix",
    ),
    _cause(
        r"context not found|[Cc]ontext \S+ (is )?not found",
        "there is no docker context of that name there",
        "see `docker context ls` there, and correct `context:` in the matrix",
    ),
    _cause(
        r"(^|[ /])(docker|podman)\S*: (command )?not found|No such file or directory",
        "there is no {engine} command there",
        "install Docker Engine, or set `docker: /path/to/docker` for this host in the matrix",
        "install Podman, or set `docker: /path/to/podman` for this host in the matrix",
    ),
)


def no_engine(host: str, output: str, around: Sequence[Engine] = (), *, kind: str = "docker") -> HostUnfitError:
    """What is wrong when the engine did not answer.

    Args:
        host: the host's name.
        output: what its CLI printed.
        around: engines that do answer there.
        kind: of the engine that was asked.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    cause = next((cause for cause in _CAUSES if re.search(cause.pattern, output, re.MULTILINE)), None)
    pattern = cause.pattern if cause else r"denied|not found|Cannot|refused"
    why = next((line for line in lines if re.search(pattern, line)), None)
    why = why or (lines[-1] if lines else "its CLI printed nothing")
    if around:
        return HostUnfitError(
            "root's engine does not answer, another one does",
            where=host,
            why=f"{why}; {around[0].kind} {around[0].daemon} answers at {around[0].endpoint}",
            hint=f"if that one is meant, say so in the matrix: docker_host: {around[0].endpoint}",
        )
    if cause:
        return HostUnfitError(cause.what.format(engine=kind), where=host, why=why, hint=cause.hint.get(kind))
    hint = "start it there: systemctl start docker" if kind == "docker" else f"see what `{kind} info` says there"
    return HostUnfitError("the engine does not answer", where=host, why=why, hint=hint)


def no_docker(host: str, output: str, podman: str) -> HostUnfitError | None:
    """What is wrong where Podman is there and Docker is not; None where that is not the reason.

    Args:
        host: the host's name.
        output: what the docker command printed.
        podman: what it said of its version, or what `podman --version` did where there is no such command.
    """
    if "podman" not in podman.lower():
        return None
    gone = re.search(r"not found|No such file", output)
    what = "there is no docker command, but Podman is there" if gone else "its docker command is Podman's"
    hint = f"say so in the matrix: {host}: {{engine: podman}}"
    return HostUnfitError(what, where=host, why=podman.splitlines()[-1].strip(), hint=hint)
