"""What went wrong on hosts, as people read it: one block per trouble, with every host that has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sistership.report.actions import guarded


@dataclass(frozen=True)
class HostTrouble:
    """One host's trouble; `next` may hold `{host}`."""

    host: str
    what: str
    why: str = ""
    next: str = ""


def blocks(troubles: Iterable[HostTrouble]) -> str:
    """Blocks of at most three lines: hosts and what, why, next. Hosts with the same trouble share one."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for each in troubles:
        why = "" if each.why == each.what else each.why.removeprefix(f"{each.what}: ")
        grouped.setdefault((each.what, why, each.next), []).append(each.host)
    return "\n".join(_block(hosts, *key) for key, hosts in grouped.items())


def _block(hosts: list[str], what: str, why: str, hint: str) -> str:
    lines = [f"{', '.join(hosts)}: {what}"]
    # A host's own words may have several lines.
    lines += [f"  why:  {' '.join(why.split())}"] if why else []
    lines += [f"  next: {hint.replace('{host}', ','.join(hosts))}"] if hint else []
    return guarded("\n".join(lines))
