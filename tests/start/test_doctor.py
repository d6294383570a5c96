"""`doctor` as a whole: this machine, hosts that answer and hosts that do not, one document."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from sistership.errors import HostUnfitError, HostUnreachableError, SistershipError
from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.kinds import commands
from sistership.host.transport import Completed, Sink
from sistership.matrix.model import Base, Host, Variant
from sistership.start import doctor, machine
from sistership.start.doctor import Report, Visit, builds, document, rows, summary, visit, visit_all
from sistership.start.findings import HERE, Finding, Level, exit_code, fine, from_error, problem, warning
from sistership.start.inquiry import Answer, parse, script

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases" / "doctor"
SCHEMA = json.loads((ROOT / "schemas" / "doctor.schema.json").read_text())


def case(name: str) -> str:
    """What a host printed in one of the cases."""
    return (CASES / f"{name}.txt").read_text().split("=== answer\n")[1].split("=== findings")[0]


class Said:
    """A way to a host that prints one of the cases, or fails."""

    def __init__(self, host: str, outcome: str | SistershipError) -> None:
        self.host = host
        self.outcome = outcome
        self.scripts: list[str] = []

    def run(
        self,
        script: str,
        *,
        stdin: bytes | Iterable[bytes] | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
        stall: float | None = None,
    ) -> Completed:
        """Note the script and answer."""
        self.scripts.append(script)
        if isinstance(self.outcome, SistershipError):
            raise self.outcome
        return Completed(0, f"\n{self.outcome}".encode(), "")

    def close(self) -> None:
        """Nothing is open."""


def peer(name: str, outcome: str | SistershipError, **row: object) -> Peer:
    """A host of an inventory that gives this outcome."""
    return Peer(Host(name, ssh=name, **row), Said(name, outcome), Docker("docker"))  # type: ignore[arg-type]


def test_another_kind_of_engine_is_asked_in_its_own_way() -> None:
    """In the same round trip; its version, store and disk are in the document as Docker's are."""
    host = Host("node", ssh="node", docker="ctr", engine="containerd")
    transport = Said("node", case("containerd"))
    found = visit(Peer(host, transport, commands(host)), 60.0)
    (asked,) = transport.scripts
    assert asked.index("sec cdi") < asked.index("ask_engine() {") < asked.rindex("ask_engine\n")
    (shown,) = document(Report((), (found,)))["hosts"]
    assert shown["engine"]["version"] == "1.7.24~ds1"
    assert shown["engine"]["store"] == "containerd"
    assert shown["engine"]["id"].endswith("/k8s.io")
    assert (shown["platform"], shown["free"]) == ("linux/amd64", 498845696 * 1024)
    denied = visit(Peer(host, Said("node", case("containerd-denied")), commands(host)), 60.0)
    (shown,) = document(Report((), (denied,)))["hosts"]
    assert (shown["reachable"], shown["engine"], shown["free"]) == (True, None, None)


def variant(name: str, **keys: object) -> Variant:
    """A variant for CPUs."""
    made = Variant(name, "fork", "main", name, "1", "cpu", None, Base("a:1", "b:1"))
    return replace(made, **keys)  # type: ignore[arg-type]


def test_one_round_trip_a_host() -> None:
    """Each host is asked once, all at the same time, and one that fails stops no other."""
    peers = [peer("a", case("gpu")), peer("b", HostUnreachableError("it does not answer")), peer("c", case("podman"))]
    heard: list[tuple[str, str]] = []
    visits = visit_all(peers, jobs=3, tell=lambda host, text: heard.append((host, text)))
    assert [len(each.transport.scripts) for each in peers] == [1, 1, 1]  # type: ignore[attr-defined]
    assert [isinstance(each.answer, Answer) for each in visits] == [True, False, True]
    assert sorted(heard) == [("a", "asking"), ("b", "asking"), ("c", "asking")]


def test_the_script_uses_the_command_of_the_inventory() -> None:
    """sudo, DOCKER_HOST and paths reach every question about the engine."""
    text = script("sudo -n env DOCKER_HOST=unix:///x.sock /opt/docker")
    assert 'timeout 15 sudo -n env DOCKER_HOST=unix:///x.sock /opt/docker "$@"' in text
    assert "TOOLS" not in text


def test_every_section_of_the_script_is_read() -> None:
    """No question is asked for nothing, and no answer is expected that was not asked for."""
    source = (ROOT / "src" / "sistership" / "start" / "inquiry.py").read_text()
    asked = {line.split()[1].rstrip(";") for line in script("docker").splitlines() if line.startswith("sec ")}
    asked.add("asroot")
    assert all(f'"{name}"' in source for name in asked), asked
    assert parse("".join(f"\n@@{name}\n?\n" for name in asked)).server is None


def test_clocks_are_compared_with_the_time_of_asking() -> None:
    """The cases' clock is years away from now, and that is seen."""
    assert abs(visit(peer("a", case("gpu")), 5).skew) > 30


def examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, peers: list[Peer], variants: list[Variant]) -> Report:
    """A report on these hosts, with this machine as it is."""

    class Open:
        """Stands for `connected`: the hosts are open already, this machine is the case "gpu"."""

        def __init__(self, hosts: list[Host]) -> None:
            known = {each.name: each for each in peers}
            self.peers = tuple(known.get(host.name) or peer(host.name, case("gpu"), local=True) for host in hosts)

        def __enter__(self) -> tuple[Peer, ...]:
            return self.peers

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(doctor, "connected", Open)
    monkeypatch.setattr(doctor, "skew_of", lambda *_: 0.0)
    return doctor.examine([each.host for each in peers], variants, tmp_path)


def test_codes_and_document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unfit goes before unreachable; the document holds every finding and host, and is valid."""
    peers = [
        peer("a", case("gpu"), gpu=("8.9",)),
        peer("b", HostUnreachableError("it does not answer", hint="is it on?")),
        peer("c", case("no-docker")),
        peer("d", case("gpu")),
    ]
    report = examined(monkeypatch, tmp_path, peers, [variant("v")])
    assert report.code == 21
    found = document(report)
    jsonschema.Draft7Validator(SCHEMA).validate(found)
    assert [each["host"] for each in found["hosts"]] == ["a", "b", "c", "d"]
    assert [each["reachable"] for each in found["hosts"]] == [True, False, True, True]
    assert found["hosts"][0]["gpus"] == [
        {"name": "NVIDIA GeForce RTX 4060 Ti", "capability": "8.9", "driver": "570.124.06"}
    ]
    assert {(each["host"], each["exit"]) for each in found["findings"] if each["exit"]} == {("b", 20), ("c", 21)}
    assert any("same engine as a" in each["what"] and each["host"] == "d" for each in found["findings"])
    only = examined(monkeypatch, tmp_path, peers[1:2], [variant("v", builders={"linux/amd64": "b"})])
    assert only.code == 20


def test_this_machine_is_asked_when_it_builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no builder is named this machine builds, and is looked at for that; else it is left alone."""
    here = examined(monkeypatch, tmp_path, [], [variant("v")])
    assert {each.subject for each in here.findings if each.host == HERE} >= {"engine", "buildx", "disk", "git", "store"}
    assert here.visits == ()
    away = examined(monkeypatch, tmp_path, [], [variant("v", builders={"linux/amd64": "b"})])
    assert not {each.subject for each in away.findings if each.host == HERE} & {"engine", "buildx"}
    local = examined(monkeypatch, tmp_path, [peer("gpu-main", case("no-buildx"), local=True)], [variant("v")])
    assert [each.host for each in local.findings if each.subject == "buildx"] == ["gpu-main"]


def test_who_builds_what() -> None:
    """A host builds the platforms it is named for; None stands for this machine."""
    both = variant("v", platforms=("linux/amd64", "linux/arm64"), builders={"linux/arm64": "pi"})
    assert (builds([both, variant("w")], "pi"), builds([both], None)) == (["linux/arm64"], ["linux/amd64"])


def report_of(*findings: Finding) -> Report:
    """A report with nothing but findings."""
    return Report(findings)


def test_a_table_shows_each_cure_below_its_finding() -> None:
    """A cure has a line of its own; --quiet leaves out what is fine."""
    report = report_of(
        fine("a", "disk", "10 GiB"), warning("a", "gpu", "old", "new driver"), problem("b", "x", "y", "z")
    )
    made, colours = rows(report)
    assert made == [
        ("a", "ok", "disk", "10 GiB"),
        ("a", "warning", "gpu", "old"),
        ("", "", "", "next: new driver"),
        ("b", "problem", "x", "y"),
        ("", "", "", "next: z"),
    ]
    assert colours == ["good", "warn", "", "bad", ""]
    assert [row[0] for row in rows(report, quiet=True)[0]] == ["a", "", "b", ""]
    assert summary(report) == "1 problem, 1 warning"
    assert summary(report_of(fine("a", "disk", "x"))) == "nothing to cure"
    assert summary(report_of(*[warning("a", "x", "y", "z")] * 2)) == "2 warnings"


def test_errors_of_other_verbs_keep_their_words_and_codes() -> None:
    """What `ship` would say is what `doctor` says."""
    found = from_error("a", "ssh", HostUnreachableError("cut", why="reset", hint="again"))
    assert (found.what, found.cure, found.code, found.level) == ("cut (reset)", "again", 20, Level.PROBLEM)
    assert exit_code([found, from_error("b", "engine", HostUnfitError("x")), fine("c", "x", "y")]) == 21
    assert exit_code([warning("a", "x", "y", "z")]) == 0


MACHINE = machine.Machine(
    "OpenSSH_9.2p1 Debian, OpenSSL 3", "git version 2.47.3", "0.23", Path("/s"), True, 1 << 40, None
)
SSH = Host("a", ssh="a")


@pytest.mark.parametrize(
    ("changed", "hosts", "level", "told"),
    [
        ({}, [SSH], Level.OK, "OpenSSH_9.2p1 Debian"),
        ({"ssh": None}, [], Level.OK, "no host needs it"),
        ({"ssh": None}, [Host("a", local=True)], Level.OK, "no host needs it"),
        ({"ssh": None}, [SSH], Level.WARNING, "paramiko is used"),
        ({"ssh": None}, [replace(SSH, transport="openssh")], Level.PROBLEM, "a must be reached by it"),
        ({"git": None}, [], Level.PROBLEM, "there is no git"),
        ({"git": "git version 2.25.1"}, [], Level.PROBLEM, "git 2.25.1 is too old: 2.29 or newer"),
        ({"git": "git version 2.39.5 (Apple Git-154)"}, [], Level.OK, "2.39.5"),
        ({"zstandard": None}, [], Level.PROBLEM, "zstandard is missing"),
        ({"writable": False}, [], Level.PROBLEM, "/s cannot be written"),
        ({"free": 1 << 30}, [], Level.WARNING, "1.0 GiB free"),
        ({"free": None}, [], Level.OK, "zstandard 0.23"),
        ({"synchronised": False}, [], Level.WARNING, "not synchronised"),
        ({"synchronised": True}, [], Level.OK, "synchronised"),
    ],
)
def test_this_machine(changed: dict[str, object], hosts: list[Host], level: Level, told: str) -> None:
    """Each thing that is missing here is told with its cure, and only where it is needed."""
    found = machine.judge(replace(MACHINE, **changed), hosts)  # type: ignore[arg-type]
    assert any(each.level is level and told in each.what for each in found), found
    assert all(each.level is Level.OK or each.cure for each in found)


def test_looking_at_this_machine(tmp_path: Path) -> None:
    """The real machine answers: git is there (the tests need it), a folder that does not exist yet can be made."""
    found = machine.look(tmp_path / "a" / "b")
    assert (found.git or "").startswith("git version ")
    assert found.writable
    assert (found.free or 0) > 0
    assert found.zstandard
    assert not machine.look(Path("/proc/x")).writable or machine.os.geteuid() == 0


def test_our_own_clock_is_told() -> None:
    """When the others agree with each other, it is ours."""
    found = machine.clock_finding(-92.4, ["a", "b"])
    assert (found.host, found.what) == (HERE, "about 92 s behind that of a, b, which agree with each other")


def test_a_visit_keeps_the_error() -> None:
    """What went wrong is in the visit, with its own exit code."""
    error = HostUnreachableError("x")
    assert visit(peer("a", error), 5) == Visit(Host("a", ssh="a"), error)


def test_the_script_runs_in_a_plain_shell() -> None:
    """On this machine, with a command that is no engine: facts that need no engine are there, nothing is said aloud."""
    done = subprocess.run(["sh", "-c", script("false")], capture_output=True, text=True, check=True, timeout=60)
    found = parse(done.stdout)
    assert found.system.startswith(os.uname().sysname)
    assert found.clock is not None
    assert abs(found.clock - time.time()) < 60
    assert "gzip" in found.tools
    assert found.cache
    assert (found.server, found.info) == (None, {})
    assert done.stderr == ""
