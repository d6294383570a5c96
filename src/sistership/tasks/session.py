"""A project as a verb meets it: matrix, lock, sources, store, and who listens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sistership import places
from sistership.build.build import builder_host, digests_by, sources_from
from sistership.errors import LockError, SistershipError, UsageError
from sistership.image.layout import Store
from sistership.image.release import Release
from sistership.matrix.load import load
from sistership.matrix.model import Host, Matrix, Variant
from sistership.matrix.names import nearest
from sistership.matrix.selectors import hosts, variants
from sistership.recipe import lock as locks
from sistership.recipe.lock import Lock, LockedVariant
from sistership.recipe.moves import Move, asked, moved
from sistership.recipe.patches import of_variant
from sistership.recipe.recipe import Recipe, fresh, materialise, recipe_of, resolve, wants_of
from sistership.recipe.source import Sources
from sistership.report.events import Warned
from sistership.report.listeners import Reporter, Silent
from sistership.tasks.run import Run
from sistership.tasks.verb import lock_path, matrix_path

#: Said when a variant is resolved whose package stage has no moment.
FLOATS = "its packages are those of the day it is built: the archive of {} keeps no moments (Ubuntu 24.04+ does)"


@dataclass
class Session:
    """One run of a verb in a project."""

    matrix: Matrix
    lock_file: Path
    lock: Lock
    reporter: Reporter
    sources: Sources

    @classmethod
    def open(cls, matrix: str | None, *, source: Sequence[str] = ()) -> Session:
        """Read the project; who listens is decided by the run that is under way.

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
        run = Run.current()
        reporter: Reporter = run.reporter if run else Silent()
        lock_file = lock_path(path)
        return cls(model, lock_file, locks.load(lock_file), reporter, Sources(places.cache(), local))

    def variants(self, text: str | None, platform: str | None = None) -> tuple[Variant, ...]:
        """The selected variants; with `platform` those that have it, for that one alone.

        Raises:
            UsageError: the selector is wrong, or none of them has that platform.
        """
        chosen = variants(self.matrix, text)
        if platform is None:
            return chosen
        found = tuple(replace(each, platforms=(platform,)) for each in chosen if platform in each.platforms)
        if not found:
            known = list(dict.fromkeys(name for each in chosen for name in each.platforms))
            hint = nearest(platform, known) or f"they have {', '.join(known)}"
            raise UsageError(f'--platform "{platform}": no selected variant is for it', hint=hint)
        return found

    def warn(self, chosen: Sequence[Variant]) -> None:
        """Tell what is legal but probably not meant, of these variants and of everything that is no variant's own."""
        others = set(self.matrix.variants) - {variant.name for variant in chosen}
        for warning in self.matrix.warnings:
            named = re.match(r'variant "([^"]+)"', warning.message)
            if named is None or named.group(1) not in others:
                self.reporter.tell(Warned(warning))

    def hosts(self, text: str | None, flag: str = "--hosts") -> tuple[Host, ...]:
        """The selected hosts.

        Raises:
            UsageError: the inventory is empty or the selector wrong.
        """
        if not self.matrix.hosts:
            raise UsageError(
                "the matrix names no hosts", where=str(self.matrix.path), hint="add `hosts:` to it, see README"
            )
        return hosts(self.matrix, text, flag)

    def store(self) -> Store:
        """The local store."""
        return Store(places.store())

    def stale(self, variant: Variant) -> str | None:
        """Why the lock does not answer for a variant; None when it does."""
        locked = self.lock.variants.get(variant.name)
        if locked is None:
            return "not locked yet"
        return None if fresh(self.matrix, variant, locked) else "the matrix or a patch changed since it was locked"

    def resolve(
        self, chosen: Sequence[Variant], *, upgrade: bool = False, locked: bool = False, dry: bool = False
    ) -> None:
        """Fill the lock for these variants: what is missing or changed in the matrix, or everything.

        Args:
            dry: resolve and tell, but leave the lock file as it is.

        Raises:
            LockError: `locked`, and something would have to change; what, was told before.
            SourceError, PatchError, BuildError: a commit, a patch or a base cannot be resolved.
        """
        if locked and not upgrade:
            self._require_fresh(chosen)
        pending = []
        for variant in chosen:
            old = self.lock.variants.get(variant.name)
            reason = "upgrade" if upgrade else self.stale(variant)
            if reason is None:
                continue
            self.reporter.step("", f"{variant.name}: resolving ({reason})")
            builder = builder_host(self.matrix, variant, variant.platforms[0])
            previous = None if upgrade else old
            found = resolve(self.matrix, variant, self.sources, digests=digests_by(builder), previous=previous)
            moves = self._tell_change(variant, old, found)
            if locked:
                pending += [variant.name] if moves else []
                continue
            if dry:
                self.lock = self.lock.with_variant(variant.name, found)
                continue
            self.lock = locks.update(self.lock_file, lambda lock: lock.with_variant(variant.name, found))  # noqa: B023

        if pending:
            raise LockError(
                f"`lock --upgrade` would move {', '.join(pending)}",
                where=str(self.lock_file),
                hint="run it without --locked and commit the lock file",
            )

    def _require_fresh(self, chosen: Sequence[Variant]) -> None:
        """Refuse a lock that does not answer the matrix; say of every variant what would move."""
        stale = [variant for variant in chosen if self.stale(variant) is not None]
        for variant in stale:
            locked = self.lock.variants.get(variant.name)
            wanted, series = wants_of(self.matrix, variant), of_variant(self.matrix.project, variant)
            moves = asked(locked, wanted, series) if locked else ()
            for text in [str(move) for move in moves] or ["not locked yet"]:
                self.reporter.step("", f"{variant.name}: {text}")
        if stale:
            one = stale[0]
            names = ",".join(variant.name for variant in stale)
            raise LockError(
                f"the lock does not match the matrix: {names if len(stale) > 1 else f'{one.name}: {self.stale(one)}'}",
                where=str(self.lock_file),
                hint=f"run `sistership lock --variant {names}` and commit the lock file",
            )

    def _tell_change(self, variant: Variant, old: LockedVariant | None, new: LockedVariant) -> tuple[Move, ...]:
        moves = moved(old, new)
        for move in moves:
            self.reporter.step("", f"{variant.name}: {move}")
        if not moves:
            self.reporter.step("", f"{variant.name}: nothing moved")
        if variant.snapshot == "":
            self.reporter.step("", f"{variant.name}: {FLOATS.format(variant.base.build.partition('@')[0])}")
        for patch in new.patches:
            self.reporter.detail(f"{variant.name}: patch {patch.file} applies")
        return moves

    def record(self, key: str, record: Mapping[str, object]) -> None:
        """Write into the lock what a recipe made."""
        self.lock = locks.update(self.lock_file, lambda lock: lock.with_image(key, record))

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

    def releases(self, text: str | None, platform: str | None = None) -> list[Release]:
        """What was built of the selected variants, as the lock records it for today's matrix.

        Without a selector: every variant that was built.

        Raises:
            LockError: a selected variant was not built, or the matrix changed since.
        """
        store, found, missing = self.store(), [], []
        for variant in self.variants(text, platform):
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

    def expected(self, file: str, text: str | None) -> list[Release]:
        """What an export, an identity or a lock from elsewhere says that hosts hold, in place of this project's lock.

        Raises:
            UsageError, LockError, SistershipError: as `build.expect.expected`.
        """
        from sistership.build.expect import expected  # noqa: PLC0415 - seldom needed

        names = None if text is None else [variant.name for variant in self.variants(text)]
        found, store = expected(Path(file), self.matrix, names), self.store()
        return [each if each.fields else replace(each, fields=config_fields(store, each)) for each in found]

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
        found, lacking = [], []
        for platform in variant.platforms:
            key = recipe_of(self.matrix, variant, platform, locked).key
            record = self.lock.images.get(key)
            if record is None:
                lacking.append(platform)
                continue
            release = Release.from_record(key, record)
            found.append(Release.from_record(key, record, config_fields(store, release)))
        if not found:
            platforms = " and ".join(lacking)
            raise LockError(f"{variant.name} for {platforms} is not built", why=self._older(variant), hint=build)
        for platform in lacking:
            self.reporter.step("", f"{variant.name} for {platform} is not built yet; its hosts get nothing")
        return found


def config_fields(store: Store, release: Release) -> dict[str, object] | None:
    """The image's config, where the store has it."""
    import json  # noqa: PLC0415 - one small use

    try:
        document = json.loads(store.read(release.image.config))
    except (SistershipError, ValueError):
        return None
    return document if isinstance(document, dict) else None
