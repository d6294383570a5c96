"""A new project: what is written, what it says, and that it loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sistership.errors import HostUnreachableError, UsageError
from sistership.host.engines import Engine
from sistership.matrix.load import load, parse
from sistership.matrix.model import Host, Matrix
from sistership.resources import bundled
from sistership.start.doctor import Visit
from sistership.start.init import check, edits, text, write
from sistership.start.inquiry import Answer
from sistership.start.inventory import HERE, Row, archs, hosts_of, row, unasked
from sistership.start.nvidia import Gpu, Smi

DOCKER = {"Version": "26.1.4", "Os": "linux", "Arch": "amd64"}
PLAIN = Answer(
    system="Linux x86_64",
    tools=frozenset({"sha256sum"}),
    server=DOCKER,
    info={"ID": "x"},
    buildx="github.com/docker/buildx v0.14",
)
CARD = Smi((Gpu("NVIDIA GeForce RTX 4060 Ti", "8.9", "570.1"), Gpu("NVIDIA GeForce RTX 5060 Ti", "12.0", "570.1")))


def found(answer: Answer | HostUnreachableError) -> Row:
    """The row of a host that answered this."""
    return row(Visit(Host("gpu-a", ssh="gpu-a"), answer))


def loaded(rows: list[Row], tmp_path: Path) -> Matrix:
    """The matrix of a new project with these rows; it must have neither faults nor warnings."""
    matrix = parse(text(rows).encode(), tmp_path / "buildmatrix.yaml")
    assert matrix.warnings == ()
    return matrix


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (PLAIN, "gpu-a: {}  # Docker 26.1.4"),
        (
            replace(PLAIN, smi=CARD),
            'gpu-a: {gpu: ["8.9", "12.0"]}  # Docker 26.1.4, NVIDIA GeForce RTX 4060 Ti, NVIDIA GeForce RTX 5060 Ti',
        ),
        (replace(PLAIN, smi=Smi((Gpu("Tesla T4", None, None),))), "gpu-a: {}  # Docker 26.1.4, Tesla T4"),
        (replace(PLAIN, server={**DOCKER, "Arch": "arm64"}), "gpu-a: {platform: linux/arm64}  # Docker 26.1.4"),
        (replace(PLAIN, server=None, as_root=DOCKER), "gpu-a: {sudo: true}  # Docker 26.1.4"),
        (replace(PLAIN, server=None, elsewhere=("/opt/docker",)), "gpu-a: {docker: /opt/docker}  # Docker"),
        (
            replace(PLAIN, server=None, daemons={"/run/user/1/docker.sock": ("y", "26")}),
            "gpu-a: {docker_host: unix:///run/user/1/docker.sock}  # Docker",
        ),
        (
            replace(PLAIN, daemons={"/var/run/docker.sock": ("x", "26"), "/run/user/1/docker.sock": ("y", "26")}),
            "gpu-a: {}  # Docker 26.1.4, several engines run there: choose one with docker_host",
        ),
        (
            replace(PLAIN, server=None, server_text="sh: docker: not found"),
            "# gpu-a: {}  # there is no docker command there",
        ),
        (
            replace(PLAIN, server=None, cli="podman version 4.9"),
            "gpu-a: {engine: podman}  # podman version 4.9",
        ),
        (
            replace(PLAIN, server=None, podman="podman version 5.4", programs={"podman": "/usr/bin/podman"}),
            "gpu-a: {engine: podman}  # podman version 5.4",
        ),
        (
            replace(
                PLAIN,
                server=None,
                uid=1000,
                programs={"ctr": "/usr/bin/ctr"},
                sockets=("/run/k3s/containerd/containerd.sock",),
            ),
            (
                'gpu-a: {engine: containerd, docker_host: "unix:///run/k3s/containerd/containerd.sock", sudo: true}'
                "  # containerd"
            ),
        ),
        (Answer(), "# gpu-a: {}  # it ran nothing of what it was asked"),
        (HostUnreachableError("it does not answer"), "# gpu-a: {}  # it does not answer"),
    ],
)
def test_rows(answer: Answer | HostUnreachableError, line: str, tmp_path: Path) -> None:
    """What was found decides the row; a host that cannot be shipped to is a comment with the reason."""
    made = found(answer)
    assert " ".join(made.text.split()) == " ".join(line.split())
    matrix = loaded([made], tmp_path)
    assert list(matrix.hosts) == ([] if line.startswith("#") else ["gpu-a"])
    assert list(matrix.groups) == list(matrix.hosts)[:0] + (["workers"] if matrix.hosts else [])


def test_archs_are_those_of_the_cards(tmp_path: Path) -> None:
    """The new matrix compiles for the cards that were found, in CMake's spelling, as far as its toolkit can."""
    rows = [
        found(replace(PLAIN, smi=CARD)),
        Row("gb10", capabilities=("12.1", "9.9")),
        Row("x", usable=False, capabilities=("7.5",)),
    ]
    assert archs(rows) == ("89", "120a")
    variant = loaded(rows, tmp_path).variants["llamacpp"]
    assert variant.cuda is not None
    assert variant.cuda.archs == ("89", "120a")


def test_without_hosts_there_are_examples(tmp_path: Path) -> None:
    """No ssh configuration, no engine: the matrix loads, and shows what a host looks like."""
    assert "# gpu-worker: {gpu:" in text([])
    matrix = loaded([], tmp_path)
    assert (matrix.hosts, matrix.groups, list(matrix.variants)) == ({}, {}, ["llamacpp"])


def test_a_builder_is_named_where_this_machine_cannot(tmp_path: Path) -> None:
    """Docker 20.10 here, buildx there: that host builds. With buildx here, this machine does."""
    old = Row(HERE, ("local: true",), builds=False)
    assert loaded([old, found(PLAIN)], tmp_path).builders == {"linux/amd64": "gpu-a"}
    assert loaded([replace(old, builds=True), found(PLAIN)], tmp_path).builders == {}
    assert loaded([old], tmp_path).builders == {}


def test_a_named_ssh_configuration_is_written_down(tmp_path: Path) -> None:
    """With --ssh-config the hosts are reached by it."""
    matrix = parse(text([found(PLAIN)], Path("/etc/lab/ssh_config")).encode(), tmp_path / "buildmatrix.yaml")
    assert matrix.hosts["gpu-a"].ssh_config == Path("/etc/lab/ssh_config")


def test_aliases_become_names() -> None:
    """An alias that can be no name gets one; two never share one; ours is taken."""
    hosts = hosts_of(["gpu-a", "root@10.0.0.9", "root-10.0.0.9", "here", "two words", "-x"])
    assert [(host.name, host.ssh) for host in hosts] == [
        ("gpu-a", "gpu-a"),
        ("root-10.0.0.9", "root@10.0.0.9"),
        ("root-10.0.0.9-2", "root-10.0.0.9"),
        ("here-2", "here"),
        ("x", "-x"),
    ]
    assert unasked(hosts[1]).text == "root-10.0.0.9: {ssh: root@10.0.0.9}"


def test_the_two_edits_are_where_init_says(tmp_path: Path) -> None:
    """The line numbers lead to variants and hosts."""
    lines = text([]).splitlines()
    assert [lines[number - 1] for number in edits(text([]))] == ["variants:", "hosts:"]


def test_lines_fit_a_screen() -> None:
    """What we write ourselves has no line over 130 columns (a digest is long)."""
    assert max(map(len, text([found(PLAIN)]).splitlines())) <= 130


def test_files(tmp_path: Path) -> None:
    """Matrix, schema and .gitignore in a folder that did not exist; templates only when asked for."""
    folder = tmp_path / "a" / "b"
    made = write(folder, text([]), templates=False)
    assert [each.path.name for each in made] == ["buildmatrix.yaml", "buildmatrix.schema.json", ".gitignore"]
    assert (folder / ".gitignore").read_text() == ".sistership/\n"
    assert load(folder / "buildmatrix.yaml").warnings == ()
    other = tmp_path / "c"
    write(other, text([]), templates=True)
    copied = {path.relative_to(other): path.read_bytes() for path in other.glob("dockerfiles/**/*") if path.is_file()}
    assert copied == {
        Path("dockerfiles") / path.relative_to(bundled("dockerfiles")): path.read_bytes()
        for path in bundled("dockerfiles").glob("**/*")
        if path.is_file()
    }


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """A matrix or templates that exist stop it before anything is written; .gitignore keeps its lines."""
    (tmp_path / ".gitignore").write_text("*.log")
    write(tmp_path, text([]), templates=False)
    assert (tmp_path / ".gitignore").read_text() == "*.log\n.sistership/\n"
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="nothing is ever written over") as caught:
        write(tmp_path, "x", templates=False)
    assert "--output" in (caught.value.hint or "")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "new" / "dockerfiles").mkdir(parents=True)
    with pytest.raises(UsageError, match="dockerfiles exists"):
        check(tmp_path / "new", templates=True)
    (tmp_path / "new" / "buildmatrix.schema.json").write_text("mine")
    write(tmp_path / "new", text([]), templates=False)
    assert (tmp_path / "new" / "buildmatrix.schema.json").read_text() == "mine"


def test_engines_of_an_answer() -> None:
    """One engine at two sockets is one."""
    sockets = {"/var/run/docker.sock": ("x", "26"), "/run/user/1/docker.sock": ("x", "26")}
    assert replace(PLAIN, daemons=sockets).engines == (Engine("unix:///run/user/1/docker.sock", "x"),)
