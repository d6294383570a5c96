"""What pipelines are made of: `matrix`, `export`, `import`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sistership.errors import Problem, UsageError
from sistership.report.events import Warned
from sistership.report.words import mebibytes
from sistership.tasks.run import Run
from sistership.tasks.verb import print_json, say, verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sistership.build.jobs import Job
    from sistership.image.release import Release
    from sistership.tasks.session import Session


@verb(name="matrix")
def matrix_(
    run: Run,
    *,
    variant: str | None = None,
    platform: str | None = None,
    matrix: str | None = None,
    format: str = "table",  # noqa: A002 - the flag's name
    json: bool = False,
) -> None:
    """Show what there is to build, one job per variant and platform; `--format github` makes a CI matrix of it."""
    from sistership.build import jobs as rooms  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.report.table import terminal_width  # noqa: PLC0415
    from sistership.tasks import show  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    if format not in {"table", "github"}:
        raise UsageError(f"--format {format}: there is no such format", hint="table or github")
    session = Session.open(matrix)
    store = session.store()
    found = rooms.jobs(
        session.matrix,
        session.variants(variant, platform),
        session.lock,
        lambda release: not store.image_complete(release.image),
    )
    for job in found:
        if job.recipe is None and format == "github":
            problem = f"{job.variant} is not locked as the matrix has it; `build --locked` refuses it"
            hint = f"sistership lock --variant {job.variant}, and commit the lock file"
            run.reporter.tell(Warned(Problem(str(session.lock_file), 1, 1, problem, hint)))
    if json:
        print_json(
            {"version": show.JSON_VERSION, "type": "matrix", "exit": 0, "jobs": [job.to_json() for job in found]}
        )
    elif format == "github":
        say(rooms.github(found))
    else:
        say(jobs_table(found, terminal_width()))


@verb
def export(
    run: Run,
    *,
    variant: str | None = None,
    platform: str | None = None,
    output: str | None = None,
    matrix: str | None = None,
    json: bool = False,
) -> None:
    """Write one built image into one file: archive and OCI layout, identity, and its sha256 beside it."""
    from sistership.image.exchange import write  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.exported import Exported  # noqa: PLC0415
    from sistership.ship.sound import check_store  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    if not output:
        raise UsageError("export needs a file to write", hint="sistership export --variant NAME --output FILE")
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"--output {output}: it is a folder", hint=f"name a file: --output {path / 'image.tar'}")
    session = Session.open(matrix)
    release = the_one(session.releases(variant, platform))
    store = session.store()
    check_store(release, store)
    locked = session.lock.variants[release.variant]
    exported = Exported(release.key, session.lock.images[release.key], locked.to_json())
    done = write(exported, store, path, lambda at, total: run.reporter.progress("", "written", at, total))
    if json:
        print_json({**_document("export", release), "file": output, "sha256": done.sha256, "size": done.size})
        return
    say(f"{_title(release)}  {output}, {mebibytes(done.size)}")
    say(f"sha256 {done.sha256}")


@verb(name="import")
def import_(run: Run, file: str, *, sha256: str | None = None, matrix: str | None = None, json: bool = False) -> None:
    """Take the image of an exported file into store and lock; needs neither source nor engine."""
    from sistership.build.adopt import adopt  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.exchange import check_sum  # noqa: PLC0415
    from sistership.image.imports import opened  # noqa: PLC0415
    from sistership.recipe import lock as locks  # noqa: PLC0415
    from sistership.tasks.session import Session  # noqa: PLC0415

    session = Session.open(matrix)
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"import {file}: there is no such file")
    total = check_sum(path, sha256)
    store = session.store()
    with opened(path) as found:
        exported = found.exported
        found.check(lambda at, size: run.reporter.progress("", "checked", at, size))
        keep = _recorded_is_whole(session, exported.key)
        adopted = adopt(session.matrix, session.lock, exported, keep=keep)  # refuses before anything is taken
        found.take(store)
    locks.update(session.lock_file, lambda lock: adopt(session.matrix, lock, exported, keep=keep).lock)
    release = exported.release
    if adopted.refusal:
        hint = "git pull, or import the file that was exported for this matrix and lock"
        said = f"{adopted.refusal}; `ship` does not send this image"
        run.reporter.tell(Warned(Problem(str(session.lock_file), 1, 1, said, hint)))
    if json:
        print_json(
            {
                **_document("import", release),
                "file": file,
                "sha256": total,
                "lock": adopted.how.name.lower(),
                "resolved": adopted.resolved,
                "asked": not adopted.refusal,
            }
        )
        return
    say(f"{_title(release)}  {adopted.how}")


#: Columns that a terminal needs for every field of `matrix`; a narrower one gets the first four.
_WIDE = 120


def jobs_table(found: Sequence[Job], width: int | None) -> str:
    """One row per job: what it makes, whether it is built; in a wide terminal who builds it and whom it is for.

    Args:
        width: of the terminal in columns; None: no limit.
    """
    from sistership.report.table import coloured, render  # noqa: PLC0415 - one small use

    header = ("VARIANT", "PLATFORM", "STATE", "IMAGE", "RECIPE", "BUILDER", "FOR")
    rows = [
        (
            job.variant,
            job.platform,
            job.state,
            f"{job.image}:{job.tag}",
            job.recipe[:12] if job.recipe else "-",
            job.builder,
            ", ".join(job.hosts) or "no host of the inventory",
        )
        for job in found
    ]
    shown = len(header) if width is None or width >= _WIDE else 4
    colours = ["good" if job.stored else "warn" for job in found]
    return render(
        header[:shown],
        [row[:shown] for row in rows],
        width=width,
        colour={2: colours} if coloured(sys.stdout) else None,
    )


def the_one(releases: list[Release]) -> Release:
    """The only release; a file holds one image.

    Raises:
        UsageError: there are several.
    """
    if len(releases) == 1:
        return releases[0]
    names = ", ".join(f"{each.variant} for {each.image.platform}" for each in releases)
    first = releases[0]
    raise UsageError(
        f"one file holds one image, and {len(releases)} are selected: {names}",
        hint=f"sistership export --variant {first.variant} --platform {first.image.platform} --output FILE",
    )


def _recorded_is_whole(session: Session, key: str) -> bool:
    """Whether the store has every blob of the image that the lock records for a recipe."""
    from sistership.image.identity import Image  # noqa: PLC0415 - one small use

    record = session.lock.images.get(key)
    return record is not None and not session.store().image_complete(Image.from_json(record))


def _title(release: Release) -> str:
    from sistership.image.release import short  # noqa: PLC0415 - one small use

    name = f"{release.variant} ({release.image.platform})"
    return f"{name}: {release.reference}  config {short(release.image.config)}"


def _document(kind: str, release: Release) -> dict[str, Any]:
    from sistership.tasks import show  # noqa: PLC0415 - keeps --list and --help quick

    return {"version": show.JSON_VERSION, "type": kind, "exit": 0, "image": show.release_json(release)}
