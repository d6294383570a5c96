"""What a run found: as tables, as JSON, as pictures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import ship_model
import ship_picture
from ship_figures import Figure, Row, Taken, must_show, rows, table

from sistership.image.release import Release


@dataclass
class Result:
    """What was measured so far.

    Attributes:
        size: of the usual images, `small` or `real`.
        runs: samples of each that were asked for.
        releases: by name; empty before they are made.
        library: bytes of the largest file that a difference is made of.
    """

    size: str
    runs: int
    taken: list[Taken] = field(default_factory=list)
    releases: Mapping[str, Release] = field(default_factory=dict)
    library: int = 1

    @property
    def packed(self) -> int:
        """Bytes of the compressed layers of the first release, or of the largest there is."""
        sizes = {name: sum(each.size for each in one.image.layers) for name, one in self.releases.items()}
        return sizes.get("first") or max(sizes.values(), default=0)

    @property
    def figures(self) -> list[Figure]:
        """What shipping is held to."""
        return must_show(rows(self.taken), packed=self.packed, library=self.library)


def show(result: Result) -> str:
    """Everything, for people."""
    if not result.taken:
        return "nothing was measured"
    found = rows(result.taken)
    known = [each for each in result.figures if each.found is not None]
    parts = [table(found), "\n".join(["What it must show:", *(f"- {each}" for each in known)])]
    if absent := [each.what for each in result.figures if each.found is None]:
        parts.append(f"Not measured: {'; '.join(absent)}")
    constants = ship_model.measured(found)
    if constants:
        names = "\n".join(f"- {name}: {value:.3g}" for name, value in asdict(constants).items())
        parts.append(f"Constants of the model:\n{names}")
        parts.append(f"Seconds of the model, {SIZE / 1e6:.0f} MB packed:\n{ship_model.table(constants, SIZE)}")
    return "\n\n".join(parts)


#: Bytes that the model's table is made for: about the real image, packed.
SIZE = 550e6


def document(result: Result) -> dict[str, object]:
    """Everything that was measured, for JSON."""
    images = {
        name: {
            "layers": [{"bytes": layer.plain_size, "packed": layer.size} for layer in release.image.layers],
            "config": release.image.config,
        }
        for name, release in result.releases.items()
    }
    found = rows(result.taken)
    constants = ship_model.measured(found)
    return {
        "version": 2,
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()},
        "size": result.size,
        "runs": result.runs,
        "images": images,
        "rows": list(map(asdict, found)),
        "must_show": list(map(asdict, result.figures)),
        "model": asdict(constants) if constants else None,
        "samples": [
            {"link": each.link, "scenario": each.scenario, "way": each.way, **asdict(each.sample)}
            for each in result.taken
        ],
    }


def pictures(found: list[Row]) -> dict[str, str]:
    """File name → SVG, as far as there is something to draw."""
    drawn = {}
    if any(each.link == "1gbit" for each in found):
        drawn["benchmark-ship.svg"] = ship_picture.bars(found, "1gbit")
    constants = ship_model.measured(found)
    if constants:
        drawn["benchmark-model.svg"] = ship_picture.growth(constants, SIZE)
    return drawn


def write(result: Result, file: Path | None, folder: Path | None) -> None:
    """JSON into a file, and pictures into a folder."""
    if file is not None:
        file.write_text(json.dumps(document(result), indent=1) + "\n")
    if folder is not None and result.taken:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pictures(rows(result.taken)).items():
            (folder / name).write_text(text)
