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

_NAME: Final = r"--?[A-Za-z][A-Za-z0-9_.-]*"
_BRACKETS: Final = r"<[^>]*>|\[[^\]]*\]|\{[^}]*\}"
#: `N`, `<csv|json>`, `<tensor name pattern>=<buffer type>,...`: blanks inside brackets end no value.
_VALUE: Final = rf"(?:{_BRACKETS}|[^\s<\[{{(-])(?:{_BRACKETS}|[^\s<\[{{])*"
#: The names of an option and its values, with or without a description behind them on the same line:
#: `-ngl,  --gpu-layers, --n-gpu-layers N   max. …` · `-H HOST, --host HOST   …` · `-ot --override-tensor <…>=<…>` ·
#: `-o, --output <csv|json> output format …`. Further values are words in capitals, which no description begins with.
_LINE: Final = re.compile(
    rf"^ {{0,9}}(?P<names>{_NAME}(?:(?: [A-Z]+)?,\s*{_NAME}| {_NAME})*)"
    rf"(?: (?P<values>{_VALUE}(?: [A-Z][A-Z0-9_]*(?=\s|$))*))?(?=\s|$)"
)
#: `[on|off|auto]`, `<0|1>`, `{none,linear,yarn}`: every value that there is.
_CHOICES: Final = re.compile(r"^(?:[\[<](?P<bars>[\w.-]+(?:\|[\w.-]+)+)[\]>]|\{(?P<commas>[\w.-]+(?:,[\w.-]+)+)\})$")
#: What llama.cpp reads besides the words that its help names.
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "on": ("enabled", "true", "1"),
    "off": ("disabled", "false", "0"),
    "auto": ("-1",),
}


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
        several: an option may have several values with commas between them, as the bench's have.
    """

    program: str
    options: Mapping[str, Option] = field(default_factory=dict, hash=False)
    several: bool = False

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
    """Read what a program printed for `--help`: llama.cpp's common form of any age, its bench's, or its worker's."""
    options: dict[str, Option] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        names = tuple(re.findall(rf"(?<![\w-]){_NAME}", found["names"]))
        # The worker of old names the value behind each name: `-H HOST, --host HOST`.
        values = tuple(each[0] for each in re.finditer(_VALUE, found["values"] or ""))
        for name in names:
            options.setdefault(name, Option(names, values))
    return Help(program, options, several="Multiple values can be given" in text)


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
        troubles += _bad_values(word, values, option, first, several=known.several)
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


def _bad_values(word: str, values: Sequence[str], option: Option, at: int, *, several: bool) -> Iterable[Trouble]:
    for number, value in enumerate(values):
        choices = option.choices(number)
        also = {other for choice in choices for other in _ALSO.get(choice, ())} if {*choices} <= {*_ALSO} else set()
        parts = value.split(",") if several else [value]
        if choices and not {*parts} <= {*choices} | also:
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
    devices, split = said.get(_DEVICES), said.get(_SPLIT)
    if devices and "/" in devices.values[0]:
        # The server takes both signs between shares, but one between devices.
        right = f"{devices.name} {devices.values[0].replace('/', ',')}"
        what = f"{devices.name} {devices.values[0]} is llama-bench's spelling"
        yield Trouble(devices.at + 1, what, f"write {right}")
        return
    if devices:
        yield from _absent(devices, workers)
    if devices and split:
        names, shares = devices.values[0].split(","), re.split(r"[,/]", split.values[0])
        if len(names) != len(shares):
            what = f"{split.name} has {len(shares)} shares for {len(names)} devices of {devices.name}"
            yield Trouble(split.at + 1, what, "give a share for each device, in their order")


def _absent(devices: Given, workers: int) -> Iterable[Trouble]:
    for name in devices.values[0].split(","):
        number = re.fullmatch(r"RPC(\d+)", name)
        if number and not workers:
            yield Trouble(
                devices.at + 1, f"{name} is a worker's device, and there is no worker", "add it to `workers:`"
            )
