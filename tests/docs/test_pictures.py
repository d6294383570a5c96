"""The pictures are drawn from recordings, and neither holds anything of the machine that made them."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from .pages import DOCS, PAGES, README

PICTURES = DOCS / "pictures"
DRAWN = sorted(PICTURES.glob("*.svg"))
RECORDED = sorted((PICTURES / "recorded").iterdir())


def words(picture: Path) -> str:
    """The text of a picture, white space left out: the renderer cuts it into spans."""
    nodes = ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    found = "".join(text for node in nodes for text in node.itertext())
    return re.sub(r"\s", "", unescape(found))


def test_there_is_one_of_each_kind() -> None:
    """The board and the plan on a narrow and a wide terminal, every verdict, five errors."""
    names = {path.stem for path in DRAWN}
    assert {"ship-verify", "board-80", "board-200", "plan-80", "plan-200"} <= names
    assert len([name for name in names if name.startswith("error-")]) == 5
    assert {name.removeprefix("verdict-") for name in names if name.startswith("verdict-")} == {
        "missing", "incomplete", "different", "tag-moved", "unknown", "wrong-platform", "no-kernels", "not-fit",
        "unreachable",
    }  # fmt: skip


@pytest.mark.parametrize("recording", [path for path in RECORDED if path.suffix == ".txt"], ids=lambda path: path.name)
def test_picture_shows_its_recording(recording: Path) -> None:
    """Every word of a recording is in its picture."""
    name = {"ship": "ship-verify", "verify": "ship-verify"}.get(recording.stem, recording.stem)
    shown = words(PICTURES / f"{name}.svg")
    for line in re.sub(r"\x1b\[[0-9;]*m", "", recording.read_text()).splitlines():
        for word in line.split():
            assert word in shown, f"{name}: {word}"


@pytest.mark.parametrize("width", [80, 200])
def test_board_is_at_work(width: int) -> None:
    """The picture of the board has every host, and bytes of bytes for one that is not done."""
    shown = words(PICTURES / f"board-{width}.svg")
    assert all(host in shown for host in ("gpu-main", "gpu-worker", "old-box"))
    assert re.search(r"[\d.]+of[\d.]+MiB", shown)


@pytest.mark.parametrize("path", [*DRAWN, *RECORDED], ids=lambda path: path.name)
def test_nothing_of_a_machine(path: Path) -> None:
    """No folder, no address, no registry; the picture calls nowhere."""
    text = path.read_text()
    assert re.findall(r"/tmp/|/root/|/home/|127\.0\.0\.1|\b(?:172|10)\.\d+\.\d+\.\d|\.org/(?!2000)", text) == []
    if path.suffix == ".svg":
        assert "@font-face" not in text
        assert re.findall(r"(?:href|src|url)\W+https?:", text) == []


def test_recorded_lines_are_json() -> None:
    """The recording that the board is drawn from is whole."""
    lines = [json.loads(line) for line in (PICTURES / "recorded" / "ship.jsonl").read_text().splitlines()]
    assert lines[0]["type"] == "version"
    assert lines[-1]["type"] == "summary"
    assert lines[-1]["exit"] == 0


@pytest.mark.parametrize("picture", DRAWN, ids=lambda path: path.name)
def test_picture_is_on_a_page(picture: Path) -> None:
    """No picture lies about unseen."""
    text = "".join(page.read_text() for page in (*PAGES, README))
    assert f"pictures/{picture.name})" in text
