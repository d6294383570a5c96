"""What the checks inside a build found, read from any image: `check`."""

from __future__ import annotations

import functools
import json as documents
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sistership.errors import CheckError, LockError
from sistership.tasks.run import Run
from sistership.tasks.verb import finish, print_json, say, verb

if TYPE_CHECKING:
    from sistership.image.release import Release
    from sistership.tasks.checked import Checked
    from sistership.tasks.named import Named, OnHost
    from sistership.tasks.session import Session

#: In a word that selects variants, as `--variant` elsewhere does.
_SELECTS = frozenset("*?[,^")


@verb
def check(run: Run, what: str, *, matrix: str | None = None, json: bool = False) -> None:
    """Show what the checks inside an image's own build found: of a built variant, a file, or what a host holds."""
    del run
    from sistership.tasks import checked  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.tasks.session import Session  # noqa: PLC0415

    found = list(reports(what, matrix, functools.cache(lambda: Session.open(matrix))))
    code = 0 if all(each.passed for each in found) else CheckError.code
    if json:
        print_json(checked.document(found, code))
    else:
        say(checked.text(found))
    finish(code)


def reports(word: str, matrix: str | None, session: Callable[[], Session]) -> Iterator[Checked]:
    """The report of every image that a word means: several for a selector, and for a variant of several platforms.

    Raises:
        UsageError: it means nothing, or several things.
        LockError: a variant is not built, or the store lacks its blobs.
        HostUnreachableError, HostUnfitError, ShipError: a host cannot give its image.
    """
    from sistership.tasks.named import InFile, Recorded, named  # noqa: PLC0415 - keeps --list and --help quick

    if _SELECTS & set(word) and not Path(word).is_file():
        each: Named = Recorded(word, tuple(session().releases(word)), session().lock.images)
    else:
        each = named(word, matrix, session)
    if isinstance(each, Recorded):
        for release in each.releases:
            yield of_release(release, session())
    elif isinstance(each, InFile):
        yield of_file(each.word, each.path)
    else:
        yield of_host(each, session())


def of_release(release: Release, session: Session) -> Checked:
    """The report of an image of the lock, from the store.

    Raises:
        LockError: the store lacks its blobs.
    """
    from sistership.build.checks import PATH  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.contents import own_file  # noqa: PLC0415
    from sistership.image.release import short  # noqa: PLC0415
    from sistership.tasks.between import lacks  # noqa: PLC0415
    from sistership.tasks.checked import Subject, judged  # noqa: PLC0415

    store = session.store()
    if lacks(store, release.image):
        raise LockError(
            f"blobs of {release.variant} are not in the store",
            where=str(store.root),
            hint=f"sistership build --variant {release.variant} brings them back from a host",
        )
    labels = labels_of(documents.loads(store.read(release.image.config)))
    name = f"{release.variant} ({release.image.platform})"
    about = f"{release.reference}  config {short(release.image.config)}"
    subject = Subject(name, about, release.image.config, labels, release)
    return judged(subject, own_file(release.image, store, PATH))


def of_file(name: str, path: Path) -> Checked:
    """The report of an image in a file."""
    from sistership.build.checks import PATH  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.contents import saved_file  # noqa: PLC0415
    from sistership.image.identity import digest_of  # noqa: PLC0415
    from sistership.image.layout import Store  # noqa: PLC0415
    from sistership.image.release import short  # noqa: PLC0415
    from sistership.image.saved import open_saved  # noqa: PLC0415
    from sistership.places import store  # noqa: PLC0415
    from sistership.tasks.checked import Subject, judged  # noqa: PLC0415

    with open_saved(path, Store(store()).scratch) as image:
        config = digest_of(image.config_bytes)
        subject = Subject(name, f"config {short(config)}", config, labels_of(image.config))
        return judged(subject, saved_file(image, PATH))


def of_host(each: OnHost, session: Session) -> Checked:
    """The report of what a host holds.

    Where that is an image of the lock, the one file is read out of a container that is made and removed. Another image
    is saved and looked into, since only its layers tell whether the report is of the image as it is now.
    """
    from sistership.build.checks import PATH  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.contents import Found  # noqa: PLC0415
    from sistership.image.release import Release, short  # noqa: PLC0415
    from sistership.tasks.checked import Subject, judged  # noqa: PLC0415
    from sistership.tasks.named import reached, saved  # noqa: PLC0415
    from sistership.tasks.session import config_fields  # noqa: PLC0415
    from sistership.verify.held import file_of  # noqa: PLC0415
    from sistership.verify.verdict import is_ours  # noqa: PLC0415

    with reached(each, session.reporter) as (peer, facts, image):
        for key, record in session.lock.images.items():
            bare = Release.from_record(key, record)
            release = Release.from_record(key, record, config_fields(session.store(), bare))
            if is_ours(release, image, facts.store):
                data = file_of(peer, image.id, PATH)
                about = f"{release.reference}  ID {short(image.id)}"
                subject = Subject(each.word, about, image.id, image.config.get("Labels") or {}, release)
                return judged(subject, None if data is None else Found(data, 0))
        with saved(peer, image, session) as path:
            return of_file(each.word, path)


def labels_of(config: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of a config document."""
    return (config.get("config") or {}).get("Labels") or {}
