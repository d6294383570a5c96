"""Notes of what builds leave on a builder: a killed run's images are removed by the next, nobody else's are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sistership.build.notes import noted
from sistership.errors import HostUnreachableError
from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.matrix.model import Host
from sistership.report.events import Event, Step
from sistership.report.listeners import Listener

#: Holds an image for each file of the folder `images`; slashes are percent signs there. It refuses to remove one whose
#: file is not empty, and answers nothing while there is a file `down`.
DOCKER = """\
#!/bin/sh
cd "$(dirname "$0")/images" && [ ! -f ../down ] || exit 1
for last; do :; done
image=$(printf %s "$last" | tr / %)
case "$1 $2" in
"image rm") [ ! -s "$image" ] && rm "$image" 2>/dev/null ;;
"image inspect") [ -f "$image" ] ;;
"version ") ;;
*) exit 1 ;;
esac
"""
RAW, OTHER = "sistership.local/raw:one", "sistership.local/raw:two"
LENT = "sistership.local/base-one:b"


class Heard(Listener):
    """Keeps steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def tell(self, event: Event) -> None:
        """Keep a step's text."""
        if isinstance(event, Step):
            self.steps.append(event.text)


@dataclass
class Builder:
    """An engine that holds images by name, and the folder of notes."""

    folder: Path
    host: Host

    @property
    def peer(self) -> Peer:
        """A way to it."""
        return Peer(self.host, Local(self.host.name), Docker(str(self.folder / "docker")))

    @property
    def notes(self) -> list[Path]:
        """The notes that are there."""
        return sorted((self.folder / "notes").glob("*.json"))

    @property
    def images(self) -> set[str]:
        """Names of what it holds."""
        return {path.name.replace("%", "/") for path in (self.folder / "images").iterdir()}

    def holds(self, *names: str) -> None:
        """Let it hold these too."""
        for name in names:
            (self.folder / "images" / name.replace("/", "%")).touch()

    def build(self, made: Sequence[str] = (OTHER,), lent: Sequence[str] = ()) -> list[str]:
        """A build that ends well; the steps that it told."""
        heard = Heard()
        with noted(self.peer, made, lent, self.folder / "notes", heard):
            pass
        return heard.steps

    def interrupted(self, made: Sequence[str] = (RAW,), lent: Sequence[str] = (LENT,)) -> None:
        """A build that was ended by Ctrl-C while its images were there."""
        with suppress(KeyboardInterrupt), noted(self.peer, made, lent, self.folder / "notes", Heard()):
            self.holds(*made, *lent)
            raise KeyboardInterrupt


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    """A builder that holds one image of somebody else."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    (tmp_path / "images").mkdir()
    made = Builder(tmp_path, Host(name="builder", local=True))
    made.holds("theirs:v1")
    return made


def test_build_that_ended_well_leaves_no_note(builder: Builder) -> None:
    """Nothing is said and nothing is kept."""
    assert builder.build() == []
    assert builder.notes == []


def test_killed_build_is_cleaned_up_by_the_next(builder: Builder) -> None:
    """Also after SIGKILL, when no line of the run could do anything any more; and only once."""
    code = (
        "import os, sys; from tests.build.test_notes import Builder, Heard, noted, RAW, LENT;"
        "from pathlib import Path; from sistership.matrix.model import Host;"
        "b = Builder(Path(sys.argv[1]), Host(name='builder', local=True));"
        "noted(b.peer, [RAW], [LENT], b.folder / 'notes', Heard()).__enter__();"
        "b.holds(RAW, LENT); os.kill(os.getpid(), 9)"
    )
    root = Path(__file__).parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", code, str(builder.folder)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert builder.images == {"theirs:v1", RAW, LENT}

    assert builder.build() == ["removed 2 images that a build left there when it was cut off"]
    assert builder.images == {"theirs:v1"}
    assert builder.notes == []


def test_lent_bases_that_are_needed_again_stay(builder: Builder) -> None:
    """What a killed build had sent is used by the next one of the same recipe, and is not sent again."""
    builder.interrupted()
    assert builder.build(made=[RAW], lent=[LENT]) == ["removed 1 image that a build left there when it was cut off"]
    assert builder.images == {"theirs:v1", LENT}


def test_build_that_still_works_loses_nothing(builder: Builder) -> None:
    """Neither its own names, nor those that it shares with a build that was cut off."""
    builder.interrupted(made=[RAW, OTHER], lent=[])
    builder.holds(RAW, OTHER)
    with noted(builder.peer, [RAW], [], builder.folder / "notes", Heard()):
        assert OTHER not in builder.images
        builder.holds(RAW, OTHER)
        assert builder.build(made=["sistership.local/raw:three"]) == []
        assert builder.images == {"theirs:v1", RAW, OTHER}


def test_notes_of_another_builder_stay(builder: Builder) -> None:
    """One name in two matrices may be two machines: the way to the engine decides."""
    builder.interrupted()
    other = Builder(builder.folder, Host(name="builder", local=True, docker_host="unix:///other.sock"))
    assert other.build() == []
    assert {RAW, LENT} < builder.images
    assert len(builder.notes) == 1


def test_builder_that_is_gone_stays_noted(builder: Builder) -> None:
    """What could not be removed is removed by the first build that reaches it, with what others left."""

    class Gone:
        host = "builder"

        def run(self, script: str, **limits: object) -> None:
            raise HostUnreachableError("the connection was cut", where="builder")

        def close(self) -> None:
            pass

    builder.interrupted()
    gone = Peer(builder.host, Gone(), Docker("docker"))  # type: ignore[arg-type]
    with pytest.raises(HostUnreachableError), noted(gone, [OTHER], [], builder.folder / "notes", Heard()):
        pytest.fail("it was built on")
    (note,) = builder.notes
    assert set(json.loads(note.read_text())["names"]) == {RAW, LENT, OTHER}
    assert len(builder.build()) == 1
    assert builder.images == {"theirs:v1"}


def test_builds_that_fail_again_and_again_remember_only_the_last(builder: Builder) -> None:
    """A note does not grow with names that were removed already."""
    for number in range(3):
        builder.interrupted(made=[f"sistership.local/raw:{number}"], lent=[])
    (note,) = builder.notes
    assert json.loads(note.read_text())["names"] == ["sistership.local/raw:2"]


def test_what_the_engine_refuses_to_remove_stays_noted(builder: Builder) -> None:
    """Through any number of builds that end well, until it can be removed; what is gone or never was is forgotten."""
    builder.interrupted(made=[RAW, OTHER, "sistership.local/raw:never"], lent=[LENT])
    used, never = (builder.folder / "images" / name.replace("/", "%") for name in (RAW, "sistership.local/raw:never"))
    used.write_text("a container uses it")
    never.unlink()
    assert builder.build(made=["sistership.local/raw:3"]) == [
        "removed 2 images that a build left there when it was cut off"
    ]
    for _ in range(2):
        (note,) = builder.notes
        assert json.loads(note.read_text())["names"] == [RAW]
        assert builder.build(made=["sistership.local/raw:3"]) == []
    used.write_text("")
    assert builder.build() == ["removed 1 image that a build left there when it was cut off"]
    assert builder.notes == []


def test_engine_that_does_not_answer_has_removed_nothing(builder: Builder) -> None:
    """Its silence is not taken for the absence of an image."""
    builder.interrupted()
    (builder.folder / "down").touch()
    assert builder.build() == []
    (note,) = builder.notes
    assert set(json.loads(note.read_text())["names"]) == {RAW, LENT}
    (builder.folder / "down").unlink()
    assert len(builder.build()) == 1
    assert builder.images == {"theirs:v1"}


def test_note_that_was_never_written_whole(builder: Builder) -> None:
    """It stops nothing, and goes."""
    (builder.folder / "notes").mkdir()
    (builder.folder / "notes" / "x.json").write_text('{"where": [')
    assert builder.build() == []
    assert builder.notes == []
