"""From a row of the matrix to a recipe: resolve once, write it down, and build from what is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sistership.errors import LockError
from sistership.matrix import snapshots
from sistership.recipe import patches, render
from sistership.recipe.key import digest, recipe_key
from sistership.recipe.labels import address, labels
from sistership.recipe.lock import LockedVariant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sistership.matrix.model import Matrix, Variant
    from sistership.recipe.source import Source, Sources


@dataclass(frozen=True)
class Recipe:
    """Everything that decides an image's bytes, for one variant and platform.

    Attributes:
        key: 64 hex digits.
        dockerfile: the rendered text.
        instructions: the COPY lines of the final stage, one per own layer, in order.
        created: date of the commit, "2026-05-01T10:00:00Z".
        scripts: support scripts of the build context, name → bytes.
        repo: git directory that holds `tree`; None until `materialise` gave it.
    """

    variant: Variant
    platform: str
    key: str
    dockerfile: str
    instructions: tuple[str, ...]
    created: str
    labels: Mapping[str, str] = field(hash=False)
    commit: str
    tree: str
    repo: Path | None
    number: int
    scripts: Mapping[str, bytes] = field(default_factory=dict, hash=False, repr=False)


def inputs_of(matrix: Matrix, variant: Variant) -> str:
    """Sha256 over everything in the matrix that decides the resolution: source, commit, bases, snapshot, patches.

    Flags and archs are not among them: they are in the recipe key and need nothing resolved.

    Raises:
        PatchError: a patch is missing or empty.
    """
    series = [[patch.file, patch.sha256] for patch in patches.of_variant(matrix.project, variant)]
    return digest({**wants_of(matrix, variant), "patches": series})


def fresh(matrix: Matrix, variant: Variant, locked: LockedVariant | None) -> bool:
    """Whether `locked` still answers what the matrix asks."""
    return locked is not None and locked.inputs == inputs_of(matrix, variant)


def resolve(
    matrix: Matrix,
    variant: Variant,
    sources: Sources,
    *,
    digests: Callable[[str], str],
    previous: LockedVariant | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> LockedVariant:
    """Fetch the commit, apply the patches and pin the bases of `variant`.

    Args:
        matrix: for the project's folder and the fork.
        variant: the row to resolve.
        sources: where commits come from.
        digests: image reference → the same with `@sha256:…`; not asked for one that has a digest already.
        previous: an older resolution, whose answers are kept for what the matrix still asks the same way;
            None resolves everything anew (`lock --upgrade`).
        now: the clock, for the moment of the package archive.

    Raises:
        SourceError: the commit cannot be fetched or counted.
        PatchError: a patch does not apply.
    """
    wants = wants_of(matrix, variant)
    old = previous.wants if previous else {}
    wanted = variant.commit
    if previous and (old.get("git"), old.get("commit")) == (wants["git"], wants["commit"]):
        wanted = previous.commit
    series = patches.of_variant(matrix.project, variant)
    source = sources.fetch(matrix.forks[variant.fork], wanted)
    patched = patches.apply(source, series)
    bases: dict[str, str] = {}
    for name in ("build", "runtime"):
        if previous and old.get(name) == wants[name]:
            bases[name] = previous.bases[name]
        else:
            bases[name] = wants[name] if "@sha256:" in wants[name] else digests(wants[name])
    return LockedVariant(
        inputs=inputs_of(matrix, variant),
        commit=source.commit,
        tree=patched.tree,
        number=source.number,
        date=source.date,
        bases=bases,
        patches=patched.patches,
        wants=wants,
        snapshot=_snapshot(wants, previous, now),
    )


def recipe_of(
    matrix: Matrix, variant: Variant, platform: str, locked: LockedVariant, *, repo: Path | None = None
) -> Recipe:
    """The recipe that `locked` describes. Needs neither network nor source.

    Args:
        matrix: for the project's folder and the fork.
        variant: a row of it.
        platform: "linux/amd64".
        locked: what the row resolved to.
        repo: from `materialise`, if the recipe is to be built.

    Raises:
        MatrixError: the template is wrong.
    """
    fork = matrix.forks[variant.fork]
    template = render.template(matrix.project, variant)
    scripts = render.scripts(matrix.project)
    unkeyed = render.render(variant, platform, locked, fork=fork, template=template)
    key = recipe_key(platform=platform, dockerfile=unkeyed, tree=locked.tree, scripts=scripts)
    text = render.render(variant, platform, locked, fork=fork, template=template, key=key)
    return Recipe(
        variant=variant,
        platform=platform,
        key=key,
        dockerfile=text,
        instructions=render.instructions(text, template.path),
        created=locked.date,
        labels=labels(variant, fork, locked, key),
        commit=locked.commit,
        tree=locked.tree,
        repo=repo,
        number=locked.number,
        scripts=scripts,
    )


def materialise(matrix: Matrix, variant: Variant, sources: Sources, locked: LockedVariant) -> Path:
    """A git directory that holds the locked tree, fetched and patched again if it has to be.

    Raises:
        LockError: the patches or the source now give another tree than the lock says.
        SourceError, PatchError: as in `resolve`.
    """
    source = sources.fetch(matrix.forks[variant.fork], locked.commit)
    patched = patches.apply(source, patches.of_variant(matrix.project, variant))
    if patched.tree != locked.tree:
        raise LockError(
            f"variant {variant.name}: the patched source is tree {patched.tree}, the lock says {locked.tree}",
            where=variant.where or None,
            why="a patch was changed, added or removed since it was locked"
            if patched.patches != locked.patches
            else "the lock was edited, or made by another version of git",
            hint="sistership lock --variant " + variant.name,
        )
    return source.repo


def with_repo(recipe: Recipe, repo: Path) -> Recipe:
    """The recipe, ready to be built from `repo`."""
    return replace(recipe, repo=repo)


def source_of(matrix: Matrix, variant: Variant, sources: Sources, locked: LockedVariant) -> Source:
    """The unpatched commit behind a locked variant."""
    return sources.fetch(matrix.forks[variant.fork], locked.commit)


def _snapshot(wants: Mapping[str, str], previous: LockedVariant | None, now: Callable[[], datetime]) -> str:
    """The moment of the package archive; a newer base may hold newer packages, so it takes a newer moment."""
    wanted = wants.get("snapshot", "")
    if wanted != snapshots.AUTO:
        return wanted
    old = previous.wants if previous else {}
    if previous and previous.snapshot and all(old.get(name) == wants[name] for name in ("snapshot", "build")):
        return previous.snapshot
    return snapshots.stamp(now())


def wants_of(matrix: Matrix, variant: Variant) -> dict[str, str]:
    """The parts of the matrix that the lock answers, as they are written there."""
    fork = matrix.forks[variant.fork]
    snapshot = {"snapshot": variant.snapshot} if snapshots.pins(variant.snapshot) else {}
    return {
        **snapshot,
        "git": fork.written if address(fork) == fork.name else address(fork),
        "commit": variant.commit,
        "build": variant.base.build,
        "runtime": variant.base.runtime,
    }
