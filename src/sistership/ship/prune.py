"""Housekeeping on hosts: older images of ours and staged files that nobody needs, under the lock of ships."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sistership.errors import IdentityError, SistershipError
from sistership.host.answers import SECTION, sections
from sistership.host.commands import Commands
from sistership.host.engines import BY_HAND
from sistership.host.facts import HostFacts, probe
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.report.listeners import Reporter
from sistership.report.words import joined, mebibytes
from sistership.ship.hostlock import HostLock
from sistership.ship.leftovers import LISTING, Leftover, leftovers, removal, staged
from sistership.ship.older import Fate, Ours, fates, freed
from sistership.ship.twins import same_engines
from sistership.verify.hosts import on_all

#: What the engine did with a name, by the words of removal_script.
_REMOVED, _MOVED, _REFUSED = "removed", "moved", "refused"


@dataclass(frozen=True)
class Older:
    """What `ship --keep` keeps: whose images, and how many of each variant for a rollback."""

    ours: Ours
    keep: int


@dataclass(frozen=True)
class Pruned:
    """What prune found on one host, and did.

    Attributes:
        fates: of every image of ours; those that go last.
        leftovers: staged files that go.
        freed: bytes that went; None: nothing was done yet.
        refused: name → why it is still there.
        error: why nothing could be found or done; None when it could.
        twin: another name of the same engine, under which it was done; "" for none.
    """

    host: str
    facts: HostFacts | None = None
    fates: tuple[Fate, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    freed: int | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    error: SistershipError | None = None
    twin: str = ""

    @property
    def going(self) -> tuple[Fate, ...]:
        """The images whose names go."""
        return tuple(fate for fate in self.fates if fate.goes)

    @property
    def frees(self) -> int:
        """Bytes that go when it is done."""
        return sum(fate.frees for fate in self.going) + sum(each.staged.size for each in self.leftovers)

    @property
    def pending(self) -> bool:
        """Whether there is something to remove that is still there."""
        return self.freed is None and bool(self.going or self.leftovers)

    @property
    def code(self) -> int:
        """The host's exit code."""
        return self.error.code if self.error else (SistershipError.code if self.refused else 0)


def prune_all(peers: Sequence[Peer], older: Older, reporter: Reporter, *, act: bool, jobs: int = 16) -> list[Pruned]:
    """What is to go on each host; with `act` it goes. One host's trouble stops no other."""
    twins = same_engines(peers, reporter, jobs=jobs)
    own = [peer for peer in peers if peer.name not in twins]
    found = dict(zip((peer.name for peer in own), on_all(own, _on(older, reporter, act=act), jobs=jobs), strict=True))
    return [
        replace(Pruned(peer.name), twin=twins[peer.name], error=found[twins[peer.name]].error)
        if peer.name in twins
        else found[peer.name]
        for peer in peers
    ]


def _on(older: Older, reporter: Reporter, *, act: bool) -> Callable[[Peer], Pruned]:
    def one(peer: Peer) -> Pruned:
        """Never raises for what is wrong there."""
        try:
            # Looking changes nothing, so that alone takes no lock from a ship.
            with HostLock(peer) if act else contextlib.nullcontext():
                found = look(peer, older)
                return remove(peer, found, older.ours, reporter) if act else found
        except SistershipError as error:
            reporter.step(peer.name, f"failed: {error.what}")
            return Pruned(peer.name, error=error)

    return one


def tidy(peer: Peer, older: Older, reporter: Reporter) -> None:
    """Remove older images after a ship, whose lock is held; trouble here spoils no ship, it is told."""
    try:
        found = remove(peer, look(peer, older), older.ours, reporter)
    except SistershipError as error:
        reporter.step(peer.name, f"warning: older images are still there: {error.what}")
        return
    for name, why in found.refused.items():
        reporter.step(peer.name, f"warning: {name} is still there: {why}")


def usage_script(engine: Commands) -> str:
    """Asks what every container was made from, running or not, and what is staged."""
    return f"""{engine.functions}
{SECTION}
said=$(used_images); rc=$?
sec status; echo "$rc"
sec used; printf '%s\\n' "$said"
{LISTING}
true
"""


def look(peer: Peer, older: Older) -> Pruned:
    """What is to go on one host. Changes nothing.

    Raises:
        HostUnreachableError, HostUnfitError: it cannot be asked.
        IdentityError: its engine does not say what containers use, so nothing can be removed.
    """
    facts = probe(peer)
    answer = sections(peer.transport.run(usage_script(peer.engine), timeout=120).text)
    status = answer.get("status", "").splitlines() or ["no answer"]
    told = answer.get("used", "")
    if status[0] != "0":
        raise IdentityError(
            "the engine does not say which images its containers use; nothing was removed",
            where=peer.name,
            why=told.splitlines()[-1][:200] if told else None,
            hint=f"see what `{BY_HAND[peer.engine.kind]['containers']}` says there, then run it again",
        )
    clock = answer.get("now", "").strip()
    now = datetime.fromtimestamp(int(clock), UTC) if clock.isdigit() else None
    return Pruned(
        peer.name,
        facts,
        fates(facts, usage(told), older.ours, older.keep, now),
        leftovers(staged(clock, answer.get("leftovers", ""))),
    )


def usage(text: str) -> dict[str, str]:
    """Image ID in hex → name of a container made from it."""
    pairs = (line.split(None, 1) for line in text.splitlines())
    return {pair[0].removeprefix("sha256:"): pair[-1].strip().lstrip("/") for pair in pairs if pair}


def removal_script(engine: Commands, going: Sequence[Fate], found: Sequence[Leftover]) -> str:
    """Removes names, each only as long as it names the image that was looked at, and staged files.

    Never by force, so that the engine itself keeps what a container began to use meanwhile; and without parents, which
    are other people's when an image was built there by hand.
    """
    drops = "\n".join(f"drop {quote(fate.image.id, name)}" for fate in going for name in fate.names)
    return f"""{engine.functions}
drop() {{
  [ "$(image_id "$2")" = "$1" ] || {{ echo "{_MOVED} $2"; return; }}
  if said=$(drop_name "$2" 2>&1); then echo "{_REMOVED} $2"; else
    echo "{_REFUSED} $2 $(printf '%s\\n' "$said" | tail -n 1)"
  fi
}}
{drops}
{removal(found)}
"""


def remove(peer: Peer, found: Pruned, ours: Ours, reporter: Reporter) -> Pruned:
    """Remove what was found; the host's lock is held. Gives what really went.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    if found.facts is None or not found.pending:
        return replace(found, freed=0)
    done = peer.transport.run(removal_script(peer.engine, found.going, found.leftovers), timeout=1800)
    said = [line.split(None, 2) for line in done.text.splitlines()]
    removed = {words[1] for words in said if len(words) > 1 and words[0] == _REMOVED}
    refused = {words[1]: [*words, "no reason given"][2] for words in said if len(words) > 1 and words[0] == _REFUSED}
    if done.status != 0:
        refused[f"{len(found.leftovers)} staged files"] = done.err.strip()[-200:] or f"exit status {done.status}"
    gone = [fate.image for fate in found.going if removed.issuperset(fate.names)]
    stays = [image for image in found.facts.images if image not in gone]
    size = sum(freed(gone, stays, ours.sizes, found.facts.store).values())
    size += sum(each.staged.size for each in found.leftovers) if done.status == 0 else 0
    what = joined((_count(len(gone), "older image"), _count(len(found.leftovers), "staged file")))
    reporter.step(peer.name, f"removed {what or 'nothing'}: {mebibytes(size)}")
    return replace(found, freed=size, refused=refused)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}" if number else ""
