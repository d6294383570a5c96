"""The names in a user's ssh configuration: what can be typed after `ssh`.

Only names are read here. What they mean (addresses, jump hosts, keys) stays with ssh itself.
"""

from __future__ import annotations

import glob
import os
import pwd
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

#: ssh itself follows Include no deeper (ssh_config(5)).
_DEPTH: Final = 16
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')
_WILDCARDS: Final = frozenset("*?!")
#: Git servers answer on ssh too, but run nothing.
_FORGES: Final = re.compile(
    r"(^|[.@-])(github|gitlab|bitbucket|codeberg|gitea|sourcehut|sr\.ht)([.-]|$)", re.IGNORECASE
)


def user_config() -> Path:
    """`~/.ssh/config` of the account: ssh looks there, not where `$HOME` points."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh" / "config"


def aliases(config: Path, *, base: Path | None = None) -> tuple[str, ...]:
    """Every `Host` name without a wildcard, in the order of the file, `Include`d files too; git servers left out.

    Args:
        config: the file; one that cannot be read has no names.
        base: where relative names of Include start: `~/.ssh`, whatever file includes them (ssh_config(5)).
    """
    names = dict.fromkeys(_names(config, base or user_config().parent, _DEPTH, lambda _: True))
    return tuple(name for name in names if not _FORGES.search(name))


def _names(file: Path, base: Path, depth: int, counts: Callable[[str], bool]) -> Iterator[str]:
    """The names of one file; `counts` says which of them the block around its Include leaves in force."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if depth else []
    except OSError:
        return
    block = counts
    for line in lines:
        keyword, words = _split(line)
        if keyword == "host":
            block = _within(counts, words)
            names = (word for word in words if word and not _WILDCARDS & set(word) and not word.startswith("-"))
            yield from filter(counts, names)
        elif keyword == "match":
            block = counts if words == ["all"] else _never
        elif keyword == "include":
            for path in (path for word in words for path in _included(word, base)):
                yield from _names(path, base, depth - 1, block)


def _within(outer: Callable[[str], bool], patterns: list[str]) -> Callable[[str], bool]:
    """What is in force inside a Host block: names that it matches."""
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    return lambda name: (
        outer(name)
        and any(fnmatchcase(name, pattern) for pattern in wanted)
        and not any(fnmatchcase(name, pattern) for pattern in unwanted)
    )


def _never(name: str) -> bool:
    """What is in force inside a Match block depends on more than the name."""
    del name
    return False


def _split(line: str) -> tuple[str, list[str]]:
    """Keyword in lower case and arguments of a line; `Host=a b` and quotes are legal, `#` begins a comment."""
    found = re.match(r"\s*([A-Za-z]+)\s*[=\s]\s*(.*)", line)
    if not found:
        return "", []
    words: list[str] = []
    for word in _WORD.finditer(found[2]):
        if word[1] is None and word[2].startswith("#"):
            break
        words.append(word[1] if word[1] is not None else word[2])
    return found[1].lower(), words


def _included(word: str, base: Path) -> list[Path]:
    """The files of one Include word: `~` is the home, relative names start at `base`."""
    path = Path(word).expanduser() if word.startswith("~") else base / word
    return [Path(name) for name in sorted(glob.glob(str(path)))]  # noqa: PTH207 - the word may be absolute
