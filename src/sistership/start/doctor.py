"""`doctor`: this machine, then every host at once, one round trip each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sistership.errors import SistershipError
from sistership.host.engines import engine_chosen
from sistership.host.inventory import Peer, connected
from sistership.matrix.model import Host, Variant
from sistership.start import inquiry, machine
from sistership.start.findings import HERE, Finding, Level, exit_code, fine, from_error
from sistership.start.inquiry import Answer
from sistership.start.judge import Wanted, judge, one_daemon_two_names, skew_of, whose_clock

_SECONDS = 90.0

#: Hears a host's name and what is done with it.
Tell = Callable[[str, str], None]


@dataclass(frozen=True)
class Visit:
    """What came of asking one host.

    Attributes:
        answer: what it said, or why there is none.
        seconds: how long that took.
        skew: how far its clock is ahead of ours.
    """

    host: Host
    answer: Answer | SistershipError
    seconds: float = 0.0
    skew: float = 0.0


@dataclass(frozen=True)
class Report:
    """Everything that was found, this machine first."""

    findings: tuple[Finding, ...]
    visits: tuple[Visit, ...] = ()

    @property
    def code(self) -> int:
        """The exit code: 0, or 21 or 20 of the problems."""
        return exit_code(self.findings)


def examine(
    hosts: Sequence[Host],
    variants: Sequence[Variant],
    store: Path,
    *,
    jobs: int = 16,
    tell: Tell | None = None,
) -> Report:
    """Look at this machine and at `hosts`.

    Args:
        hosts: whom to ask; none where there is no project.
        variants: what is meant to be built and shipped.
        tell: hears which host is asked.
    """
    asked, here = _wanted(hosts, variants)
    with connected([each.host for each in (*asked, *([here] if here else []))]) as peers:
        visits = visit_all(peers, jobs=jobs, tell=tell)
    found = machine.judge(machine.look(store), hosts)
    ours = whose_clock([(each.host.name, each.skew) for each in visits if isinstance(each.answer, Answer)])
    if ours is not None:
        found.append(machine.clock_finding(ours, [each.host.name for each in visits]))
    if here is not None:
        found += [finding for finding in _on(here, visits[-1]) if finding.subject in {"engine", "buildx", "disk"}]
    for wanted, visit in zip(asked, visits, strict=False):
        found += _on(wanted, visit)
    visits = visits[: len(asked)]
    found += one_daemon_two_names([(v.host.name, v.answer) for v in visits if isinstance(v.answer, Answer)])
    return Report(tuple(found), tuple(visits))


def builds(variants: Sequence[Variant], host: str | None) -> list[str]:
    """The platforms that a host builds for; None: this machine, which builds where no builder is named."""
    pairs = [(platform, variant.builders.get(platform)) for variant in variants for platform in variant.platforms]
    return list(dict.fromkeys(platform for platform, builder in pairs if builder == host))


def _wanted(hosts: Sequence[Host], variants: Sequence[Variant]) -> tuple[list[Wanted], Wanted | None]:
    """What is wanted of each host, and of this machine where it builds and is not one of them."""
    ours = builds(variants, None)
    local = next((host for host in hosts if host.local and not engine_chosen(host)), None)
    asked = [
        Wanted(host, tuple(variants), tuple(builds(variants, host.name) + (ours if host is local else [])))
        for host in hosts
    ]
    here = Wanted(Host(HERE, local=True), (), tuple(ours)) if ours and local is None else None
    return asked, here


def _on(wanted: Wanted, visit: Visit) -> list[Finding]:
    """Findings on one host, whether it answered or not."""
    name = wanted.host.name
    if isinstance(visit.answer, SistershipError):
        return [from_error(name, "engine" if wanted.host.local else "ssh", visit.answer)]
    found = judge(wanted, visit.answer, visit.skew)
    if wanted.host.local:
        return found
    return [fine(name, "ssh", f"answers {visit.answer.user or 'us'} in {visit.seconds:.1f} s"), *found]


def visit_all(peers: Sequence[Peer], *, jobs: int, tell: Tell | None = None, seconds: float = _SECONDS) -> list[Visit]:
    """Ask every peer, at most `jobs` at a time; results in the order of `peers`."""
    if not peers:
        return []

    def work(peer: Peer) -> Visit:
        if tell:
            tell(peer.name, "asking")
        return visit(peer, seconds)

    with ThreadPoolExecutor(max_workers=min(jobs, len(peers)), thread_name_prefix="host") as pool:
        futures = [pool.submit(work, peer) for peer in peers]
        try:
            return [future.result() for future in futures]
        except BaseException:
            # An interrupt: end the programs that the other threads wait for, or this pool never closes.
            for peer in peers:
                peer.transport.close()
            raise


def visit(peer: Peer, seconds: float) -> Visit:
    """Ask one host; never raises for what is wrong there."""
    before, began = time.time(), time.monotonic()
    try:
        functions = "" if peer.engine.kind == "docker" else peer.engine.functions
        done = peer.transport.run(inquiry.script(peer.engine.cli, functions), timeout=seconds)
    except SistershipError as error:
        return Visit(peer.host, error)
    own = inquiry.own_answer(peer.engine, peer.host, done.text, done.err)
    answer = replace(inquiry.parse(done.text), own=own)
    return Visit(peer.host, answer, time.monotonic() - began, skew_of(answer.clock, before, time.time()))


def document(report: Report) -> dict[str, Any]:
    """The document of `doctor --json`."""
    return {
        "version": 1,
        "type": "doctor",
        "exit": report.code,
        "findings": [
            {
                "level": str(each.level),
                "host": None if each.host == HERE else each.host,
                "subject": each.subject,
                "what": each.what,
                "cure": each.cure,
                "exit": each.code,
            }
            for each in report.findings
        ],
        "hosts": [_host(each) for each in report.visits],
    }


def _host(visit: Visit) -> dict[str, Any]:
    answer = visit.answer
    if isinstance(answer, SistershipError):
        return {"host": visit.host.name, "reachable": False, "engine": None, "platform": None, "free": None, "gpus": []}
    return {
        "host": visit.host.name,
        "reachable": True,
        "engine": _engine(answer),
        "platform": answer.platform or None,
        "free": answer.room,
        "gpus": [
            {"name": gpu.name, "capability": gpu.capability, "driver": gpu.driver}
            for gpu in (answer.smi.gpus if answer.smi else ())
        ],
    }


def _engine(answer: Answer) -> dict[str, Any] | None:
    if answer.engine:
        return {"version": answer.engine.version, "store": answer.engine.store, "id": answer.daemon or None}
    if answer.own is not None or not answer.server:
        return None
    return {"version": str(answer.server.get("Version", "")), "store": answer.store, "id": answer.daemon or None}


def rows(report: Report, *, quiet: bool = False) -> tuple[list[tuple[str, str, str, str]], list[str]]:
    """The table's rows (host, level, subject, what; a cure has a row of its own) and the colour of each level.

    Args:
        quiet: leave out what is fine.
    """
    colours = {Level.OK: "good", Level.WARNING: "warn", Level.PROBLEM: "bad"}
    made, painted = [], []
    for each in report.findings:
        if quiet and each.level is Level.OK:
            continue
        made.append((each.host, str(each.level), each.subject, each.what))
        painted.append(colours[each.level])
        if each.cure:
            made.append(("", "", "", f"next: {each.cure}"))
            painted.append("")
    return made, painted


def summary(report: Report) -> str:
    """The last line: what there is to do."""
    problems, warnings = (
        sum(each.level is level for each in report.findings) for level in (Level.PROBLEM, Level.WARNING)
    )
    told = [(problems, "problem"), (warnings, "warning")]
    parts = [f"{number} {word}{'' if number == 1 else 's'}" for number, word in told if number]
    return ", ".join(parts) or "nothing to cure"
