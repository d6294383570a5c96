"""Reports of checks, and failed checks in the log of a build."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from sistership.build.builder import failure, run_build
from sistership.build.checks import Finding, Result, Told, disagreements, failed, parse, refusal, wanted
from sistership.errors import BuildError, CheckError
from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.transport import Completed
from sistership.matrix.model import Host
from sistership.recipe.recipe import Recipe, recipe_of
from sistership.report.listeners import Silent

HEAD = "# sistership checks 1\n"
ARCHS = "archs\tok\t/app/lib/libggml-cuda.so.0\t89 120\tsm_89 in 4, sm_120a in 4 kernel files\t\n"
CLOSURE = "needed\tfailed\t/app/bin/llama-cli\tevery library\tlibfoo.so.1 is missing\tcopy it\n"
STUB = "stub\tnot judged\t/app/lib\tno stub\tno readelf\t\n"
LINE = "sistership-check:\tarchs\t/app/lib/libggml-cuda.so.0\t89;120\t89\tcorrect cuda: archs"
FOUND = Finding("archs", Result.FAILED, "/app/lib/libggml-cuda.so.0", "89;120", "89", "correct cuda: archs")


def test_report_is_read_in_its_order() -> None:
    """Each line becomes a finding; what was not judged is neither ok nor failed."""
    found = parse((HEAD + ARCHS + CLOSURE + STUB).encode(), "sample")
    assert [each.result for each in found] == [Result.OK, Result.FAILED, Result.NOT_JUDGED]
    assert found[1] == Finding(
        "needed", Result.FAILED, "/app/bin/llama-cli", "every library", "libfoo.so.1 is missing", "copy it"
    )
    assert failed(found) == (found[1],)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "first line"),
        (ARCHS, "first line"),
        (HEAD, "no check at all"),
        (HEAD + "archs\tok\tx\n", "line 2 has 3 fields"),
        (HEAD + ARCHS + "archs\tok\tx\ty\tz\t\tmore\n", "line 3 has 7 fields"),
        (HEAD + "archs\tfine\tx\ty\tz\t\n", "'fine'"),
        (HEAD + "\tok\tx\ty\tz\t\n", "line 2 says ''"),
        (HEAD + "archs\tok\tx\ty\tz\tdo this\n", "ok and its cure"),
        (HEAD + "archs\tfailed\tx\ty\tz\t\n", "failed and its cure"),
        (HEAD + ARCHS + "\n", "line 3 has 1 fields"),
    ],
)
def test_damaged_report_is_no_report(text: str, why: str) -> None:
    """A cut, edited or empty report is refused with the line; it never counts as passed."""
    with pytest.raises(CheckError) as error:
        parse(text.encode(), "sample")
    assert why in str(error.value.why)


def test_newer_report_is_refused_with_a_next_step() -> None:
    """A report of a later version is not guessed at."""
    with pytest.raises(CheckError) as error:
        parse(b"# sistership checks 2\nanything\n", "sample")
    assert "version 2" in str(error.value.why)
    assert "newer" in str(error.value.hint)


def test_nothing_that_a_terminal_obeys() -> None:
    """Names of files come out with escapes instead of control characters, from reports and from logs."""
    (found,) = parse(HEAD.encode() + b"x\tok\t/app/\x1b[2J\ta\t\xff\t\n", "sample")
    assert found.subject == "/app/\\x1b[2J"
    told = Told()
    told.feed(b"sistership-check:\tx\t/app/\x1b[2J\ta\tb\tc\n")
    assert told.findings[0].subject == found.subject


@pytest.mark.parametrize("step", [7, 64, 1 << 20])
def test_failed_checks_are_found_in_a_log(step: int) -> None:
    """As progress, repeated at the end, bare and with CRLF, however the log is cut: once each, in order."""
    other = "sistership-check:\tneeded\t/app/bin/x\ty\tz\tcure"
    log = f"#14 [checks 1/1] RUN sh check.sh\n#14 12.34 {LINE}\n#14 12.35 {other}\r\n" + "#15 noise\n" * 9000
    log += f"------\n > [checks 1/1] RUN sh check.sh:\n12.34 {LINE}\n12.35 {other}\n------\n{LINE}"
    told = Told()
    for at in range(0, len(log), step):
        told.feed(log[at : at + step].encode())
    assert told.findings == (FOUND, Finding("needed", Result.FAILED, "/app/bin/x", "y", "z", "cure"))


@pytest.mark.parametrize(
    "line",
    ["#9 1.0 printf 'sistership-check:\t%s'", "sistership-check: archs", "echo sistership-check:\ta\tb\tc\td\te"],
)
def test_text_about_checks_is_no_failed_check(line: str) -> None:
    """What a script or a Dockerfile says of the marker is not taken for a finding."""
    told = Told()
    told.feed(f"{line}\n".encode())
    assert told.findings == ()


def test_a_line_cut_short_is_still_a_failure() -> None:
    """Fields that are missing are empty: the check failed all the same."""
    told = Told()
    told.feed(b"#3 0.1 sistership-check:\tarchs\t/app/x\n")
    assert told.findings == (Finding("archs", Result.FAILED, "/app/x", "", ""),)


def test_error_of_one_and_of_several() -> None:
    """Variant, file, expected, found and cure of the first; the others by name; four lines with the log's."""
    one = refusal([FOUND], "alpha on spark", "the whole log: /l")
    assert one.code == 15
    assert str(one).splitlines() == [
        "alpha on spark: a check of the image failed: archs of /app/lib/libggml-cuda.so.0: expected 89;120, found 89",
        "  next: correct cuda: archs; the whole log: /l",
    ]
    several = refusal([FOUND, *parse((HEAD + CLOSURE).encode(), "x")], "alpha on spark", "the whole log: /l")
    assert "2 checks of the image failed: archs of" in str(several)
    assert "  why:  failed too: needed of /app/bin/llama-cli" in str(several)
    assert len(str(several).splitlines()) == 3


def test_report_of_another_recipe() -> None:
    """A report that expected other archs or another commit than the recipe, or is silent of them, is another one's."""
    version = f"version\tnot judged\t/app/bin/llama-cli\t{'1' * 40}\tthis source takes none\t\n"
    found = parse((HEAD + ARCHS + version).encode(), "sample")
    assert disagreements(found, wanted(["89", "120"], "1" * 40)) == ()
    assert disagreements(found, wanted(["89", "120"], "")) == ()
    (wrong,) = disagreements(found, wanted(["89"], "1" * 40))
    assert (wrong.check, wrong.subject, wrong.expected, wrong.found) == ("recipe", "archs", "89", "89 120")
    assert wrong.cure
    assert [each.found for each in disagreements(found, wanted([], "2" * 40))] == ["89 120", "1" * 40]
    assert [each.expected for each in disagreements(found, wanted([], ""))] == ["no such check"]
    assert [each.found for each in disagreements(found[:1], wanted(["89", "120"], "1" * 40))] == ["no such check"]


def test_a_failed_check_needs_no_second_line() -> None:
    """What failed is told once, not as a report of another recipe too."""
    found = parse((HEAD + "archs\tfailed\t/x\tcode for 89 (sm_89)\tnone\tcure\n").encode(), "sample")
    assert disagreements(found, wanted(["89"], "")) == ()


class Builder:
    """A way to a builder whose build prints a log and fails."""

    host = "spark"

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    def run(self, script: str, *, stdin=None, sink=None, timeout=None, stall=None) -> Completed:
        """Print the log."""
        del script, stdin, timeout, stall
        for chunk in self._chunks:
            sink(chunk)
        return Completed(1, b"", "")

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def recipe(make: SimpleNamespace) -> Recipe:
    """A recipe that nobody builds."""
    read = make.matrix()
    return recipe_of(read, read.variants["alpha"], "linux/amd64", make.locked(read))


def test_failed_check_far_above_the_end_of_the_log(recipe: Recipe, tmp_path: Path) -> None:
    """A build that goes on printing after its check failed still ends with what failed, exit 15, and its whole log."""
    text = f"#14 12.34 {LINE}\n".encode()
    peer = Peer(Host(name="spark"), Builder(text[:30], text[30:], *[b"#15 1.0 noise\n" * 5000] * 4), Docker("docker"))
    log = tmp_path / "logs" / "build.log"
    with pytest.raises(CheckError) as error:
        run_build(peer, recipe, io.BytesIO(b""), log, Silent())
    assert error.value.code == 15
    assert "alpha on spark: a check of the image failed: archs of /app/lib/libggml-cuda.so.0" in str(error.value)
    assert str(log) in str(error.value)
    assert text in log.read_bytes()


def test_what_the_next_try_does_not_meet_is_tried_once_more(recipe: Recipe, tmp_path: Path) -> None:
    """The engine's own clean-up came between: built again with the whole context, and no third time."""
    race = f"#10 ERROR: failed to prepare extraction snapshot: parent snapshot sha256:{'e' * 64} does not exist\n"
    got: list[bytes] = []

    class Racing(Builder):
        """Fails so as often as it is asked."""

        def run(self, script: str, *, stdin=None, sink=None, timeout=None, stall=None) -> Completed:
            """Take the context, and fail."""
            got.append(b"".join(stdin))
            return super().run(script, sink=sink)

    peer = Peer(Host(name="spark"), Racing(race.encode()), Docker("docker"))
    with pytest.raises(BuildError) as error:
        run_build(peer, recipe, io.BytesIO(b"context"), tmp_path / "build.log", Silent())
    assert got == [b"context", b"context"]
    assert error.value.why == "the engine's clean-up took away a layer while the image was put together"
    assert (tmp_path / "build.log").read_text() == race * 2


def test_build_that_failed_otherwise_is_no_failed_check(recipe: Recipe, tmp_path: Path) -> None:
    """A compiler's error stays exit 13."""
    peer = Peer(Host(name="spark"), Builder(b"#9 1.0 error: expected ';'\n"), Docker("docker"))
    with pytest.raises(BuildError):
        run_build(peer, recipe, io.BytesIO(b""), tmp_path / "build.log", Silent())
    assert isinstance(failure(recipe, "spark", "error", Path("/l"), [FOUND]), CheckError)
