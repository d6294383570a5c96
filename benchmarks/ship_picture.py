"""The benchmark as pictures (SVG): the same figures always give the same bytes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from ship_figures import Row
from ship_model import COUNTS, SITES, Constants, seconds
from ship_scenarios import OURS, SCENARIOS, USUAL, WAYS

_WIDTH: Final = 760
_LABEL: Final = 250
_ROW: Final = 20
_OWN: Final = "#2a7f62"
_OTHER: Final = "#b0b7bf"
_LINES: Final = ("#2a7f62", "#1f5fa8", "#c4622d", "#7a4fa0")
_FONT: Final = 'font-family="system-ui, sans-serif" font-size="12"'
_LEFT, _TOP, _HIGH = 60, 40, 260


def bars(rows: Sequence[Row], link: str) -> str:
    """Seconds of every way in the usual scenarios over one link, the shorter the better."""
    usual = {each.key for each in USUAL}
    found = [row for row in rows if row.link == link and row.scenario in usual and row.way != "watched"]
    longest = max((row.seconds for row in found), default=1.0)
    scale = (_WIDTH - _LABEL - 70) / longest
    parts = [_text(10, 20, f"Seconds over {link}", bold=True)]
    y = 34
    for scenario in dict.fromkeys(row.scenario for row in found):
        y += _ROW
        parts.append(_text(10, y, SCENARIOS[scenario].name, bold=True))
        for row in (each for each in found if each.scenario == scenario):
            y += _ROW
            length = max(1.0, row.seconds * scale)
            colour = _OWN if row.way in OURS else _OTHER
            parts += [
                _text(24, y, WAYS[row.way]),
                f'<rect x="{_LABEL}" y="{y - 12}" width="{length:.1f}" height="15" fill="{colour}"/>',
                _text(_LABEL + length + 6, y, f"{row.seconds:.1f}"),
            ]
        y += _ROW // 2
    return _svg(y + 10, parts)


def growth(found: Constants, size: float) -> str:
    """The seconds of the model by hosts, on axes of powers of ten.

    Args:
        size: bytes of the compressed image that the model is drawn for.
    """
    most = COUNTS[-1]
    hosts = sorted({*COUNTS, *(round(10 ** (step / 8)) for step in range(29))})
    hosts = [each for each in hosts if each <= most]
    curves = {name: [(each, seconds(name, found, size, each)) for each in hosts] for name in SITES}
    times = [value for points in curves.values() for _, value in points]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def place(count: float, value: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - 20) * math.log10(count) / math.log10(most)
        return x, _TOP + _HIGH * (high - math.log10(value)) / max(1, high - low)

    parts = [_text(10, 20, f"Seconds by hosts, image of {size / 1e6:.0f} MB packed (model)", bold=True)]
    for power in range(low, high + 1):
        y = place(1, 10**power)[1]
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 20}" y2="{y:.1f}" stroke="#e3e6ea"/>')
        parts.append(_text(10, y + 4, f"{10**power:g}"))
    parts += [_text(place(count, 1)[0] - 8, _TOP + _HIGH + 18, str(count)) for count in COUNTS]
    for number, (name, points) in enumerate(curves.items()):
        colour = _LINES[number]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*each) for each in points))
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = _TOP + _HIGH + 42 + number * _ROW
        parts.append(f'<rect x="{_LEFT}" y="{y - 10}" width="22" height="4" fill="{colour}"/>')
        parts.append(_text(_LEFT + 30, y - 4, name))
    return _svg(_TOP + _HIGH + 42 + len(SITES) * _ROW, parts)


def _text(x: float, y: float, words: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{weight}>{escape(words)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" {_FONT} fill="#1c2127">'
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"
