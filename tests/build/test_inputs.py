"""What a build was made of, as the lock keeps it: asked of the builder, and never in the way of the build."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sistership.build import inputs
from sistership.build.reproduce import with_inputs
from sistership.compare import Comparison, Kind, Side
from sistership.errors import BuildError
from sistership.host.docker import Docker
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.image.exported import Exported, parse
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.recipe.lock import Lock, LockedVariant
from sistership.recipe.patches import LockedPatch
from sistership.recipe.recipe import Recipe, recipe_of
from sistership.report.events import Event, Step
from sistership.report.listeners import Listener

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace

MEASURED = {"toolchain": {"gcc": "gcc (Debian 12.2.0-14) 12.2.0"}, "packages": {"gcc-12": "12.2.0-14", "libc6": "2.36"}}
#: The end of what buildx 0.13 printed for the two lists (26.1).
PROGRESS = """\
#4 [packages 1/2] FROM docker.io/library/base:x
#4 DONE 0.0s

#5 [packages 2/2] RUN apt-get update && apt-get install -y cmake
#5 CACHED

#6 [inputs 1/1] RUN --network=none --mount=type=bind,source=sistership,target=/sistership sh /sistership/inputs.sh
#6 DONE 0.2s

#7 [record 1/1] COPY --from=inputs /inputs/ /
#7 DONE 0.0s
"""


def lists(**files: str) -> bytes:
    """The tar that a builder sends; a file without a name of its own is left out."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{name}.tsv")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


SENT = lists(toolchain="gcc\tgcc (Debian 12.2.0-14) 12.2.0\n", packages="gcc-12\t12.2.0-14\nlibc6\t2.36\n")


@pytest.fixture
def recipe(make: SimpleNamespace) -> Recipe:
    """A recipe with pinned bases, a moment and a patch."""
    text = make.text.replace("tag: v1", "tag: v1\n    cmake: {GGML_LTO: ON}")
    matrix = make.matrix(text)
    bases = {"build": f"debian@sha256:{'1' * 64}", "runtime": f"debian@sha256:{'2' * 64}"}
    patches = (LockedPatch("a.patch", "3" * 64),)
    locked = LockedVariant(
        "0" * 64, "8" * 40, "4" * 40, 7, "2026-05-01T10:00:00Z", bases, patches, snapshot="20260501T000000Z"
    )
    return recipe_of(matrix, matrix.variants["alpha"], "linux/amd64", locked)


class Told(Listener):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def tell(self, event: Event) -> None:
        """Keep a step's text."""
        if isinstance(event, Step):
            self.steps.append(event.text)


@pytest.fixture
def builder(tmp_path: Path) -> Callable[..., Peer]:
    """A builder whose shell is real and whose docker is a script that answers once."""

    def made(out: bytes, err: str = PROGRESS, status: int = 0) -> Peer:
        (tmp_path / "out").write_bytes(out)
        (tmp_path / "err").write_text(err)
        docker = tmp_path / "docker"
        docker.write_text(
            f'#!/bin/sh\necho "$@" > {tmp_path}/argv\ncat > {tmp_path}/context\n'
            f"cat {tmp_path}/out\ncat {tmp_path}/err >&2\nexit {status}\n"
        )
        docker.chmod(0o755)
        return Peer(Host(name="spark", local=True), Local("spark"), Docker(str(docker)))

    return made


def test_what_a_recipe_says(recipe: Recipe) -> None:
    """Bases and the moment are those of the text that is built; flags are there, the commit among them once."""
    said = inputs.asked(recipe)
    assert said["bases"] == {"build": f"debian@sha256:{'1' * 64}", "runtime": f"debian@sha256:{'2' * 64}"}
    assert said["snapshot"] == "20260501T000000Z"
    assert said["patches"] == {"a.patch": f"sha256:{'3' * 64}"}
    assert (said["commit"], said["tree"]) == ("8" * 40, "4" * 40)
    assert said["flags"]["GGML_LTO"] == "ON"
    assert said["flags"]["GGML_AVX512"] == "OFF"
    assert not any("8" * 40 in value for value in said["flags"].values())
    json.dumps(said)


def test_every_flag_of_the_configure_line(recipe: Recipe) -> None:
    """What the lock says of flags is what the Dockerfile gives to CMake, value by value."""
    flags = inputs.asked(recipe)["flags"]
    for name, value in flags.items():
        assert any(f"-D{name}={quote}{value}{quote}" in recipe.dockerfile for quote in ("", "'", '"')), name
    assert recipe.dockerfile.count("    -D") == len(flags) + 2  # number and commit


def test_the_lists_come_from_the_builder(recipe: Recipe, builder: Callable[..., Peer], tmp_path: Path) -> None:
    """Context without source in, tar out, talk into the build's log; nothing is told when all is well."""
    log, told = tmp_path / "log", Told()
    log.write_text("the build\n")
    assert inputs.measure(builder(SENT), recipe, log, told) == MEASURED
    assert told.steps == []
    assert log.read_text() == "the build\n" + PROGRESS
    with tarfile.open(tmp_path / "context") as tar:
        names = tar.getnames()
    assert names[0] == "Dockerfile"
    assert "sistership/inputs.sh" in names
    assert not any(name.startswith("src") for name in names)


def test_never_from_the_cache(recipe: Recipe) -> None:
    """Lists of an earlier build would hide what moved: their stages always run, what lies below does not."""
    script = inputs.script("docker", recipe)
    assert "--no-cache-filter inputs,record" in script
    assert "--no-cache " not in script
    assert "--target record --no-cache-filter" in script
    assert script.endswith(" -")
    assert "--tag" not in script
    assert "--load" not in script


@pytest.mark.parametrize(
    ("out", "err", "status", "said"),
    [
        (b"", "#0 x\nERROR: no builder\n", 1, "the builder could not list them: ERROR: no builder"),
        (b"", "", 1, "the builder could not list them"),
        (SENT, PROGRESS.replace("#5 CACHED", "#5 3.1 Setting up cmake\n#5 DONE 9.0s"), 0, "made it anew"),
        (SENT[:700], PROGRESS, 0, "not the two lists"),
        (lists(toolchain="gcc\t1\n"), PROGRESS, 0, "not the two lists"),
        (lists(toolchain="gcc 1\n", packages=""), PROGRESS, 0, "a line without NAME and VERSION"),
    ],
)
def test_a_failure_never_loses_the_build(
    recipe: Recipe, builder: Callable[..., Peer], tmp_path: Path, out: bytes, err: str, status: int, said: str
) -> None:
    """Whatever goes wrong is told with its reason, nothing is recorded, and nothing is raised."""
    told = Told()
    assert inputs.measure(builder(out, err, status), recipe, tmp_path / "log", told) == {}
    assert len(told.steps) == 1
    assert told.steps[0].startswith("toolchain and packages are not recorded, ")
    assert said in told.steps[0]


def test_a_template_without_that_stage(recipe: Recipe, builder: Callable[..., Peer], tmp_path: Path) -> None:
    """A project's own template need not have it; the builder is not asked then."""
    told = Told()
    own = replace(recipe, dockerfile=recipe.dockerfile.replace("AS record", "AS other"))
    assert inputs.measure(builder(SENT), own, tmp_path / "log", told) == {}
    assert not (tmp_path / "argv").exists()


def test_stages_that_ran_again() -> None:
    """Only the lists' own stages may run; a base is looked up, not run, and a platform may stand in front."""
    assert not inputs.made_anew(PROGRESS)
    assert inputs.made_anew(PROGRESS.replace("#5 CACHED\n", ""))
    assert not inputs.made_anew("#6 [linux/arm64 inputs 1/1] RUN x\n#6 DONE 0.1s\n#1 [internal] load\n#1 DONE 0.0s\n")


def test_notes_and_empty_lists() -> None:
    """A base without dpkg has no packages, which is known, and not an unknown list."""
    sent = lists(toolchain="", packages="# this base has no dpkg-query: its packages are not known\n")
    assert inputs.parse(sent) == {"toolchain": {}, "packages": {}}
    with pytest.raises(BuildError):
        inputs.parse(b"")


def test_records_without_inputs_stay_readable(make: SimpleNamespace) -> None:
    """An older record is a release as before; one with inputs goes through lock and export and comes back whole."""
    matrix = make.matrix()
    export = make.exported(matrix, make.locked(matrix), make.image())
    assert inputs.kept(export.record) == {}
    assert inputs.kept(None) == {}
    record: dict[str, Any] = {**export.record, **MEASURED, "flags": {"A": "B"}}
    newer = Exported(export.key, record, export.resolved)
    assert parse(newer.to_bytes(), "x").record == record
    assert json.loads(Lock().with_image(export.key, record).dumps())["images"][export.key] == record
    assert Release.from_record(export.key, record) == Release.from_record(export.key, export.record)
    assert inputs.kept(record) == MEASURED


SIDES = (Side("recorded", "sha256:" + "a" * 64, "linux/amd64"), Side("built", "sha256:" + "b" * 64, "linux/amd64"))


def test_moved_inputs_join_the_comparison() -> None:
    """What moved is among the differences, with both values and the cause of the table."""
    newer = {**MEASURED, "packages": {"gcc-12": "12.2.0-15", "libc6": "2.36"}}
    found = with_inputs(Comparison(*SIDES, same=False), MEASURED, newer)
    assert [row.path for row in found.moved] == ["packages.gcc-12"]
    (row,) = found.comparison.differences
    assert (row.kind, row.detail) == (Kind.INPUT, "12.2.0-14 in A, 12.2.0-15 in B")
    assert found.comparison.causes[0].id == "toolchain"
    assert found.comparison.unread == ()


def test_an_unknown_input_is_not_a_moved_one() -> None:
    """A record of before, or a builder that could not tell: nothing is claimed, and that is said."""
    for old, new, side in (({}, MEASURED, "recorded"), (MEASURED, {}, "built")):
        found = with_inputs(Comparison(*SIDES, same=False), old, new)
        assert found.moved == ()
        assert found.comparison.unread == (f"inputs that {side} does not record: toolchain, packages",)
