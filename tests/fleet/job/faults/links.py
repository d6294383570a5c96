"""The cables to the hosts, as the tests hold them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from . import relay

PATIENCE = 90


@dataclass(frozen=True)
class Link:
    """The cable to one host; see relay.py."""

    folder: Path

    def clear(self) -> None:
        """Whole again, nothing counted, no rule."""
        for name in ("rule", "down", "reached"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "counted").write_bytes(b"")

    def rule(self, at: int, deed: str) -> None:
        """`deed` after `at` bytes, counted from the last `clear`."""
        new = self.folder / "rule.new"
        new.write_text(f"{at} {deed}")
        new.rename(self.folder / "rule")

    def reached(self) -> bool:
        """Whether the rule's byte was reached."""
        return (self.folder / "reached").exists()

    def let_go(self) -> None:
        """What is held goes on."""
        (self.folder / "rule").unlink(missing_ok=True)

    def mend(self) -> None:
        """A cut cable carries again."""
        self.let_go()
        (self.folder / "down").unlink(missing_ok=True)

    def counted(self) -> tuple[int, int]:
        """Bytes to the host and from it, since the last `clear`."""
        with (self.folder / "counted").open("rb") as stream:
            return relay.counted(stream.fileno())


def lay(folder: Path, ssh_config: Path, hosts: Iterable[str]) -> tuple[dict[str, Link], Path]:
    """A cable for each host, and the ssh_config that leads through them."""
    links = {}
    for host in hosts:
        (folder / host).mkdir(parents=True)
        links[host] = Link(folder / host)
        links[host].clear()
    own = folder / "ssh_config"
    command = f"{sys.executable} -S {Path(relay.__file__).resolve()} {folder}/%n %h %p"
    own.write_text(f"Include {ssh_config}\n\nHost {' '.join(links)}\n    ProxyCommand {command}\n")
    return links, own


def until(true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until a callable gives true.

    Raises:
        AssertionError: it did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.05)
