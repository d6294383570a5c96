"""A variant's Dockerfile as text. Pure: the same variant, platform and lock give the same text.

Templates are Jinja2 with StrictUndefined and without autoescape: a misspelt name is an error and `&&` stays `&&`.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, TemplateError, TemplateSyntaxError

from sistership import resources
from sistership.errors import MatrixError, Problem
from sistership.matrix import snapshots
from sistership.recipe import checks
from sistership.recipe import flags as cmake
from sistership.recipe.labels import labels
from sistership.recipe.lock import LockedVariant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sistership.matrix.model import Fork, Matrix, Variant

#: Stands where the lock would say more.
UNRESOLVED: Final = "<not resolved: run sistership lock>"
SCRIPTS: Final = (
    "build.sh",
    "check.sh",
    "check-code.sh",
    "check-flags.sh",
    "check-run.sh",
    "collect.sh",
    "findings.sh",
    "inputs.sh",
    "jobs.sh",
    "launch.sh",
)
#: The worker was renamed upstream (ggml-org/llama.cpp b9824), forks keep the old name.
WORKER: Final = "rpc-server|ggml-rpc-server"
PROGRAMS: Final = ("llama-bench", "llama-cli", "llama-server")
#: MiB that one compiler may need: nvcc for one large kernel file, g++ for the server.
_MEMORY: Final = {"cuda": 2048, "cpu": 1024}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_FINAL: Final = re.compile(r"^(COPY|ADD|RUN|WORKDIR|VOLUME|ONBUILD)\b(.*)$", re.MULTILINE | re.IGNORECASE)
_FROM: Final = re.compile(r"^FROM\s", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Template:
    """A Dockerfile template: its text, and the path to name in errors."""

    path: str
    text: str


def template(project: Path, variant: Variant) -> Template:
    """The variant's template: the project's own, else the one that comes with sistership.

    Raises:
        MatrixError: there is none of that name.
    """
    path = resources.find(project, "dockerfiles", variant.template)
    if path is None:
        raise _problem(variant.where, f"variant {variant.name}: there is no template dockerfiles/{variant.template}")
    return Template(str(path), path.read_text(encoding="utf-8"))


def scripts(project: Path) -> Mapping[str, bytes]:
    """The support scripts of the build context, name → bytes with LF line ends.

    Raises:
        MatrixError: one is missing, so the installation is damaged.
    """
    found: dict[str, bytes] = {}
    for name in SCRIPTS:
        path = resources.find(project, "dockerfiles", f"support/{name}")
        if path is None:
            raise _problem("", f"dockerfiles/support/{name} is missing; install sistership again")
        found[name] = path.read_bytes().replace(b"\r\n", b"\n")
    return found


def layers(variant: Variant) -> tuple[str, ...]:
    """Folders of the build stage that become layers, from what changes least to what changes most."""
    return (f"10-ggml-{variant.backend}", "20-libs", "30-bin")


def dockerfile(matrix: Matrix, variant: Variant, platform: str, locked: LockedVariant | None, key: str = "") -> str:
    """The rendered Dockerfile; without a lock it is marked where something is not resolved yet.

    Raises:
        MatrixError: the template names something that does not exist, or a value cannot stand in a Dockerfile.
    """
    fork = matrix.forks[variant.fork]
    return render(variant, platform, locked, fork=fork, template=template(matrix.project, variant), key=key)


def render(
    variant: Variant, platform: str, locked: LockedVariant | None, *, fork: Fork, template: Template, key: str = ""
) -> str:
    """Like `dockerfile`, with the template's text given."""
    values = _values(variant, platform, locked, fork, key)
    environment = Environment(
        loader=FunctionLoader(lambda _: (template.text, template.path, None)),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 -- a Dockerfile is no HTML: escaping would break && and <<
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    try:
        text = environment.get_template(template.path).render(values)
    except TemplateError as error:
        line = error.lineno if isinstance(error, TemplateSyntaxError) else _line(error, template.path)
        problem = Problem(
            template.path, line, 1, f"variant {variant.name}: {error.message}", f"known: {', '.join(sorted(values))}"
        )
        raise MatrixError([problem]) from error
    return text.lstrip("\n")


def instructions(text: str, where: str = "Dockerfile") -> tuple[str, ...]:
    """The COPY lines of the final stage, one per own layer, in order.

    Raises:
        MatrixError: the final stage does something that engines do not do alike (`COPY --chmod` has three behaviours,
            `COPY --link` replaces directories, RUN and WORKDIR leave times and owners behind), or it copies nothing.
    """
    begin = [match.start() for match in _FROM.finditer(text)]
    stage = text[begin[-1] :] if begin else ""
    found: list[str] = []
    for match in _FINAL.finditer(stage):
        word, rest = match[1].upper(), match[2]
        if word != "COPY" or re.search(r"\s--(chmod|link|parents|exclude)\b", rest) or rest.rstrip().endswith("\\"):
            line = text.count("\n", 0, begin[-1] + match.start()) + 1
            message = f"the final stage may only COPY folders, one line each, without --chmod and --link: {match[0]}"
            raise MatrixError([Problem(where, line, 1, message, "prepare the files in the build stage")])
        found.append(" ".join(match[0].split()))
    if not found:
        raise MatrixError([Problem(where, 1, 1, "the final stage copies nothing", "COPY one folder per layer")])
    return tuple(found)


def _values(variant: Variant, platform: str, locked: LockedVariant | None, fork: Fork, key: str) -> dict[str, Any]:
    known = locked or _unresolved(variant)
    given = cmake.flags(variant, platform, number=str(known.number) if locked else UNRESOLVED, commit=known.commit)
    shown = labels(variant, fork, known, key or ("" if locked else UNRESOLVED))
    for name, value in [*((flag.name, flag.value) for flag in given), *shown.items()]:
        if _CONTROL.search(value):
            raise _problem(variant.where, f"variant {variant.name}: {name} holds a control character")
    worker = WORKER if variant.options.rpc else ""
    return {
        "notes": _notes(variant, platform, locked),
        "base": {"build": known.bases["build"], "runtime": known.bases["runtime"]},
        "packages": variant.packages,
        "snapshot": known.snapshot,
        "backend": variant.backend,
        "cuda": variant.cuda is not None,
        "driver_stub": variant.cuda is not None and variant.options.vmm,
        "stubs": cmake.STUBS,
        "flags": [str(flag) for flag in given],
        "guards": _wrapped([flag.name for flag in given if not flag.must]),
        "memory": _MEMORY[variant.backend],
        "programs": PROGRAMS,
        "targets": [*PROGRAMS, *([f'"{worker}"'] if worker else [])],
        "worker": f'"{worker}"' if worker else "-",
        "layers": layers(variant),
        "checks": checks.options(variant, platform, given, commit=known.commit, programs=PROGRAMS, worker=worker),
        "labels": [f"{name}={_quoted(value)}" for name, value in shown.items()],
        "variant": variant,
        "platform": platform,
        "locked": known,
    }


def _unresolved(variant: Variant) -> LockedVariant:
    """What stands in the text while nothing is resolved; a digest or a full hash in the matrix needs no lock."""
    bases = {"build": variant.base.build, "runtime": variant.base.runtime}
    return LockedVariant(
        inputs="",
        commit=variant.commit if re.fullmatch(r"[0-9a-f]{40}", variant.commit) else UNRESOLVED,
        tree=UNRESOLVED,
        number=0,
        date=UNRESOLVED,
        bases={name: ref if "@sha256:" in ref else f"{ref}@sha256:{UNRESOLVED}" for name, ref in bases.items()},
        snapshot=_moment(variant),
    )


def _moment(variant: Variant) -> str:
    if not snapshots.pins(variant.snapshot):
        return ""
    return UNRESOLVED if variant.snapshot == snapshots.AUTO else variant.snapshot


def _notes(variant: Variant, platform: str, locked: LockedVariant | None) -> list[str]:
    notes = [f"Variant {variant.name} for {platform}, rendered by sistership from dockerfiles/{variant.template}."]
    if locked is None:
        what = "commit, tree, build number, base digests and package snapshot"
        notes += [f"NOT RESOLVED: {what} are fixed by `sistership lock`."]
    return notes


def _wrapped(names: list[str], width: int = 100) -> list[str]:
    rows: list[str] = []
    for name in names:
        if rows and len(rows[-1]) + len(name) < width:
            rows[-1] += f" {name}"
        else:
            rows.append(name)
    return rows


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def _line(error: BaseException, path: str) -> int:
    """The template's line that raised: jinja puts it into the traceback."""
    rows = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return (rows[-1] if rows else None) or 1


def _problem(where: str, message: str) -> MatrixError:
    file, _, rest = where.partition(":")
    numbers = [int(part) for part in rest.split(":") if part.isdigit()] + [1, 1]
    return MatrixError([Problem(file or "buildmatrix.yaml", numbers[0], numbers[1], message)])
