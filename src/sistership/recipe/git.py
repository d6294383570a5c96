"""Git by argv: one function, one environment, so that a user's settings change nothing that reaches an image."""

from __future__ import annotations

import os
import subprocess
from typing import IO, TYPE_CHECKING, Final, Self

from sistership import trace
from sistership.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Settings that would change bytes, ask questions, run programs, or start work in the background.
#: The rest of the user's configuration stays: proxies, credentials and `insteadOf` are how they reach their forks.
_SETTINGS: Final = (
    "core.autocrlf=false",
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "apply.whitespace=nowarn",
    "apply.ignoreWhitespace=no",
    "fetch.recurseSubmodules=no",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.version=2",
)
#: Set when we are called from a hook or from `git rebase --exec`: they would point git at another repository.
_INHERITED: Final = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)


class GitError(Exception):
    """Git ended with a status other than 0; callers turn it into an error of their own.

    Attributes:
        status: its exit status.
        stderr: what it said, as text.
    """

    def __init__(self, args: Sequence[str], status: int, stderr: str) -> None:
        super().__init__(f"git {' '.join(args)}: exit {status}: {stderr}")
        self.status = status
        self.stderr = stderr

    @property
    def reason(self) -> str:
        """The line that says why: the last that git marks as fatal or an error, else the last of all."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        marked = [line for line in lines if line.lower().startswith(("fatal:", "error:", "remote error:"))]
        return (marked or lines or [f"git exited with {self.status}"])[-1]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment every git runs in: no questions, no replaced objects, messages in English."""
    env = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    env.update(GIT_TERMINAL_PROMPT="0", GIT_NO_REPLACE_OBJECTS="1", GIT_OPTIONAL_LOCKS="0", LC_ALL="C", LANGUAGE="C")
    env.setdefault("GIT_ASKPASS", "true")
    env.update(extra or {})
    return env


def argv(args: Sequence[str], *, repo: Path | None = None) -> list[str]:
    """The full command line: `repo` is a git directory or a work tree."""
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    return ["git", *(["-C", str(repo)] if repo else []), *settings, *args]


def git(
    *args: str,
    repo: Path | None = None,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    keep_open: Sequence[int] = (),
) -> bytes:
    """Run git and return its standard output.

    Args:
        args: the subcommand and its arguments.
        repo: git directory or work tree to run in.
        stdin: given to git; without it git reads an empty file.
        env: added to `environment()`.
        keep_open: file descriptors git inherits; an advisory lock among them is held as long as git lives.

    Raises:
        GitError: git ended with another status than 0.
        SourceError: there is no git on PATH.
    """
    command = argv(args, repo=repo)
    span = trace.program(command)
    try:
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            env=environment(env),
            pass_fds=tuple(keep_open),
            check=False,
        )
    except FileNotFoundError as error:
        raise _no_git() from error
    span.end(done.returncode, done.stderr.decode(errors="replace"))
    if done.returncode:
        raise GitError(args, done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout


def text(*args: str, repo: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Like `git`, for one line of text."""
    return git(*args, repo=repo, env=env).decode(errors="surrogateescape").strip()


class Objects:
    """Contents of many objects of one repository, through one `git cat-file --batch`.

    Raises (from `read`):
        SourceError: the repository lacks the object.
    """

    def __init__(self, repo: Path) -> None:
        try:
            self._process = subprocess.Popen(
                argv(["cat-file", "--batch"], repo=repo),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(),
            )
        except FileNotFoundError as error:
            raise _no_git() from error
        self._repo = repo

    def read(self, oid: str) -> bytes:
        """The bytes of the object `oid` (40 hex digits)."""
        asked, answer = _pipes(self._process)
        asked.write(oid.encode() + b"\n")
        asked.flush()
        header = answer.readline().split()
        if len(header) != 3:  # noqa: PLR2004 -- "<oid> <type> <size>", or "<oid> missing"
            raise SourceError(
                f"object {oid} is missing from the source cache", where=str(self._repo), hint="remove that folder"
            )
        data = answer.read(int(header[2]) + 1)
        return data[:-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        asked, answer = _pipes(self._process)
        asked.close()
        answer.close()
        self._process.wait()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:  # pragma: no cover -- both are pipes by construction
        raise RuntimeError("cat-file has no pipes")
    return process.stdin, process.stdout


def _no_git() -> SourceError:
    return SourceError("git is not installed", hint="install the package `git`")
