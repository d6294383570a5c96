"""A project as a verb meets it: matrix, lock, sources, store, and who listens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sistership import places
from sistership.build.build import builder_host, digests_by, sources_from
from sistership.errors import LockError, SistershipError, UsageError
from sistership.image.layout import Store
from sistership.image.release import Release
from sistership.matrix.load import load
from sistership.matrix.model import Host, Matrix, Variant
from sistership.matrix.selectors import hosts, variants
from sistership.recipe import lock as locks
from sistership.recipe.lock import Lock, LockedVariant
from sistership.recipe.recipe import Recipe, fresh, materialise, recipe_of, resolve
from sistership.recipe.source import Sources
from sistership.report.events import Lines, Reporter, Silent
from sistership.tasks.verb import lock_path, matrix_path


@dataclass
class Session:
    """One run of a verb in a project."""

    matrix: Matrix
    lock_file: Path
    lock: Lock
    reporter: Reporter
    sources: Sources

    @classmethod
    def open(
        cls, matrix: str | None, *, source: Sequence[str] = (), quiet: bool = False, verbose: bool = False
    ) -> Session:
        """Read the project.

        Raises:
            MatrixError: the matrix has faults; all of them are told.
            LockError: the lock is damaged.
            UsageError: no matrix, or a wrong `--source`.
        """
        path = matrix_path(matrix)
        model = load(path)
        local = sources_from(source)
        for fork in local:
            if fork not in model.forks:
                raise UsageError(f"--source {fork}=…: the matrix has no fork of that name")
        reporter: Reporter = Silent() if quiet else Lines(verbose=verbose)
        lock_file = lock_path(path)
        return cls(model, lock_file, locks.load(lock_file), reporter, Sources(places.cache(), local))

    def variants(self, text: str | None) -> tuple[Variant, ...]:
        """The selected variants."""
        return variants(self.matrix, text)

    def warn(self, chosen: Sequence[Variant]) -> None:
        """Tell what is legal but probably not meant, of these variants and of everything that is no variant's own."""
        others = set(self.matrix.variants) - {variant.name for variant in chosen}
        for warning in self.matrix.warnings:
            named = re.match(r'variant "([^"]+)"', warning.message)
            if named is None or named.group(1) not in others:
                self.reporter.step("", f"warning: {warning}")

    def hosts(self, text: str | None) -> tuple[Host, ...]:
        """The selected hosts.

        Raises:
            UsageError: the inventory is empty or the selector wrong.
        """
        if not self.matrix.hosts:
            raise UsageError(
                "the matrix names no hosts", where=str(self.matrix.path), hint="add `hosts:` to it, see README"
            )
        return hosts(self.matrix, text)

    def store(self) -> Store:
        """The local store."""
        return Store(places.store())

    def stale(self, variant: Variant) -> str | None:
        """Why the lock does not answer for a variant; None when it does."""
        locked = self.lock.variants.get(variant.name)
        if locked is None:
            return "not locked yet"
        return None if fresh(self.matrix, variant, locked) else "the matrix or a patch changed since it was locked"

    def resolve(self, chosen: Sequence[Variant], *, upgrade: bool = False, locked: bool = False) -> None:
        """Fill the lock for these variants: what is missing or changed in the matrix, or everything.

        Raises:
            LockError: `locked`, and something would have to change.
            SourceError, PatchError, BuildError: a commit, a patch or a base cannot be resolved.
        """
        for variant in chosen:
            old = self.lock.variants.get(variant.name)
            reason = "upgrade" if upgrade else self.stale(variant)
            if reason is None:
                continue
            if locked:
                raise LockError(
                    f"the lock does not match the matrix: {variant.name}: {reason}",
                    where=str(self.lock_file),
                    hint="run `sistership lock` and commit the lock file",
                )
            self.reporter.step("", f"{variant.name}: resolving ({reason})")
            builder = builder_host(self.matrix, variant, variant.platforms[0])
            previous = None if upgrade else old
            found = resolve(self.matrix, variant, self.sources, digests=digests_by(builder), previous=previous)
            self._tell_change(variant, old, found)
            self.lock = self.lock.with_variant(variant.name, found)
            self.save()

    def _tell_change(self, variant: Variant, old: LockedVariant | None, new: LockedVariant) -> None:
        if old is None or old.commit != new.commit:
            self.reporter.step("", f"{variant.name}: commit {new.commit[:12]}, build number {new.number}")
        for patch in new.patches:
            self.reporter.detail(f"{variant.name}: patch {patch.file} applies")

    def save(self) -> None:
        """Write the lock."""
        locks.save(self.lock, self.lock_file)

    def recipes(self, chosen: Sequence[Variant], *, with_source: bool) -> list[Recipe]:
        """One recipe per variant and platform, from the lock.

        Args:
            with_source: fetch the commit too, so that it can be built.
        """
        found: list[Recipe] = []
        for variant in chosen:
            locked = self.lock.variants[variant.name]
            repo = materialise(self.matrix, variant, self.sources, locked) if with_source else None
            found += [recipe_of(self.matrix, variant, platform, locked, repo=repo) for platform in variant.platforms]
        return found

    def releases(self, text: str | None) -> list[Release]:
        """What was built of the selected variants, as the lock records it for today's matrix.

        Without a selector: every variant that was built.

        Raises:
            LockError: a selected variant was not built, or the matrix changed since.
        """
        store, found, missing = self.store(), [], []
        for variant in self.variants(text):
            try:
                found.extend(self._releases_of(variant, store))
            except LockError as error:
                if text is not None:
                    raise
                missing.append(error)
        if not found and len(missing) == 1:
            raise missing[0]
        if not found:
            raise LockError("nothing was built yet", where=str(self.lock_file), hint="sistership build --variant NAME")
        return found

    def _older(self, variant: Variant) -> str | None:
        """What to say when only images of other recipes are recorded for a variant."""
        older = [record for record in self.lock.images.values() if record.get("variant") == variant.name]
        if not older:
            return None
        return "flags, template or support scripts changed since it was built; the hosts keep the older image"

    def _releases_of(self, variant: Variant, store: Store) -> list[Release]:
        locked = self.lock.variants.get(variant.name)
        reason = self.stale(variant)
        build = f"sistership build --variant {variant.name}"
        if locked is None or reason is not None:
            raise LockError(f"{variant.name} is not built as the matrix has it: {reason}", hint=build)
        found = []
        for platform in variant.platforms:
            key = recipe_of(self.matrix, variant, platform, locked).key
            record = self.lock.images.get(key)
            if record is None:
                raise LockError(f"{variant.name} for {platform} is not built", why=self._older(variant), hint=build)
            release = Release.from_record(key, record)
            found.append(Release.from_record(key, record, config_fields(store, release)))
        return found


def config_fields(store: Store, release: Release) -> dict[str, object] | None:
    """The image's config, where the store has it."""
    import json  # noqa: PLC0415 - one small use

    try:
        document = json.loads(store.read(release.image.config))
    except (SistershipError, ValueError):
        return None
    return document if isinstance(document, dict) else None
