"""A recipe to an exported image, by `docker buildx` on the builder, wherever that is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from sistership.build import checks
from sistership.build.causes import Cause, explain, first_words, last_words
from sistership.errors import BuildError, CheckError
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.recipe.recipe import Recipe
from sistership.report.listeners import Reporter, counted

CHUNK = 1 << 20
_LOG_TAIL = 64 << 10


def raw_reference(recipe: Recipe) -> str:
    """The name of the builder's own image while it is exported; it is removed afterwards."""
    return f"sistership.local/raw:{recipe.key[:24]}"


def build_script(docker: str, recipe: Recipe, *, no_cache: bool = False) -> str:
    """The build, its context on standard input.

    The context is a tar and not a folder: a folder whose files keep their size and time is taken for unchanged
    (measured on four engines). Attestations are off: they carry times and turn the image into an index.
    """
    words = ["buildx", "build", "--platform", recipe.platform, "--provenance=false", "--sbom=false", "--load"]
    words += ["--progress", "plain", "--tag", raw_reference(recipe)]
    words += ["--no-cache"] if no_cache else []
    return f"{docker} {quote(*words)} - 2>&1"


def run_build(
    peer: Peer, recipe: Recipe, context: BinaryIO, log: Path, reporter: Reporter, *, no_cache: bool = False
) -> None:
    """Build on the builder; its whole output goes to `log`. What the next try does not meet is tried once more.

    Raises:
        CheckError: a check of the image failed.
        BuildError: it failed; the message carries the known cause, or the log's last lines.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    script = build_script(peer.engine.cli, recipe, no_cache=no_cache)
    with log.open("wb", buffering=0) as out:
        for last in (False, True):
            heard = _Heard(peer.name, out, reporter)
            done = peer.transport.run(script, stdin=_chunks(context), sink=heard.take)
            if done.status == 0:
                return
            cause = explain(last_words(heard.text))
            if last or not (cause and cause.passes):
                break
            reporter.step(peer.name, f"{cause.why}; once more")
            context.seek(0)
    raise failure(recipe, peer.name, heard.text, log, heard.told.findings)


class _Heard:
    """What a build prints: kept in the log, and told to people who wait."""

    def __init__(self, host: str, out: BinaryIO, reporter: Reporter) -> None:
        self._out = out
        self._tail = bytearray()
        self._steps = StepLines(
            lambda line: reporter.step(host, line),
            lambda done, total: reporter.progress(host, "compiled", done, total, "files"),
        )
        self.told = checks.Told()

    def take(self, chunk: bytes) -> None:
        """The next piece of output."""
        self._out.write(chunk)
        self._tail.extend(chunk)
        del self._tail[:-_LOG_TAIL]
        self.told.feed(chunk)
        self._steps.feed(chunk)

    @property
    def text(self) -> str:
        """The end of it."""
        return self._tail.decode(errors="replace")


def failure(
    recipe: Recipe, builder: str, text: str, log: Path, failed: Sequence[checks.Finding] = ()
) -> BuildError | CheckError:
    """What a failed build tells a user.

    Args:
        text: the end of its log.
        log: where all of it is.
        failed: the checks that ended it.
    """
    where = f"{recipe.variant.name} on {builder}"
    if failed:
        return checks.refusal(failed, where, f"the whole log: {log}")
    words = last_words(text) if re.search(r"(?m)^#\d+ ", text) else first_words(text)
    # Only the end decides: what a step printed long before it failed is no cause.
    cause = explain(words)
    return BuildError(
        f"the build failed:\n{words}",
        where=where,
        why=cause.why if cause else None,
        hint=f"{cause.hint}; the whole log: {log}" if cause else f"read the whole log: {log}",
    )


class StepLines:
    """Finds what a build does in buildx's plain progress, for people who wait: steps, and files compiled of all.

    Args:
        tell: takes each step once.
        count: takes files compiled, and files to compile.
    """

    _STEP = re.compile(r"^#\d+ (\[[^\]]+\] .+)$")
    _COMPILED = re.compile(r"^#\d+ [\d.]+ \[(\d+)/(\d+)\] ")

    def __init__(self, tell: Callable[[str], None], count: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._count = count
        self._rest = ""
        self._seen: set[str] = set()

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of output."""
        *lines, self._rest = (self._rest + chunk.decode(errors="replace")).split("\n")
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        if (step := self._STEP.match(line)) and not step[1].startswith("[internal]"):
            if step[1] not in self._seen:
                self._seen.add(step[1])
                self._tell(" ".join(step[1].split())[:100])
        elif compiled := self._COMPILED.match(line):
            self._count(int(compiled[1]), int(compiled[2]))


def export(peer: Peer, recipe: Recipe, out: BinaryIO, reporter: Reporter) -> None:
    """`docker save` of the built image into `out`.

    Raises:
        BuildError: the engine could not export it.
    """
    sink = counted(out.write, reporter, peer.name, "exported")
    done = peer.transport.run(f"{peer.engine.cli} save {quote(raw_reference(recipe))}", sink=sink)
    if done.status != 0:
        raise BuildError("the built image could not be exported", where=peer.name, why=done.err.strip()[-300:] or None)


def remove_raw(peer: Peer, recipe: Recipe) -> None:
    """Remove the builder's own image; its layers stay in the build cache."""
    peer.transport.run(f"{peer.engine.cli} image rm {quote(raw_reference(recipe))} >/dev/null 2>&1", timeout=120)


def digest_of(peer: Peer, reference: str) -> str:
    """`reference@sha256:…` as its registry has it now, asked by the builder.

    Raises:
        BuildError: the registry does not know it or does not answer.
    """
    if "@sha256:" in reference:
        return reference
    script = f"{peer.engine.cli} buildx imagetools inspect {quote(reference)} --format '{{{{json .Manifest}}}}'"
    done = peer.transport.run(script, timeout=180)
    try:
        digest = str(json.loads(done.text)["digest"]) if done.status == 0 else ""
    except (ValueError, KeyError, TypeError):
        digest = ""
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        lines = (done.err or done.text).strip().splitlines()
        cause = explain(done.err)
        raise BuildError(
            f"the digest of the base {reference} cannot be asked from its registry",
            where=peer.name,
            why=cause.why if cause and "buildx" in cause.why else (lines[-1] if lines else None),
            hint=_digest_hint(reference, lines[-1] if lines else "", cause),
        )
    return f"{reference}@{digest}"


def _digest_hint(reference: str, said: str, cause: Cause | None) -> str:
    if cause and "buildx" in cause.why:
        return cause.hint
    if re.search(r"not found|manifest unknown", said):
        return "correct `base:` in the matrix: that registry has no such name or tag"
    return f"pin it in the matrix: {reference}@sha256:…"


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        yield chunk
