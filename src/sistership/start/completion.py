"""What a shell may offer after what was typed so far. Pure: words in, offers out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sistership.errors import UsageError

if TYPE_CHECKING:
    from sistership.start.names import Names

SHELLS: Final = ("bash", "zsh", "fish")

#: Before the verb; the rest of Invoke's own flags is for its developers.
CORE: Final[Mapping[str, str]] = {
    "--help": "what a verb does and which flags it has",
    "--list": "all verbs",
    "--version": "the version of sistership",
}


@dataclass(frozen=True)
class Flag:
    """A flag of a verb; `value`: it takes one."""

    name: str
    help: str
    value: bool


@dataclass(frozen=True)
class Verb:
    """A verb as the command line knows it; `positional`: how many words it takes besides flags."""

    help: str
    flags: tuple[Flag, ...]
    positional: int = 0


class Paths(StrEnum):
    """Whether the shell shall offer names of files as well."""

    NONE = ""
    FILES = "files"
    FOLDERS = "folders"


#: Flags whose value is a path.
_FILES: Final = frozenset({"--expect", "--matrix", "--out", "--output", "--plan", "--ssh-config"})
#: Flags with few values that are known here.
_VALUES: Final[Mapping[str, Sequence[str]]] = {
    "--format": ("table", "github"),
    "--platform": ("linux/amd64", "linux/arm64"),
    "--via": ("registry", "direct"),
}
#: Flags whose value is a name of the matrix.
_NAMES: Final = frozenset({"--builder", "--hosts", "--source", "--variant"})
#: What stands after a verb without a flag, where it is no other verb's matter.
_OPERANDS: Final[Mapping[str, Sequence[str]]] = {"check": (), "completion": SHELLS, "diff": (), "import": ()}


@dataclass(frozen=True)
class Offer:
    """What fits: words (with what they mean), and paths.

    Attributes:
        open_ended: more may follow without a space, as after `FORK=`.
    """

    words: Mapping[str, str] = field(default_factory=dict)
    paths: Paths = Paths.NONE
    open_ended: bool = False


def offer(words: Sequence[str], verbs: Mapping[str, Verb], names: Callable[[str | None], Names]) -> Offer:
    """What fits at the end of a command line.

    Args:
        words: typed so far without the program's name; the last is the one at the cursor, "" when it is empty.
        verbs: by name.
        names: reads the names of a matrix, given the value of --matrix or None.
    """
    *before, word = words or [""]
    verb_name = next((item for item in before if item in verbs), None)
    if verb_name is None or (before and before[-1] == "--help"):
        chosen = {name: verb.help for name, verb in verbs.items()}
        return Offer(_starting(word, CORE if word.startswith("-") else chosen))
    verb = verbs[verb_name]
    taking = {flag.name for flag in verb.flags if flag.value}
    if word.startswith("--") and "=" in word:
        flag, _, value = word.partition("=")
        found = _value(flag, value, before, names) if flag in taking else Offer()
        return Offer({f"{flag}={text}": note for text, note in found.words.items()}, found.paths, found.open_ended)
    if before and before[-1] in taking:
        return _value(before[-1], word, before, names)
    if verb_name in _OPERANDS and not word.startswith("-"):
        return _operand(verb_name, word, before, names)
    used = {item.partition("=")[0] for item in before} - {"--source"}
    return Offer(_starting(word, {flag.name: flag.help for flag in verb.flags if flag.name not in used}))


def _operand(verb: str, word: str, before: Sequence[str], names: Callable[[str | None], Names]) -> Offer:
    """What fits after a verb without a flag: its own words, or files; `check` and `diff` take variants too."""
    own = names(_matrix(before)).variants if verb in {"check", "diff"} else _OPERANDS[verb]
    return Offer(_starting(word, dict.fromkeys(own, "")), Paths.NONE if _OPERANDS[verb] else Paths.FILES)


def _value(flag: str, typed: str, before: Sequence[str], names: Callable[[str | None], Names]) -> Offer:
    """What fits as the value of a flag."""
    if flag in _FILES:
        return Offer(paths=Paths.FILES)
    if flag in _VALUES:
        return Offer(_starting(typed, dict.fromkeys(_VALUES[flag], "")))
    if flag == "--source" and "=" in typed:
        return Offer(paths=Paths.FOLDERS)
    if flag in _NAMES:
        return _named(flag, typed, names(_matrix(before)))
    return Offer()


def _named(flag: str, typed: str, found: Names) -> Offer:
    """The names of the matrix that fit as the value of a flag; lists where the flag takes lists."""
    if flag == "--source":
        return Offer(_starting(typed, {f"{fork}=": "fork" for fork in found.forks}), open_ended=True)
    if flag == "--builder":
        return Offer(_starting(typed, dict.fromkeys(found.hosts, "host")))
    if flag == "--variant":
        return Offer(_listed(typed, dict.fromkeys(found.variants, "variant")))
    return Offer(_listed(typed, {**dict.fromkeys(found.hosts, "host"), **dict.fromkeys(found.groups, "group")}))


def _matrix(before: Sequence[str]) -> str | None:
    """The value of --matrix among the words, if it was given."""
    for index, word in enumerate(before):
        if word == "--matrix" and index + 1 < len(before):
            return before[index + 1]
        if word.startswith("--matrix="):
            return word.partition("=")[2]
    return None


def _listed(typed: str, known: Mapping[str, str]) -> dict[str, str]:
    """Names for the last part of a comma list, `^` kept; what the list has already is not offered again."""
    head, comma, last = typed.rpartition(",")
    mark = "^" if last.startswith("^") else ""
    taken = {part.removeprefix("^") for part in head.split(",")}
    fresh = {name: note for name, note in known.items() if name not in taken}
    return {f"{head}{comma}{mark}{name}": note for name, note in _starting(last.removeprefix("^"), fresh).items()}


def _starting(word: str, known: Mapping[str, str]) -> dict[str, str]:
    return {name: note for name, note in known.items() if name.startswith(word)}


def answer(found: Offer) -> str:
    """An offer as the shell scripts read it: first what kind of paths and whether a space follows, then the words."""
    head = f"{found.paths} {'open' if found.open_ended else 'closed'}".strip()
    lines = [f"{word}\t{_one_line(note)}" for word, note in found.words.items()]
    return "".join(f"{line}\n" for line in (head, *lines))


def _one_line(note: str) -> str:
    return " ".join(note.split())


def split(line: str) -> list[str]:
    """A command line up to the cursor in words as the shell will see them; "" at the end when a new word begins."""
    for closing in ("", '"', "'"):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        return words if closing or not line[-1:].isspace() else [*words, ""]
    return line.split()


def cut(found: Offer, token: str, own: str) -> Offer:
    """An offer for bash, which replaces only `own`, its own idea of the word at the cursor: it cuts words at `=`.

    Args:
        token: the whole word at the cursor.
        own: the part of it that bash replaces.
    """
    own = "" if own == "=" else own
    prefix = token[: len(token) - len(own)] if token.endswith(own) else ""
    words = {word.removeprefix(prefix): note for word, note in found.words.items() if word.startswith(prefix)}
    return Offer(words, found.paths, found.open_ended)


def script(shell: str) -> str:
    """The completion script of a shell.

    Raises:
        UsageError: none for that shell.
    """
    if shell not in SHELLS:
        raise UsageError(f"there is no completion for {shell}", hint=f"choose one of: {', '.join(SHELLS)}")
    return Path(__file__).with_name("shells").joinpath(f"sistership.{shell}").read_text()
