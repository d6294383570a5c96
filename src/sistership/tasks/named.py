"""What a word of `diff` and `check` means: a file, a built image, or what a host holds."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sistership.errors import ShipError, SistershipError, UsageError
from sistership.tasks.verb import matrix_path

if TYPE_CHECKING:
    from sistership.host.facts import HostFacts
    from sistership.host.held import HeldImage
    from sistership.host.inventory import Peer
    from sistership.image.release import Release
    from sistership.matrix.model import Host
    from sistership.report.listeners import Reporter
    from sistership.tasks.session import Session

#: Fewer digits of a key or digest are a typing error rather than a name.
_DIGITS = 6
#: How packed files begin → the program that unpacks them.
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zX": "xz"}


@dataclass(frozen=True)
class InFile:
    """A file of `export` or `docker save`."""

    word: str
    path: Path


@dataclass(frozen=True)
class Recorded:
    """Images of the lock: those of a variant, one per platform, or the one with such a key or digest."""

    word: str
    releases: tuple[Release, ...]
    records: Mapping[str, Mapping[str, Any]] = field(repr=False)

    def record(self, release: Release) -> Mapping[str, Any]:
        """The lock's entry of one of them."""
        return self.records[release.key]


@dataclass(frozen=True)
class OnHost:
    """What a host holds under the first of these names that it has.

    Attributes:
        variant: the one that was named; None where it was an image.
    """

    word: str
    host: Host
    names: tuple[str, ...]
    variant: str | None = None


Named = InFile | Recorded | OnHost


def named(word: str, matrix: str | None, session: Callable[[], Session]) -> Named:
    """What a word means.

    Args:
        word: as it was typed.
        matrix: the value of `--matrix`.
        session: opens the project; called only where the word is no file.

    Raises:
        UsageError: it means nothing, or several things.
    """
    if Path(word).is_file():
        _refuse_both(word, matrix)
        _require_tar(Path(word))
        return InFile(word, Path(word))
    opened = session()
    head, colon, rest = word.partition(":")
    if colon and rest and head in opened.matrix.hosts:
        variant = rest if rest in opened.matrix.variants else None
        return OnHost(word, opened.matrix.hosts[head], _names(opened, rest), variant)
    if word in opened.matrix.variants:
        return Recorded(word, tuple(opened.releases(word)), opened.lock.images)
    return Recorded(word, (_by_digits(opened, word),), opened.lock.images)


def _refuse_both(word: str, matrix: str | None) -> None:
    """A file whose name is also one of the matrix, valid or not, is told apart by its path."""
    from sistership.start.names import read  # noqa: PLC0415 - PyYAML is needed for names only

    try:
        known = read(matrix_path(matrix))
    except UsageError:
        return
    head, colon, _ = word.partition(":")
    if word in known.variants:
        hint = f"./{word} for the file, digits of its recipe key or config digest for the variant"
        raise UsageError(f"{word}: there is a file of that name and a variant", hint=hint)
    if colon and head in known.hosts:
        hint = f"./{word} for the file, {head}:IMAGE:TAG for what the host has"
        raise UsageError(f"{word}: there is a file of that name, and {head} is a host", hint=hint)


def _require_tar(path: Path) -> None:
    """A file that is no image at all is told before its bytes are read as headers."""
    from sistership.image import disk  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.image.exchange import is_archive  # noqa: PLC0415

    if is_archive(path):
        return
    with disk.explained(path, "the file cannot be read"), path.open("rb") as file:
        begin = file.read(4)
    program = next((name for magic, name in _PACKED.items() if begin.startswith(magic)), None)
    raise SistershipError(
        "this is no image",
        where=str(path),
        why=f"it is packed by {program}" if program else "it does not begin as a tar",
        hint=f"{program} -dc {shlex.quote(str(path))} > image.tar, then name that"
        if program
        else "name a file of `sistership export` or of `docker save`",
    )


def _names(session: Session, rest: str) -> tuple[str, ...]:
    """The names of what is meant on a host: of a variant the one that people use, then our own of what was built."""
    variant = session.matrix.variants.get(rest)
    if variant is None:
        return (rest,)
    from sistership.image.release import Release  # noqa: PLC0415 - keeps --list and --help quick

    built = [Release.from_record(key, record) for key, record in session.lock.images.items()]
    own = [release.unique for release in reversed(built) if release.variant == rest]
    return (f"{variant.image}:{variant.tag}", *dict.fromkeys(own))


def _by_digits(session: Session, word: str) -> Release:
    """The image of the lock whose recipe key or config digest begins with these digits."""
    from sistership.image.release import Release  # noqa: PLC0415 - keeps --list and --help quick

    digits = word.removeprefix("sha256:")
    found = [
        Release.from_record(key, record)
        for key, record in session.lock.images.items()
        if key.startswith(digits) or str(record.get("config", "")).removeprefix("sha256:").startswith(digits)
    ]
    if len(found) == 1 and len(digits) >= _DIGITS:
        return found[0]
    hint = "name a file, a variant, HOST:VARIANT, HOST:REFERENCE, or more digits of a recipe key or config digest"
    head, colon, _ = word.partition(":")
    if not found and colon and head != "sha256":
        near = _did_you_mean(head, session.matrix.hosts)
        raise UsageError(f"{word}: no file, and {head} is no host of the matrix", hint=near or hint)
    kind = "several images of the lock" if found else "no file, variant or image of the lock"
    near = None if found else _did_you_mean(word, session.matrix.variants)
    raise UsageError(f"{word}: {kind}", hint=near or hint)


def _did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A name so like the word that nothing else was meant; None where none is."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a typing error

    near = get_close_matches(word, known, n=1)
    return f'did you mean "{near[0]}"?' if near else None


@contextmanager
def reached(each: OnHost, reporter: Reporter) -> Iterator[tuple[Peer, HostFacts, HeldImage]]:
    """The host, what it answers, and the image that is meant there; the connection lasts as long as the block.

    Raises:
        HostUnreachableError, HostUnfitError: the host or its engine does not answer.
        ShipError: it has no such image.
    """
    from sistership.host.facts import probe  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.host.inventory import connected  # noqa: PLC0415

    with connected([each.host]) as (peer,):
        reporter.step(peer.name, "asking")
        facts = probe(peer, each.names)
        yield peer, facts, _held(each, facts)


def _held(each: OnHost, facts: HostFacts) -> HeldImage:
    from sistership.verify.held import held  # noqa: PLC0415 - keeps --list and --help quick

    try:
        return held(each.host.name, facts, each.names)
    except ShipError as error:
        if each.variant:
            error.hint = f"sistership ship --variant {each.variant} --hosts {each.host.name}"
        raise


@contextmanager
def fetched(each: OnHost, session: Session) -> Iterator[Path]:
    """The image that is meant on a host as a file of `docker save`, gone with the block.

    Raises:
        HostUnreachableError, HostUnfitError, ShipError: see `reached`; or the engine cannot save it.
    """
    with reached(each, session.reporter) as (peer, _, image), saved(peer, image, session) as path:
        yield path


@contextmanager
def saved(peer: Peer, image: HeldImage, session: Session) -> Iterator[Path]:
    """An image of a host as a file of `docker save` without a name; it goes with the block, or with this process.

    Raises:
        ShipError: the engine cannot save it.
    """
    from sistership.build.build import called, path_of  # noqa: PLC0415 - keeps --list and --help quick
    from sistership.report.listeners import counted  # noqa: PLC0415
    from sistership.verify.held import save  # noqa: PLC0415

    with session.store().scratch() as file:
        session.reporter.step(peer.name, f"saving {image.id[7:19]} to look into it")
        save(peer, image.id, counted(file.write, session.reporter, peer.name, "saved"))
        with called(path_of(file), f"what {peer.name} saved") as path:
            yield path
