"""What happens in a run, as values; `listeners` says who may hear of it.

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

from dataclasses import dataclass

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
