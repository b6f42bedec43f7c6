"""Curves as SVG, in the style of docs/drawings."""

from __future__ import annotations

import html
import itertools
import math
import sys
from collections.abc import Mapping, Sequence

import environments

sys.path.append(str(environments.BENCH.parent))

from docs.tools.drawings import Drawing

_WIDTH, _HEIGHT = 460, 310
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 122, 58, 66
_BETWEEN_LABELS = 15
_MOST_TICKS = 7

Curve = Mapping[int, float]


class Plot(Drawing):
    """Lines over a number of things; logarithmic, since it is the shape that matters."""

    def __init__(self, title: str, x: str, y: str, footer: str, curves: Mapping[str, Curve]):
        super().__init__(title, _WIDTH, _HEIGHT)
        self._curves = curves
        points = sorted({n for curve in curves.values() for n in curve})
        values = [value for curve in curves.values() for value in curve.values()]
        self._points = points
        self._floor, self._ceiling = _around(values)
        self._word(16, 22, title, "strong", "start")
        self._grid()
        self._word(_LEFT + self._span / 2, _HEIGHT - 30, x, "small")
        self._word(_LEFT - 8, _TOP - 16, y, "small", "start")
        self._word(16, _HEIGHT - 8, footer, "small", "start")
        for number, (name, curve) in enumerate(curves.items()):
            self._line(name, curve, number)
        self._names()

    @property
    def _span(self) -> float:
        return _WIDTH - _LEFT - _RIGHT

    def _x(self, point: int) -> float:
        low, high = (math.log1p(n) for n in (self._points[0], self._points[-1]))
        return _LEFT + self._span * (math.log1p(point) - low) / ((high - low) or 1)

    def _y(self, value: float) -> float:
        low, high = math.log(self._floor), math.log(self._ceiling)
        share = (math.log(value) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def _grid(self) -> None:
        right = _LEFT + self._span
        for value in _ticks(self._floor, self._ceiling):
            y = self._y(value)
            self._parts.append(f'<path class="grid" d="M {_LEFT} {y:.1f} H {right:g}"/>')
            self._word(_LEFT - 8, y + 4, f"{value:,g}", "small", "end")
        for point in self._points:
            self._word(self._x(point), _HEIGHT - _BOTTOM + 17, f"{point:,}", "small")

    def _line(self, name: str, curve: Curve, number: int) -> None:
        spots = [(self._x(n), self._y(value)) for n, value in sorted(curve.items())]
        path = " L ".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        kind = ("ours", "also", "peer")[_kind(name, number)]
        self._parts.append(f'<path class="curve {kind}" d="M {path}"/>')
        for (x, y), (n, value) in zip(spots, sorted(curve.items()), strict=True):
            said = html.escape(f"{name}, {n:,}: {value:,.3g}")
            self._parts.append(
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.2">'
                f"<title>{said}</title></circle>"
            )

    def _names(self) -> None:
        """Beside the ends of the lines, none upon another."""
        ends = sorted((self._y(curve[max(curve)]), name) for name, curve in self._curves.items())
        lowest = -math.inf
        for y, name in ends:
            lines = name.replace(", ", ",\n").split("\n")
            top = max(y + 4 - 6 * (len(lines) - 1), lowest)
            for i, line in enumerate(lines):
                x = _WIDTH - _RIGHT + 10
                self._word(x, top + 13 * i, line, "small", "start")
            lowest = top + 13 * (len(lines) - 1) + _BETWEEN_LABELS

    def text(self) -> str:
        return super().text().replace("<style>", f"<style>{_STYLE}")


_STYLE = """
.grid { stroke: #d9dcf0; stroke-width: 1; }
.curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.ours { stroke: #3f4fc4; } circle.ours { fill: #3f4fc4; }
.also { stroke: #3f4fc4; stroke-dasharray: 5 4; } circle.also { fill: #3f4fc4; stroke: none; }
.peer { stroke: #c98a3a; } circle.peer { fill: #c98a3a; }
@media (prefers-color-scheme: dark) {
  .grid { stroke: #3b405c; }
  .ours, .also { stroke: #9aa8ff; } circle.ours, circle.also { fill: #9aa8ff; }
  .peer { stroke: #e2b06a; } circle.peer { fill: #e2b06a; }
}
"""


def _kind(name: str, number: int) -> int:
    return 2 if not name.startswith("Estimand") else min(number, 1)


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Round numbers below and above all of them, at least a factor of four apart."""
    low, high = min(values), max(values)
    ticks = _rounded(low / 10, high * 10, (1, 2, 5))
    floor = max(tick for tick in ticks if tick <= low)
    return floor, min(tick for tick in ticks if tick >= max(high, 4 * floor))


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 …; where that is many, 1, 10, 100 …"""
    fine = _rounded(low, high, (1, 2, 5))
    return fine if len(fine) <= _MOST_TICKS else _rounded(low, high, (1,))


def _rounded(low: float, high: float, digits: Sequence[int]) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [digit * 10.0**e for e, digit in itertools.product(exponents, digits)]
    return [tick for tick in found if low * 0.999 <= tick <= high * 1.001]
