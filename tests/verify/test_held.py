"""One image on a host: which one is meant, and one file of it."""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from sistership.errors import ShipError
from sistership.host.docker import Docker
from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.host.inventory import Peer
from sistership.host.transport import Completed
from sistership.matrix.model import Host
from sistership.verify.held import MOST, file_of, held, save

ONE = HeldImage("sha256:" + "a" * 64, ("docker.io/library/x:v1", "x:latest"), (), "linux/amd64", {}, "")
TWO = replace(ONE, id="sha256:" + "a" * 10 + "b" * 54, tags=())
FACTS = HostFacts("26.1.5", "classic", "d", "linux/amd64", None, None, one_disk=True, staged={}, tools=frozenset(),
                  images=(ONE, TWO))  # fmt: skip


class Engine:
    """A way to this machine with an engine made of shell."""

    host = "a"

    def __init__(self, folder: Path, text: str) -> None:
        self.docker = folder / "docker"
        self.docker.write_text(f"#!/bin/sh\ncd {folder}\n{text}")
        self.docker.chmod(0o755)

    def run(self, script: str, *, stdin=None, sink=None, timeout=None, stall=None) -> Completed:
        """Run a script here."""
        del stdin, timeout, stall
        done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
        if sink:
            sink(done.stdout)
        return Completed(done.returncode, b"" if sink else done.stdout, done.stderr.decode())

    def close(self) -> None:
        """Nothing is open."""

    @property
    def peer(self) -> Peer:
        """The host."""
        return Peer(Host(name="a", local=True), self, Docker(str(self.docker)))


@pytest.mark.parametrize("name", ["x:v1", "x", "docker.io/library/x:v1", "a" * 64, "sha256:" + "a" * 64])
def test_image_by_reference_and_id(name: str) -> None:
    """A reference however it is written, without a tag the one that engines add, and an ID."""
    assert held("a", FACTS, [name]) is ONE


def test_first_name_that_is_there_counts() -> None:
    """The name that people use comes first, our own serves where it is gone."""
    assert held("a", FACTS, ["gone:v1", "x:v1"]) is ONE
    assert held("a", FACTS, ["aaaaaaaaaabbb"]) is TWO


@pytest.mark.parametrize(("name", "words"), [("y:v1", "there is no image y:v1"), ("aaaaaaaa", "does not say which"),
                                             ("aaaaa", "there is no image aaaaa")])  # fmt: skip
def test_what_is_not_there_or_not_clear(name: str, words: str) -> None:
    """Exit 22; digits that several IDs begin with, or very few, are never taken for one."""
    with pytest.raises(ShipError, match=words):
        held("a", FACTS, [name])


def engine(tmp_path: Path, copy: str) -> Engine:
    """An engine whose `cp` does this."""
    lines = ('echo "$1" >> asked', 'case "$1" in', "create) echo warning >&2; echo made ;;", f"cp) {copy} ;;",
             "inspect|rm) ;;", "*) exit 1 ;;", "esac", "")  # fmt: skip
    return Engine(tmp_path, "\n".join(lines))


def tar(path: Path, size: int, kind: bytes = tarfile.REGTYPE) -> None:
    """A tar with one entry."""
    with tarfile.open(path, "w") as out:
        info = tarfile.TarInfo("f")
        info.size, info.type = size, kind
        out.addfile(info, io.BytesIO(b"x" * size))


def test_a_file_and_the_container_is_gone(tmp_path: Path) -> None:
    """The file's bytes; the container that it came from is removed."""
    tar(tmp_path / "f.tar", 1000)
    assert file_of(engine(tmp_path, "cat f.tar").peer, ONE.id, "/f") == b"x" * 1000
    assert (tmp_path / "asked").read_text().split() == ["create", "cp", "rm"]


def test_no_such_file_is_not_an_engine_that_failed(tmp_path: Path) -> None:
    """None where the engine still answers, an error where it does not; the container is removed in both cases."""
    assert file_of(engine(tmp_path, "exit 1").peer, ONE.id, "/f") is None
    assert (tmp_path / "asked").read_text().split()[-1] == "rm"
    with pytest.raises(ShipError):
        file_of(Engine(tmp_path, 'case "$1" in create) echo made ;; *) exit 1 ;; esac\n').peer, ONE.id, "/f")
    with pytest.raises(ShipError, match="no container can be made"):
        file_of(Engine(tmp_path, "echo no >&2; exit 1\n").peer, ONE.id, "/f")


def test_what_is_no_small_file(tmp_path: Path) -> None:
    """A link is not followed, and a huge file is an error instead of filling the memory."""
    tar(tmp_path / "f.tar", 0, tarfile.SYMTYPE)
    assert file_of(engine(tmp_path, "cat f.tar").peer, ONE.id, "/f") is None
    tar(tmp_path / "f.tar", MOST + 1)
    with pytest.raises(ShipError, match="cannot be read"):
        file_of(engine(tmp_path, "cat f.tar").peer, ONE.id, "/f")


def test_save_tells_why_it_failed(tmp_path: Path) -> None:
    """The engine's own words, with the host."""
    out = io.BytesIO()
    save(Engine(tmp_path, 'echo "$2"\n').peer, ONE.id, out.write)
    assert out.getvalue().decode().strip() == ONE.id
    with pytest.raises(ShipError, match="cannot save") as error:
        save(Engine(tmp_path, "echo blob missing >&2; exit 1\n").peer, ONE.id, out.write)
    assert (error.value.where, error.value.why) == ("a", "blob missing")
