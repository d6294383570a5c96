"""A program's arguments, checked against the `--help` of that very program before anything is started.

Options come and go between commits of llama.cpp and differ between its forks, and a server that does not know one ends
after the old one was stopped. Every build keeps what its programs print for `--help`; nothing here knows an option by
heart but those that a deployment fills in or cannot do without.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_NAME: Final = r"--?[A-Za-z][A-Za-z0-9_-]*"
#: `-ngl,  --gpu-layers, --n-gpu-layers N    how many …`, and in the worker's and the bench's help two spaces before it.
_LINE: Final = re.compile(rf"^ {{0,4}}(?P<names>{_NAME}(?:,\s*{_NAME})*)(?P<values>(?: [^\s-]\S*)*)(?:\s{{2,}}|\s*$)")
#: `[on|off|auto]`, `<0|1>`, `{none,linear,yarn}`: every value that there is.
_CHOICES: Final = re.compile(r"^(?:[\[<](?P<bars>[\w.-]+(?:\|[\w.-]+)+)[\]>]|\{(?P<commas>[\w.-]+(?:,[\w.-]+)+)\})$")


@dataclass(frozen=True)
class Option:
    """An option as a program's help has it.

    Attributes:
        names: every spelling, as `-ngl`, `--gpu-layers`.
        values: what follows it, a word for each, as the help names them; empty for a switch.
    """

    names: tuple[str, ...]
    values: tuple[str, ...] = ()

    def choices(self, number: int) -> tuple[str, ...]:
        """The values that there are for the word of this number, counted from 0; empty where any may be."""
        found = _CHOICES.match(self.values[number])
        if found is None:
            return ()
        return tuple(found["bars"].split("|") if found["bars"] else found["commas"].split(","))


@dataclass(frozen=True)
class Help:
    """What a program can be told.

    Attributes:
        program: its name, for messages.
        options: by every name.
    """

    program: str
    options: Mapping[str, Option] = field(default_factory=dict, hash=False)

    def nearest(self, name: str) -> str | None:
        """The option that was probably meant: other dashes before the same word, or a similar word."""
        word = name.lstrip("-")
        for other in (f"-{word}", f"--{word}"):
            if other in self.options:
                return other
        close = difflib.get_close_matches(name, self.options, n=1, cutoff=0.6)
        return close[0] if close else None


@dataclass(frozen=True)
class Given:
    """An option on a command line.

    Attributes:
        name: as it was written.
        at: which word of the arguments it is, counted from 0.
    """

    option: Option
    name: str
    values: tuple[str, ...]
    at: int


@dataclass(frozen=True)
class Trouble:
    """What is wrong with an argument.

    Attributes:
        at: which word, counted from 0; -1: something is missing.
        what: one sentence.
        hint: the next step.
    """

    at: int
    what: str
    hint: str


def parse(text: str, program: str) -> Help:
    """Read what a program printed for `--help`: llama.cpp's common form, its bench's, or its worker's."""
    options: dict[str, Option] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        option = Option(tuple(re.split(r",\s*", found["names"])), tuple(found["values"].split()))
        for name in option.names:
            options.setdefault(name, option)
    return Help(program, options)


def given(args: Sequence[str], known: Help) -> tuple[list[Given], list[Trouble]]:
    """The options of a command line, and what the program would not understand of it."""
    found: list[Given] = []
    troubles: list[Trouble] = []
    at = 0
    while at < len(args):
        word, first = args[at], at
        at += 1
        option = known.options.get(word)
        if option is None:
            troubles.append(_unknown(word, first, known))
            # The value of an option that is not known is no second mistake.
            if word.startswith("-") and "=" not in word and at < len(args) and not args[at].startswith("-"):
                at += 1
            continue
        values = tuple(args[at : at + len(option.values)])
        at += len(values)
        if len(values) < len(option.values):
            troubles.append(
                Trouble(first, f"{word} has no value", f"{known.program} wants {' '.join((word, *option.values))}")
            )
            continue
        troubles += _bad_values(word, values, option, first)
        found.append(Given(option, word, values, first))
    return found, troubles


def _unknown(word: str, at: int, known: Help) -> Trouble:
    if not word.startswith("-"):
        return Trouble(at, f"{word!r} is no option, and belongs to none", "give options and their values one by one")
    name, equals, _ = word.partition("=")
    if equals and name in known.options:
        return Trouble(at, f"{known.program} reads no {name}=…", f"write the value as a word of its own: {name} …")
    close = known.nearest(name)
    hint = f"did you mean {close}?" if close else "`sistership check` shows what this image's programs can be told"
    return Trouble(at, f"{known.program} of this image has no option {name}", hint)


def _bad_values(word: str, values: Sequence[str], option: Option, at: int) -> Iterable[Trouble]:
    for number, value in enumerate(values):
        choices = option.choices(number)
        if choices and value not in choices:
            yield Trouble(at + 1 + number, f"{word} {value}: there is no such value", f"one of {', '.join(choices)}")


#: What a deployment says itself, in fields of its own, and writes into the server's arguments.
_FILLED_IN: Final[Mapping[str, str]] = {
    "--rpc": "`workers:` and the tunnel decide it",
    "--host": "write `server: bind:`",
    "--port": "write `server: port:`",
    "--model": "write `server: model:`",
}
_LAYERS: Final = "--gpu-layers"
_DEVICES: Final = "--device"
_SPLIT: Final = "--tensor-split"


def server_troubles(args: Sequence[str], known: Help, *, workers: int) -> list[Trouble]:
    """What is wrong with the arguments that a deployment gives its server; empty when all is well.

    Args:
        known: the help of that image's server.
        workers: how many the server connects to.
    """
    found, troubles = given(args, known)
    said = {name: each for each in found for name in each.option.names}
    for name, instead in _FILLED_IN.items():
        if each := said.get(name):
            troubles.append(Trouble(each.at, f"{each.name} is filled in by sistership", instead))
    if _LAYERS in known.options and _LAYERS not in said:
        # Left out, the server fits layers to what is free and spills the rest to the CPU: it comes up healthy and slow.
        short = known.options[_LAYERS].names[0]
        troubles.append(Trouble(-1, f"{short} is missing", f"say how many layers go to the cards: {short} 99"))
    troubles += _lists(said, workers)
    return sorted(troubles, key=lambda trouble: trouble.at)


def _lists(said: Mapping[str, Given], workers: int) -> Iterable[Trouble]:
    lists = {name: each for name in (_DEVICES, _SPLIT) if (each := said.get(name))}
    for each in lists.values():
        if "/" in each.values[0]:
            right = f"{each.name} {each.values[0].replace('/', ',')}"
            yield Trouble(each.at + 1, f"{each.name} {each.values[0]} is llama-bench's spelling", f"write {right}")
            return
    if devices := lists.get(_DEVICES):
        yield from _absent(devices, workers)
    if len(lists) == 2:  # noqa: PLR2004 - both
        names, shares = (each.values[0].split(",") for each in (lists[_DEVICES], lists[_SPLIT]))
        if len(names) != len(shares):
            what = f"{lists[_SPLIT].name} has {len(shares)} shares for {len(names)} devices of {lists[_DEVICES].name}"
            yield Trouble(lists[_SPLIT].at + 1, what, "give a share for each device, in their order")


def _absent(devices: Given, workers: int) -> Iterable[Trouble]:
    for name in devices.values[0].split(","):
        number = re.fullmatch(r"RPC(\d+)", name)
        if number and not workers:
            yield Trouble(
                devices.at + 1, f"{name} is a worker's device, and there is no worker", "add it to `workers:`"
            )
