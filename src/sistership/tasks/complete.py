"""`sistership --complete SHELL …`: what the completion scripts ask, with the verbs as Invoke has them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sistership.errors import UsageError
from sistership.start import completion
from sistership.start.completion import Flag, Verb
from sistership.tasks.verb import matrix_path

if TYPE_CHECKING:
    from invoke import Collection

    from sistership.start.names import Names


def complete(arguments: Sequence[str], collection: Collection) -> None:
    """Print what fits.

    Args:
        arguments: the shell, then its words after the program's name, the last at the cursor;
            for bash its own idea of the word at the cursor and the whole line up to it.
        collection: the verbs.
    """
    shell, *words = arguments or [""]
    own = None
    if shell == "bash":
        own, line = (*words, "", "")[:2]
        words = completion.split(line)[1:]
    found = completion.offer(words, verbs(collection), _names)
    if own is not None:
        found = completion.cut(found, words[-1] if words else "", own)
    sys.stdout.write(completion.answer(found))


def verbs(collection: Collection) -> dict[str, Verb]:
    """Each verb with its flags, as Invoke's parser has them."""
    found = {}
    for context in collection.to_contexts():
        arguments = [argument for argument in context.args.values() if not argument.positional]
        flags = [
            Flag("--" + argument.name.replace("_", "-"), argument.help or "", argument.takes_value)
            for argument in arguments
        ]
        flags += [Flag(inverse, f"not {flag}", value=False) for inverse, flag in context.inverse_flags.items()]
        positional = sum(1 for argument in context.args.values() if argument.positional)
        if context.name:
            help_text = (collection[context.name].__doc__ or "").strip().partition("\n")[0]
            found[context.name] = Verb(help_text, tuple(sorted(flags, key=lambda flag: flag.name)), positional)
    return dict(sorted(found.items(), key=lambda item: ("." in item[0], item[0])))


def _names(matrix: str | None) -> Names:
    from sistership.start.names import Names, read  # noqa: PLC0415 - PyYAML is needed for names only

    try:
        return read(matrix_path(str(Path(matrix).expanduser()) if matrix else None))
    except UsageError:
        return Names()
