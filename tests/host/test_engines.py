"""Several engines on one machine, none, or one elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sistership.errors import HostUnfitError
from sistership.host.docker import Docker
from sistership.host.engines import Engine, engines, no_engine, refuse_elsewhere, refuse_several
from sistership.host.facts import HostFacts, parse, refuse_other_platform, same_daemons
from sistership.host.transport import Completed
from sistership.matrix.model import Host

ROOTS = Engine("unix:///var/run/docker.sock", "AAAA")
OWN = Engine("unix:///run/user/1000/docker.sock", "BBBB")
FACTS = HostFacts("26.1.5", "classic", "ID1", "linux/amd64", None, None, False, {}, frozenset(), (), "boot1")


def test_two_engines_and_no_choice() -> None:
    """With root's and a rootless engine running and none chosen, both are named and nothing is done (case C37)."""
    with pytest.raises(HostUnfitError) as caught:
        refuse_several("gpu-b", "unix:///var/run/docker.sock", (OWN, ROOTS))
    text = str(caught.value)
    assert "root's AAAA at unix:///var/run/docker.sock" in text
    assert "rootless BBBB at unix:///run/user/1000/docker.sock" in text
    assert "docker_host: unix:///run/user/1000/docker.sock" in text


def test_one_engine_or_a_choice_made_there_is_fine() -> None:
    """One engine, one engine at two sockets, or a context chosen on the host is no question."""
    refuse_several("gpu-b", "", (ROOTS,))
    refuse_several("gpu-b", "unix:///run/user/1000/docker.sock", (OWN, ROOTS))
    assert len(engines("unix:///run/user/0/docker.sock AAAA\nunix:///var/run/docker.sock AAAA\n")) == 1


def test_only_the_rootless_engine_answers() -> None:
    """With root's engine stopped the error names the line that chooses the other."""
    error = no_engine("gpu-b", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", (OWN,))
    assert "docker_host: unix:///run/user/1000/docker.sock" in str(error)
    assert "BBBB" in str(error)
    server = "@@engines\nunix:///run/user/1000/docker.sock BBBB\n@@version\nCannot connect\n"
    with pytest.raises(HostUnfitError, match="another one does"):
        parse(Host("gpu-b"), Docker("docker"), Completed(0, server.encode(), ""))


def test_looking_around_costs_nothing_without_a_socket_of_ones_own(tmp_path: Path) -> None:
    """The docker command is only run where the user has a socket; each engine that answers is printed."""
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$2" >> "$0.log"\necho "ID-$(basename "$(dirname "$2")")"\n')
    docker.chmod(0o755)
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}

    def look() -> str:
        argv = ["sh", "-c", f"{Docker(str(docker)).functions}\nlook_around"]
        return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False).stdout

    assert look() == ""
    assert not docker.with_name("docker.log").exists()
    own = tmp_path / "docker.sock"
    make = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1])"
    subprocess.run([sys.executable, "-c", make, str(own)], check=True)
    assert next(engine.endpoint for engine in engines(look())) == f"unix://{own}"


@pytest.mark.parametrize(
    ("output", "words", "hint"),
    [
        ("sudo: sorry, you must have a tty to run sudo", "sudo asks", "NOPASSWD"),
        ("Sorry, user x is not allowed to execute '/usr/bin/docker info' as root on h.", "does not allow", "sudoers"),
        ("sh: 1: sudo: not found", "no sudo there", "docker group"),
        ('unable to resolve docker endpoint: context "x": context not found: open /root/', "no docker context", "ls"),
        ("sh: 1: /opt/x/docker: not found", "no docker command", "docker: /path"),
    ],
)
def test_more_ways_without_an_engine(output: str, words: str, hint: str) -> None:
    """sudo without a terminal, without the right, without being there; an unknown context; a wrong path."""
    error = no_engine("gpu-b", output)
    assert words in error.what
    assert hint in str(error)


def test_banner_is_no_cause() -> None:
    """Words of the host's banner, which ssh prints on standard error, never stand for what the engine's CLI said."""
    done = Completed(0, b"@@version\nsh: 1: docker: not found\n", "*** Permission denied (to strangers) ***\n")
    with pytest.raises(HostUnfitError, match="no docker command"):
        parse(Host("gpu-b"), Docker("docker"), done)


def test_remote_client_that_leads_elsewhere() -> None:
    """A context on the host that leads to another machine is refused there too (case C54)."""
    with pytest.raises(HostUnfitError, match="leads to ssh://prod, not to that machine"):
        refuse_elsewhere("gpu-b", "ssh://prod", local=False)


def test_platform_of_the_matrix_is_checked() -> None:
    """`platform:` of a host is a promise that its engine must keep; variants of one architecture count as one."""
    refuse_other_platform("h", None, "linux/amd64")
    refuse_other_platform("h", "linux/arm64/v8", "linux/arm64")
    with pytest.raises(HostUnfitError, match="the matrix says linux/arm64, its engine is linux/amd64"):
        refuse_other_platform("h", "linux/arm64", "linux/amd64")


def test_two_names_of_one_engine() -> None:
    """Two hosts with one daemon ID are one machine (case C54), unless their kernels say otherwise: a cloned disk."""
    facts = {
        "a": FACTS,
        "b": replace(FACTS, daemon="ID2"),
        "c": FACTS,
        "clone": replace(FACTS, boot="boot2"),
        "silent": replace(FACTS, daemon=""),
        "mute": replace(FACTS, daemon=""),
    }
    assert same_daemons(facts) == (("a", "c"),)


def test_boot_is_read() -> None:
    """The kernel's run is among the facts."""
    info = json.dumps({"ID": "X", "DriverStatus": []})
    text = f'@@boot\nabc-1\n@@version\n{{"Version":"26.1"}}\n@@info\n{info}\n@@info_status\n0\n@@images_status\n0\n'
    assert parse(Host("h"), Docker("docker"), Completed(0, text.encode(), "")).boot == "abc-1"
