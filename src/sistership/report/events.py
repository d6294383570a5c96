"""What happens in a run, as values, and who may listen: a terminal, a pipe, a log, a test.

    Version     the run begins: which verb of which sistership
    Begin       work on one variant begins
    Plan        what a host lacks and will be sent
    Step        a host (or "" for this machine) begins or ends something
    Progress    `done` of `total` are through
    Note        a line that stays to be read: what to do next
    Warned      legal, but probably not meant
    Resolved    a variant was resolved into the lock
    Archived    a base is in the store
    Built       an image is there
    HostDone    a host's outcome
    Failed      the run ends with an error
    Summary     the run ends
    Detail      a line for the log, and for people who asked for everything

Times are no part of an event: who listens knows when it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from sistership.errors import MatrixError, Problem, SistershipError


@dataclass(frozen=True)
class Trouble:
    """An error as a value: what, where, why, and the next step."""

    what: str
    where: str | None = None
    why: str | None = None
    next: str | None = None

    @classmethod
    def of(cls, error: SistershipError) -> Trouble:
        """The same as an error says."""
        return cls(error.what, error.where, error.why, error.hint)


@dataclass(frozen=True)
class Version:
    """The run begins.

    Attributes:
        sistership: version of the program.
        started: UTC, ISO-8601.
        log: path of the run's log file; None when none could be written.
    """

    sistership: str
    verb: str
    started: str
    log: str | None = None


@dataclass(frozen=True)
class Begin:
    """Work on one variant begins.

    Attributes:
        title: says it to people.
        hosts: that take part, in the order of the inventory.
    """

    title: str
    variant: str
    platform: str | None = None
    recipe: str | None = None
    image: str | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a host lacks.

    Attributes:
        action: `nothing`, `tag` or `load`.
        bytes: image bytes to be sent.
        have: layers that the host has, staged ones too.
        send: layers to be sent.
        stage: bytes needed in the staging folder.
        engine: bytes needed where the engine keeps images.
    """

    host: str
    image: str
    action: str
    bytes: int
    have: int
    send: int
    stage: int = 0
    engine: int = 0


@dataclass(frozen=True)
class Step:
    """A host, or "" for this machine, begins or ends something."""

    host: str
    text: str


@dataclass(frozen=True)
class Progress:
    """`done` of `total` are through; a total of 0 is not known.

    Attributes:
        step: what is counted: `sent`, `compiled`.
        unit: `bytes` or `files`.
    """

    host: str
    step: str
    done: int
    total: int
    unit: str = "bytes"


@dataclass(frozen=True)
class Note:
    """A line that stays to be read."""

    text: str


@dataclass(frozen=True)
class Warned:
    """Legal, but probably not meant."""

    problem: Problem


@dataclass(frozen=True)
class Moved:
    """One thing of a variant that is another now.

    Attributes:
        what: `commit`, `base build`, `base runtime`, `snapshot`, `patch FILE`, `patch order` or `tree`.
        old: as it was, in full; None where there was none.
        new: as it is, in full; None where it is gone.
        note: build numbers and dates of commits.
    """

    what: str
    old: str | None
    new: str | None
    note: str = ""


@dataclass(frozen=True)
class Resolved:
    """A variant as the lock now has it.

    Attributes:
        changed: whether this run changed it.
        moves: what is another than before this run.
    """

    variant: str
    commit: str
    number: int
    tree: str
    patches: int
    changed: bool
    moves: tuple[Moved, ...] = ()


@dataclass(frozen=True)
class Archived:
    """A base is in the store, so that it can be built upon without its registry.

    Attributes:
        base: its pin, `name:tag@sha256:…`.
        config: digest of its config.
        layers: how many it has.
        bytes: of their blobs in the store.
        new: bytes that this run added.
    """

    base: str
    platform: str
    config: str
    layers: int
    bytes: int
    new: int


@dataclass(frozen=True)
class Built:
    """An image is there.

    Attributes:
        how: `built`, `already built`, `fetched from HOST`, or with --dry-run what is to be done.
        config: its config digest; None while it is not built.
        builder: the host that builds, or would build, it.
    """

    variant: str
    platform: str
    recipe: str
    how: str
    builder: str
    image: str | None = None
    config: str | None = None


@dataclass(frozen=True)
class HostDone:
    """A host's outcome.

    Attributes:
        verdict: as verify says it, or the state of a practice host.
        exit: the host's own exit code.
        sent: image bytes sent.
        seconds: how long it took.
    """

    host: str
    image: str | None
    verdict: str
    exit: int
    sent: int = 0
    seconds: float = 0.0
    error: Trouble | None = None


@dataclass(frozen=True)
class Failed:
    """The run ends with an error."""

    exit: int
    error: Trouble
    problems: tuple[Problem, ...] = ()
    log: str | None = None

    @classmethod
    def of(cls, error: SistershipError, log: str | None = None) -> Failed:
        """The end that an error makes."""
        problems = error.problems if isinstance(error, MatrixError) else ()
        if problems:
            count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
            return cls(error.code, Trouble(f"the matrix has {count}", problems[0].file), problems, log)
        return cls(error.code, Trouble.of(error), (), log)


@dataclass(frozen=True)
class Summary:
    """The run ends.

    Attributes:
        ok: hosts whose exit code is 0.
        failed: hosts whose exit code is another.
        sent: image bytes sent to all of them.
    """

    exit: int
    seconds: float
    ok: int = 0
    failed: int = 0
    sent: int = 0
    log: str | None = None


@dataclass(frozen=True)
class Detail:
    """A line for the log, and for people who asked for everything."""

    text: str


Event = (
    Version | Begin | Plan | Step | Progress | Note | Warned | Resolved | Archived | Built | HostDone | Failed
    | Summary | Detail
)  # fmt: skip


class Reporter(Protocol):
    """Takes what happens. Called from several threads."""

    def tell(self, event: Event) -> None:
        """Something happened."""
        ...

    def step(self, host: str, text: str) -> None:
        """A host (or "" for this machine) begins or ends something."""
        ...

    def progress(self, host: str, text: str, done: int, total: int, unit: str = "bytes") -> None:
        """`done` of `total` bytes, or other units, of something are through."""
        ...

    def detail(self, text: str) -> None:
        """A line for the log, and for people who asked for everything."""
        ...


def counted(write: Callable[[bytes], object], reporter: Reporter, host: str, step: str) -> Callable[[bytes], None]:
    """A sink that tells how many bytes went through it; how many will come is not known."""
    done = 0

    def take(chunk: bytes) -> None:
        nonlocal done
        write(chunk)
        done += len(chunk)
        reporter.progress(host, step, done, 0)

    return take


class Listener:
    """A reporter made of one method, `tell`; `pause` and `close` are for those that draw on a terminal."""

    def tell(self, event: Event) -> None:
        """Something happened; drop it."""

    def step(self, host: str, text: str) -> None:
        """A host begins or ends something."""
        self.tell(Step(host, text))

    def progress(self, host: str, text: str, done: int, total: int, unit: str = "bytes") -> None:
        """`done` of `total` are through."""
        self.tell(Progress(host, text, done, total, unit))

    def detail(self, text: str) -> None:
        """A line for those who asked for everything."""
        self.tell(Detail(text))

    def pause(self) -> None:
        """Somebody else is about to write on the terminal."""

    def close(self) -> None:
        """Nothing more will happen."""


class Silent(Listener):
    """A reporter that drops everything."""


@dataclass(frozen=True)
class Many(Listener):
    """Tells several listeners."""

    listeners: tuple[Listener, ...] = field(default=())

    def tell(self, event: Event) -> None:
        """Tell each."""
        for listener in self.listeners:
            listener.tell(event)

    def pause(self) -> None:
        """Pause each."""
        for listener in self.listeners:
            listener.pause()

    def close(self) -> None:
        """Close each."""
        for listener in self.listeners:
            listener.close()


class Totals(Listener):
    """Counts outcomes, for the summary."""

    def __init__(self) -> None:
        self._done: list[HostDone] = []

    def tell(self, event: Event) -> None:
        """Note a host's outcome."""
        if isinstance(event, HostDone):
            self._done.append(event)

    def summary(self, exit_code: int, seconds: float, log: str | None) -> Summary:
        """The end of the run."""
        bad = sum(1 for each in self._done if each.exit)
        sent = sum(each.sent for each in self._done)
        return Summary(exit_code, seconds, len(self._done) - bad, bad, sent, log)


def mebibytes(size: int) -> str:
    """Bytes for people: exact below 10 KiB, then KiB, MiB or GiB."""
    if size < 10 * 1024:
        return f"{size} B"
    for unit, width in (("KiB", 10), ("MiB", 20)):
        if size < 1 << (width + 10):
            return f"{size / (1 << width):.1f} {unit}"
    return f"{size / (1 << 30):.2f} GiB"


def joined(parts: Iterable[str]) -> str:
    """Parts of a sentence that are not empty, with commas."""
    return ", ".join(part for part in parts if part)
