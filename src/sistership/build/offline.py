"""Builds from archived bases: they are loaded on the builder under names of ours, and the Dockerfile says those.

A name that no registry serves and that the engine holds is never looked for on a network (measured on Engine 26.1,
classic and containerd stores). `--build-context NAME=oci-layout://…` would leave the Dockerfile alone, but the classic
store refuses it: "unknown scheme oci-layout".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from sistership.errors import BuildError
from sistership.host.inventory import Peer
from sistership.image.bases import Base
from sistership.image.identity import Image
from sistership.image.layout import Store
from sistership.image.release import OWN_REGISTRY, Release, short
from sistership.recipe.recipe import Recipe
from sistership.report.listeners import Reporter
from sistership.ship.host import ship_host
from sistership.ship.load import remove_name
from sistership.verify.verdict import Kind

_FROM: Final = re.compile(r"(?i)^(\s*FROM\s+(?:--platform=\S+\s+)?)(\S+)(?:\s+AS\s+(\S+))?")
_COPY: Final = re.compile(r"(?i)^(\s*(?:COPY|ADD)\s+(?:--\S+\s+)*?--from=)([^\s\\]+)")
_MOUNT: Final = re.compile(r"(--mount=[^\s\\]*?\bfrom=)([^\s,\\]+)")
_HEREDOC: Final = re.compile(r"(?i)^\s*(?:RUN|COPY|ADD)\s.*<<-?\s*([\"']?)(\w+)\1")
_SYNTAX: Final = re.compile(r"(?i)^#\s*syntax\s*=\s*(\S+)")


def offline(dockerfile: str, names: Mapping[str, str]) -> str:
    """The Dockerfile with its bases under other names, so that nothing in it comes from a registry.

    Names of bases are in no layer and no label, so the image stays the same.

    Args:
        dockerfile: the rendered text.
        names: reference → the name that the builder's engine has it under.

    Raises:
        BuildError: it takes something else from a registry too.
    """
    stages, lines, heredoc = {"scratch"}, [], ""
    for number, line in enumerate(dockerfile.split("\n"), start=1):
        if heredoc:
            heredoc = "" if line.strip() == heredoc else heredoc
            lines.append(line)
            continue
        if number == 1 and (syntax := _SYNTAX.match(line)):
            raise _elsewhere(syntax[1], number)
        if line.lstrip().startswith("#"):
            lines.append(line)
            continue
        found = _FROM.match(line)
        for pattern in (_FROM, _COPY, _MOUNT):
            line = pattern.sub(lambda match: _renamed(match, names, stages, number), line)  # noqa: B023, PLW2901
        if found and found[3]:
            stages.add(found[3].lower())
        opened = _HEREDOC.match(line)
        heredoc = opened[2] if opened else ""
        lines.append(line)
    return "\n".join(lines)


def _renamed(match: re.Match[str], names: Mapping[str, str], stages: Collection[str], line: int) -> str:
    word = match[2]
    if word.lower() in stages or (word.isdigit() and match.re is not _FROM):
        return match[0]
    if word not in names:
        raise _elsewhere(word, line)
    return match[0].replace(word, names[word], 1)


def _elsewhere(what: str, line: int) -> BuildError:
    return BuildError(
        f"the Dockerfile takes {what} from a registry, and only the bases of the lock are archived",
        where=f"line {line} of what `sistership render` prints",
        hint="leave it out of the template, or build with a registry",
    )


def release_of(recipe: Recipe, image: Image, config: bytes) -> Release:
    """A base as something that is shipped to the builder, under names of this recipe alone.

    Two builds at once never take a base away from each other, unless they build the same; and what a killed one left
    behind is found and removed by the next.
    """
    reference = f"{OWN_REGISTRY}/base-{recipe.key[:12]}:{short(image.config)}"
    return Release(f"the base {short(image.config)}", recipe.key, reference, image, fields=json.loads(config))


def releases(recipe: Recipe, bases: Mapping[Base, Image], store: Store) -> dict[str, Release]:
    """Each pin and what is sent to the builder for it."""
    return {base.reference: release_of(recipe, image, store.read(image.config)) for base, image in bases.items()}


@contextmanager
def lent(
    peer: Peer, recipe: Recipe, bases: Mapping[str, Release] | None, store: Store, reporter: Reporter
) -> Iterator[Recipe]:
    """The recipe as it is sent to a builder that holds its bases for as long as the block lasts.

    They travel as every image does: only layers that the engine lacks, resumed by the byte, and verified when loaded.

    Args:
        bases: see `releases`, the store has all their blobs; None: the registry has them, and the recipe stays as
            it is.

    Raises:
        BuildError: a base did not arrive whole, or the Dockerfile takes something else from a registry.
        SistershipError: the builder is unreachable or not fit.
    """
    if bases is None:
        yield recipe
        return
    names = {pin: release.reference for pin, release in bases.items()}
    sent = replace(recipe, dockerfile=offline(recipe.dockerfile, names))
    try:
        for reference, release in bases.items():
            reporter.step(peer.name, f"archived base {reference.partition('@')[0]}")
            shipped = ship_host(peer, [release], store, reporter)
            if shipped.error:
                raise shipped.error
            if shipped.verdict.kind is not Kind.OK:
                raise BuildError(
                    f"the archived base {reference} is {shipped.verdict.kind} after it was loaded",
                    where=peer.name,
                    why=shipped.verdict.why or None,
                    hint="build again; if it stays so, `sistership doctor` looks at the builder",
                )
        yield sent
    finally:
        for release in bases.values():
            remove_name(peer, release.unique)
            remove_name(peer, release.reference)
