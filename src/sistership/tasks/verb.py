"""What every verb has in common: flags, errors as exit codes, where the project is."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from invoke import Context, task
from invoke.exceptions import Exit

from sistership.errors import INTERRUPTED, SistershipError, UsageError
from sistership.tasks.run import Json, Run

F = TypeVar("F", bound=Callable[..., Any])

MATRIX = "buildmatrix.yaml"

#: The flags that every verb has.
COMMON = ("quiet", "verbose")

HELP: Mapping[str, str] = {
    "variant": "variants by name or glob, separated by commas; ^NAME leaves one out (default: all)",
    "platform": "only for this platform, such as linux/arm64 (default: all that the variant has)",
    "hosts": "hosts by name, group or glob, separated by commas; ^NAME leaves one out (default: all)",
    "matrix": "the matrix file (default: buildmatrix.yaml here or in a folder above)",
    "source": "FORK=DIR: take a fork's commits from a local clone; may be given again",
    "keep": "older images kept on each host for a rollback, of each variant (default: prune 1, ship all)",
    "local": "the local store in place of hosts; with --hosts both",
    "yes": "do what was shown; without it nothing is changed",
    "dry-run": "show what would be done and do nothing",
    "out": "write the plan into FILE, for `ship --plan FILE`",
    "plan": "do exactly what this file of `plan --out` says, or refuse when the world moved",
    "detailed-exitcode": "exit 2 when there is work to do, 0 when there is none",
    "via": "registry: push it there once, hosts pull it by digest; direct: straight to the hosts "
    "(default: registry for variants that name one)",
    "minimize": "bytes: send the difference of a changed library even where the whole one is there sooner",
    "deep": "hash the files inside the image on each host too",
    "json": "print one JSON document instead of text",
    "jobs": "hosts worked on at once",
    "quiet": "no progress, only results and errors",
    "verbose": "say everything",
    "upgrade": "resolve everything anew, also what the lock holds",
    "locked": "refuse to change the lock (for CI)",
    "archive-bases": "keep the bases in the store too, so that `--offline` can build on them",
    "offline": "take the bases from the store and ask no registry (see `lock --archive-bases`)",
    "output": "where to write instead of printing; render makes DIR/VARIANT with Dockerfile and build context",
    "expect": "measure hosts by this, not by the lock: an export, a folder of them, a sistership.json, another lock",
    "file": "a file that export wrote",
    "sha256": "the file's sha256 as export printed it; another one is refused",
    "format": "table, or github: one line for $GITHUB_OUTPUT with what is not built yet",
    "no-cache": "build without the builder's cache",
    "first": "a file of `export` or `docker save`, a built variant, HOST:VARIANT, HOST:IMAGE:TAG, "
    "or digits of a recipe key or config digest",
    "second": "what it is compared with",
    "what": "built variants by name or glob, a file of `export` or `docker save`, HOST:VARIANT, HOST:IMAGE:TAG, "
    "or digits of a recipe key or config digest",
    "builder": "the host that builds again (default: the one that the matrix names)",
    "purge": "remove caches and images of the fleet as well",
    "shell": "bash, zsh or fish",
    "templates": "copy the Dockerfile templates into the project too, to change them there",
    "probe": "log in to each ssh alias and see what engine and cards it has",
    "ssh-config": "the ssh configuration whose aliases become hosts (default: ~/.ssh/config)",
}


@overload
def verb(body: F) -> Any: ...


@overload
def verb(*, name: str | None = None, json: Json = "document") -> Callable[[F], Any]: ...


def verb(body: F | None = None, *, name: str | None = None, json: Json = "document") -> Any:
    """An Invoke task without single-letter flags (`-h` must never mean --hosts), with our errors and exit codes.

    The body gets the run as its first argument. Every verb has `--quiet` and `--verbose`; one that declares
    `json` answers `--json` as said here.

    Args:
        name: of the verb where it is not the function's.
        json: JSON lines for a long verb, one document for a query.
    """
    if body is None:
        return functools.partial(verb, name=name, json=json)
    called, declared = name or body.__name__.replace("_", "-"), inspect.signature(body)

    @functools.wraps(body)
    def task_body(context: Context, *args: Any, **kwargs: Any) -> Any:
        if context.config.run.dry:
            # `invoke --dry ship` would ship for real: the flag is about shell commands of tasks.
            problem = UsageError("--dry is Invoke's own and stops no verb here", hint="--dry-run after the verb")
            raise Exit(f"error: {problem}", code=problem.code)
        flags = {flag: bool(kwargs.get(flag)) for flag in COMMON}
        asked = json if kwargs.get("json") else None
        own = {key: value for key, value in kwargs.items() if key in declared.parameters}
        with Run.under_way(called, json=asked, **flags) as run:
            return conduct(run, lambda: body(run, *args, **own))

    task_body.__signature__ = _with_common(declared)  # type: ignore[attr-defined]
    flags = list(_with_common(declared).parameters)[1:]
    help_texts = {flag.replace("_", "-"): HELP[flag.replace("_", "-")] for flag in flags}
    if json == "lines" and "json" in flags:
        help_texts["json"] = "print JSON lines instead of text, while the work goes on"
    iterable = [flag for flag in flags if flag == "source"]
    return task(auto_shortflags=False, help=help_texts, iterable=iterable)(task_body)


def _with_common(declared: inspect.Signature) -> inspect.Signature:
    """The signature with the flags that every verb has."""
    flag = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
    missing = [flag(name) for name in COMMON if name not in declared.parameters]
    return declared.replace(parameters=[*declared.parameters.values(), *missing])


def conduct(run: Run, work: Callable[[], Any]) -> Any:
    """Do a run's work; whatever ends it becomes an exit code, words for people, and the last event.

    Raises:
        Exit: it did not end well.
    """
    try:
        result = work()
    except Exit as end:
        raise Exit(run.ended(end.code), code=end.code) from end
    except SistershipError as error:
        raise Exit(run.failed(error), code=error.code) from error
    except KeyboardInterrupt:
        raise Exit(run.interrupted(), code=INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output went away (`| head`); there is nobody left to tell.
        sys.stdout = None
        raise Exit(code=0) from None
    except OSError as error:
        failed = SistershipError(error.strerror or str(error), where=error.filename and str(error.filename))
        raise Exit(run.failed(failed), code=failed.code) from error
    except Exception as error:
        raise Exit(run.crashed(error), code=SistershipError.code) from error
    run.ended(0)
    return result


def matrix_path(given: str | None) -> Path:
    """The matrix file: as given, else buildmatrix.yaml here or in the nearest folder above.

    Raises:
        UsageError: there is none.
    """
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"--matrix {given}: there is no such file")
        return path
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / MATRIX).is_file():
            return folder / MATRIX
    raise UsageError(f"there is no {MATRIX} here or in a folder above", hint="go to your project, or use --matrix FILE")


def lock_path(matrix: Path) -> Path:
    """The lock beside a matrix: `NAME.yaml` has `NAME.lock.json`."""
    return matrix.with_name(f"{matrix.stem}.lock.json")


def positive(text: str | int, flag: str) -> int:
    """A flag's value as a whole number from 1.

    Raises:
        UsageError: it is none.
    """
    value = int(text) if str(text).isdigit() else 0
    if value < 1:
        raise UsageError(f"{flag} {text}: not a whole number from 1")
    return value


def whole(text: str | int, flag: str) -> int:
    """A flag's value as a whole number from 0.

    Raises:
        UsageError: it is none.
    """
    if str(text).isascii() and str(text).isdigit():
        return int(text)
    raise UsageError(f"{flag} {text}: not a whole number from 0")


def json_text(document: Mapping[str, Any]) -> str:
    """One JSON document as text."""
    return json.dumps(document, indent=2, sort_keys=True)


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output; every one has `version` and `type`."""
    say(json_text({**document, "type": document.get("type", document.get("kind"))}))


def say(text: str) -> None:
    """A result, on standard output; a live board makes room for it."""
    run = Run.current()
    if run:
        run.reporter.pause()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def finish(code: int) -> None:
    """End the run with an exit code that results alone decide."""
    if code:
        raise Exit(code=code)
