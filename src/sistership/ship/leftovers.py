"""What ships left in a host's staging folder for too long, or more of it than there should be. Pure but for scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sistership.host.facts import STAGE
from sistership.host.transport import quote

DAY: Final = 86400
#: Seconds after which a staged file counts as left behind: nobody goes on with a ship of last week.
MAX_AGE: Final = 7 * DAY
#: Bytes that may lie in the staging folder of a host where no ship is under way.
CAP: Final = 20_000_000_000
#: A folder for blobs that a host unpacks: this name, a dot and the number of the shell that made it.
COPIES: Final = "copies"
_COPIES: Final = re.compile(rf"{COPIES}(\.[0-9].*)?")


@dataclass(frozen=True)
class Staged:
    """A file in the staging folder: its name, its bytes, seconds since it was last written by the host's own clock."""

    file: str
    size: int
    age: int


@dataclass(frozen=True)
class Leftover:
    """A staged file that goes, and why."""

    staged: Staged
    why: str


#: Prints the host's own time and `BYTES SECONDS NAME` for each staged file; GNU, BusyBox and BSD differ in `stat`.
LISTING: Final = f"""
sec now; date +%s
sec leftovers; [ ! -d {STAGE} ] || (cd {STAGE} && for f in *; do
  case "$f" in {COPIES}|{COPIES}.[0-9]*) size=$(($(du -sk "$f" | cut -f1) * 1024)) ;;
    *) [ -f "$f" ] || continue; size=$(wc -c < "$f") ;; esac
  echo "$size $(stat -c %Y "$f" 2>/dev/null || stat -f %m "$f") $f"
done)
"""


#: Removes files older than MAX_AGE and what killed runs were unpacking; a ship that ended well does it beside its own.
AGED: Final = f"""
cd {STAGE} 2>/dev/null && {{
  find . ! -name . -prune -type f -mtime +{MAX_AGE // DAY - 1} -exec rm -f -- {{}} +
  rm -rf -- {COPIES} {COPIES}.[0-9]*
}}
true
"""


def staged(now: str, listing: str) -> tuple[Staged, ...]:
    """The files that LISTING printed; a line that cannot be read is left out."""
    found: list[Staged] = []
    for line in listing.splitlines():
        size, written, file, *_ = [*line.strip().split(None, 2), "", "", ""]
        if size.isdigit() and written.isdigit() and file and now.isdigit():
            found.append(Staged(file, int(size), max(0, int(now) - int(written))))
    return tuple(found)


def leftovers(files: Iterable[Staged], *, max_age: int = MAX_AGE, cap: int = CAP) -> tuple[Leftover, ...]:
    """What goes: files older than `max_age` seconds, then the oldest until at most `cap` bytes stay."""
    found: list[Leftover] = []
    oldest_first = sorted(files, key=lambda each: (-each.age, each.file))
    total = sum(each.size for each in oldest_first)
    for each in oldest_first:
        if each.age > max_age:
            found.append(Leftover(each, f"left {each.age // DAY} days ago"))
        elif total > cap:
            found.append(Leftover(each, f"staging holds more than {cap // 1_000_000_000} GB"))
        else:
            continue
        total -= each.size
    return tuple(found)


def removal(found: Sequence[Leftover]) -> str:
    """Shell that removes them."""
    if not found:
        return ":"
    names = [each.staged.file for each in found]
    folders = [name for name in names if _COPIES.fullmatch(name)]
    files = [name for name in names if name not in folders]
    removes = [f"{how} -- {quote(*each)}" for how, each in (("rm -f", files), ("rm -rf", folders)) if each]
    return f"(cd {STAGE} && {' && '.join(removes)})"
