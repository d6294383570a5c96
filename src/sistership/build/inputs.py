"""What a build was made of: what its recipe says, and what the builder's package stage holds.

The toolchain and the packages cannot be known before the build, so they are asked of the stage that was built.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from sistership.errors import BuildError, SistershipError
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.recipe.context import write_scripts
from sistership.recipe.flags import flags
from sistership.recipe.recipe import Recipe
from sistership.report.listeners import Reporter

#: The template's stage that holds nothing but the two lists.
STAGE: Final = "record"
#: Field of the lock's record → the file in that stage.
MEASURED: Final[Mapping[str, str]] = {"toolchain": "toolchain.tsv", "packages": "packages.tsv"}
#: Said by `commit` already.
_COMMIT: Final = ("LLAMA_BUILD_NUMBER", "LLAMA_BUILD_COMMIT")
#: The package lists of the largest NVIDIA images are some 40 KiB.
_LARGEST: Final = 8 << 20
_SECONDS: Final = 900

_FROM: Final = re.compile(r"(?mi)^FROM\s+(?:--platform=\S+\s+)?(\S+@sha256:[0-9a-f]{64})\s+AS\s+(\S+)")
_SNAPSHOT: Final = re.compile(r'apt-get --snapshot "([^"]+)"')
_RAN: Final = re.compile(r"(?m)^#(\d+) \[(?!internal\])(?:\S+ )?(\S+) +\d+/\d+\] (?!FROM )")
_CACHED: Final = re.compile(r"(?m)^#(\d+) CACHED$")


def asked(recipe: Recipe) -> dict[str, Any]:
    """Everything that a recipe fixes, by the names that the lock has for it.

    Bases and snapshot are read from the text that is built: a project's own template may pin its own.
    """
    stages = {"packages": "build"}
    moment = _SNAPSHOT.search(recipe.dockerfile)
    given = flags(recipe.variant, recipe.platform, number="", commit="")
    patches = recipe.labels.get("dev.sistership.patches", "").split(",")
    return {
        "commit": recipe.commit,
        "tree": recipe.tree,
        "bases": {stages.get(stage, stage): base for base, stage in _FROM.findall(recipe.dockerfile)},
        "snapshot": moment[1] if moment else "",
        "patches": dict(patch.split("@", 1) for patch in patches if "@" in patch),
        "flags": {flag.name: flag.value for flag in given if flag.name not in _COMMIT},
    }


def kept(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an entry of the lock says was measured; nothing where it was made before this was kept."""
    return {name: record[name] for name in MEASURED if name in record} if record else {}


def script(docker: str, recipe: Recipe) -> str:
    """The two lists as a tar on standard output, their context on standard input, talk on standard error.

    The stages are not taken from the cache: after a build without it they would still be those of an earlier build
    (measured with buildx 0.13 on both stores of 26.1), while the stage below comes from the newest build.
    """
    words = ["buildx", "build", "--platform", recipe.platform, "--provenance=false", "--sbom=false"]
    words += ["--target", STAGE, "--no-cache-filter", f"inputs,{STAGE}", "--output", "type=tar,dest=-"]
    return f"{docker} {quote(*words, '--progress', 'plain')} -"


def measure(peer: Peer, recipe: Recipe, log: Path, reporter: Reporter) -> dict[str, Any]:
    """Toolchain and packages of the build that has just ended on this builder; about a second.

    They explain a result and decide nothing, so a failure is told and the build goes on: the record lacks them then.

    Args:
        log: of the build; what the builder said here is added to it.
    """
    if not any(stage == STAGE for stage in re.findall(r"(?mi)^FROM\s.*\sAS\s+(\S+)", recipe.dockerfile)):
        reporter.detail(f"{recipe.variant.name}: its template has no stage {STAGE}, so its inputs are not recorded")
        return {}
    try:
        return _measured(peer, recipe, log)
    except SistershipError as error:
        why = f": {error.why}" if error.why else ""
        reporter.step(peer.name, f"toolchain and packages are not recorded, {error.what}{why}")
        return {}


def _measured(peer: Peer, recipe: Recipe, log: Path) -> dict[str, Any]:
    context, out = io.BytesIO(), bytearray()
    write_scripts(recipe, context)

    def take(chunk: bytes) -> None:
        out.extend(chunk[: _LARGEST + 1 - len(out)])

    done = peer.transport.run(script(peer.engine.cli, recipe), stdin=context.getvalue(), sink=take, timeout=_SECONDS)
    with log.open("a", encoding="utf-8") as file:
        file.write(done.err)
    if done.status != 0:
        lines = [line for line in done.err.splitlines() if line.strip()]
        raise BuildError("the builder could not list them", why=lines[-1][:200] if lines else None)
    if made_anew(done.err):
        raise BuildError("the builder has lost the package stage of this build and made it anew")
    return parse(bytes(out))


def made_anew(progress: str) -> bool:
    """Whether any stage but the lists themselves ran again: what they say would not be what was built with.

    Args:
        progress: buildx's plain progress, or the end of it.
    """
    cached = set(_CACHED.findall(progress))
    return any(number not in cached for number, stage in _RAN.findall(progress) if stage not in ("inputs", STAGE))


def parse(data: bytes) -> dict[str, Any]:
    """The lists out of a tar: `toolchain` and `packages`, each name → version.

    Raises:
        BuildError: it is no such tar.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            return {field: dict(_rows(tar, name)) for field, name in MEASURED.items()}
    except (KeyError, UnicodeDecodeError, ValueError, tarfile.TarError) as error:
        raise BuildError("what the builder sent is not the two lists", why=str(error)) from error


def _rows(tar: tarfile.TarFile, name: str) -> Iterator[tuple[str, str]]:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    for line in file.read().decode().splitlines():
        if line.strip() and not line.startswith("#"):
            key, tab, version = line.partition("\t")
            if not (key and tab and version) or "\t" in version:
                raise ValueError(f"{name}: a line without NAME and VERSION: {line[:60]!r}")
            yield key, version
