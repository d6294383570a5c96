"""`snapshot:` of a variant: the moment as of which the package archive of the compiling stage is read.

apt of Ubuntu 24.04 and later asks Ubuntu's archive for any moment by itself (`apt-get --snapshot`).
Other distributions keep dated archives elsewhere or not at all, so their package stage floats.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sistership.matrix import names
from sistership.matrix.shape import UNREADABLE

if TYPE_CHECKING:
    from sistership.matrix.context import Context
    from sistership.matrix.schema import VariantRow

#: Written in the matrix: the lock decides for a moment.
AUTO: Final = "auto"
#: Written in the matrix: the package stage floats, and nothing is said about it.
NONE: Final = "none"

_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_SPELLINGS: Final = (_FORMAT, "%Y-%m-%d", "%Y%m%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S")
#: Ubuntu's archive keeps every moment since then.
_FIRST: Final = datetime(2023, 3, 1, tzinfo=UTC)
_SINCE: Final = (24, 4)
_CODENAMES: Final = {"bionic": (18, 4), "focal": (20, 4), "jammy": (22, 4), "noble": (24, 4), "plucky": (25, 4),
                     "questing": (25, 10), "resolute": (26, 4)}  # fmt: skip
#: Distributions without apt, or whose apt cannot ask for a moment.
_OTHERS: Final = re.compile(r"(^|[/-])(alpine|almalinux|amazonlinux|archlinux|centos|fedora|rockylinux|ubi)\d*($|[:-])")
_OLD_DEBIAN: Final = ("buster", "bullseye", "bookworm", "10", "11", "12")


def moment(text: str) -> str:
    """A moment as apt writes it, "20260501T000000Z", from any of the usual spellings of a UTC date.

    Raises:
        TextError: it is none, or before the archive kept moments.
    """
    for spelling in _SPELLINGS:
        try:
            found = datetime.strptime(text, spelling).replace(tzinfo=UTC)
        except ValueError:
            continue
        if found < _FIRST:
            raise names.TextError(f'"{text}" is before 2023-03-01, the first moment that archives keep')
        return found.strftime(_FORMAT)
    raise names.TextError(f'"{text}" is no date', "write 2026-05-01, 20260501T120000Z, auto or none")


def stamp(now: datetime) -> str:
    """The moment `now` as apt writes it, to the minute."""
    return now.astimezone(UTC).replace(second=0).strftime(_FORMAT)


def answers(reference: str) -> bool | None:
    """Whether the archive of a base image can be read as of a moment; None where the name does not tell."""
    try:
        parsed = names.parse_reference(reference)
    except names.TextError:
        return None
    tag, name = parsed.tag or "", parsed.path.rpartition("/")[2]
    release = _ubuntu(name, tag)
    if release:
        return release >= _SINCE
    if name == "debian" and tag.startswith(_OLD_DEBIAN):
        return False
    return False if _OTHERS.search(f"{parsed.path}:{tag}") else None


def _ubuntu(name: str, tag: str) -> tuple[int, int] | None:
    """The release of an Ubuntu base, from its own name or from a tag like 12.8.1-devel-ubuntu24.04."""
    found = re.search(r"ubuntu-?(\d\d)\.(\d\d)", tag)
    if name == "ubuntu":
        found = re.match(r"(\d\d)\.(\d\d)", tag)
    if found:
        return int(found[1]), int(found[2])
    return next((number for word, number in _CODENAMES.items() if name == "ubuntu" and tag.startswith(word)), None)


def snapshot(name: str, row: VariantRow, context: Context, base: str, packages: tuple[str, ...]) -> str:
    """What the variant wants: "auto", a moment, "none", or "" where the package stage floats without being asked to.

    Args:
        base: reference of the image that compiles.
        packages: what the package stage installs.
    """
    own = "snapshot" in row.model_fields_set
    wanted = row.snapshot if own else context.defaults.snapshot
    path = context.where(name, "snapshot", own=own)
    if wanted in {UNREADABLE, NONE} or not packages:
        return NONE
    if wanted == AUTO:
        return AUTO if answers(base) else ""
    if not context.findings.check(path, wanted, moment):
        return ""
    if answers(base) is False and own:
        message = f"snapshot: the package archive of {base} cannot be read as of a moment"
        context.findings.problem(path, message, "take a base of Ubuntu 24.04 or later, or write snapshot: none")
    return moment(wanted) if answers(base) is not False else ""


def pins(wanted: str) -> bool:
    """Whether a variant's `snapshot` gives its package stage a moment."""
    return wanted not in {"", NONE}
