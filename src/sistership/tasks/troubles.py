"""What went wrong on hosts, as people read it: one block per trouble, with every host that has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sistership.report.actions import guarded
from sistership.report.table import terminal_width, wrap


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
    if why:
        columns = terminal_width()
        # A host's own words may have several lines.
        first, *rest = wrap(" ".join(why.split()), max(40, columns - 8) if columns else None)
        lines += [f"  why:  {first}", *(f"        {line}" for line in rest)]
    if hint:
        # A command is never wrapped, so that it can be copied.
        lines.append(f"  next: {hint.replace('{host}', ','.join(hosts))}")
    return guarded("\n".join(lines))
