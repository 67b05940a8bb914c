"""A plot of a result as SVG: the cost of each configuration, and what the search expected.

left    the cost of each measured configuration, in the order of measuring, on a logarithmic axis;
        the result and the default are marked
right   before each choice, the cost that was predicted for it and the best cost so far, over the last best cost
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from .measure import INFINITE
from .result import Tuning, show_cost
from .space import show_config

__all__ = ["svg"]

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 44, 36
HEAD = 26
COLORS = {"measured": "#8da0cb", "choice": "#1b9e77", "default": "#d95f02", "expected": "#7570b3"}

Point = tuple[float, float]


def svg(tunings: Sequence[Tuning]) -> str:
    """A row of two panels for each tuning."""
    rows = [_row(tuning, k * (HEIGHT + HEAD)) for k, tuning in enumerate(tunings)]
    width, height = 2 * WIDTH, max(1, len(tunings)) * (HEIGHT + HEAD)
    body = "\n".join(line for row in rows for line in row)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def _row(tuning: Tuning, top: int) -> Iterator[str]:
    yield _text(LEFT, top + 18, f"{tuning.kernel} on {tuning.device}", size=13)
    yield from _costs(tuning, _Panel(0, top + HEAD, *_costs_range(tuning)))
    yield from _path(tuning, _Panel(WIDTH, top + HEAD, *_path_range(tuning)))


class _Panel:
    """Axes: maps x and log10 y to coordinates of the page."""

    def __init__(self, left: int, top: int, most_x: float, low: float, high: float) -> None:
        self.left, self.top = left + LEFT, top + TOP
        self.width, self.height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        self.most_x = max(most_x, 1.0)
        spread = max(log10(high / low), 0.02)
        self.low, self.high = log10(low) - spread * 0.05, log10(high) + spread * 0.05

    def at(self, x: float, y: float) -> Point:
        down = (self.high - log10(y)) / (self.high - self.low)
        return self.left + self.width * x / self.most_x, self.top + self.height * down

    def frame(self, title: str, along: str, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
        yield (
            f'<rect x="{self.left}" y="{self.top}" width="{self.width}" height="{self.height}" '
            'fill="none" stroke="#999"/>'
        )
        yield _text(self.left, self.top - 10, title)
        yield _text(self.left + self.width, self.top + self.height + 28, along, anchor="end")
        for value, label in ticks:
            _, y = self.at(0, value)
            yield f'<line x1="{self.left}" y1="{y:.1f}" x2="{self.left + self.width}" y2="{y:.1f}" stroke="#eee"/>'
            yield _text(self.left - 6, y + 4, label, anchor="end")


def _costs_range(tuning: Tuning) -> tuple[float, float, float]:
    costs = [m.cost for m in tuning.measured if 0 < m.cost < INFINITE] or [1.0]
    return len(tuning.measured), min(costs), max(costs)


def _costs(tuning: Tuning, panel: _Panel) -> Iterator[str]:
    _, low, high = _costs_range(tuning)
    ticks = [(value, show_cost(value)) for value in _ticks(low, high)]
    yield from panel.frame("cost of each configuration", "in the order of measuring", ticks)
    for number, each in enumerate(tuning.measured):
        if not 0 < each.cost < INFINITE:
            continue
        kind = "measured"
        if each.config == tuning.default:
            kind = "default"
        if each.config == tuning.config:
            kind = "choice"
        x, y = panel.at(number + 0.5, each.cost)
        label = escape(f"{show_config(each.config)}: {show_cost(each.cost)}")
        radius = 3 if kind == "measured" else 5
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{COLORS[kind]}"><title>{label}</title></circle>'
    yield from _legend(panel, ("measured", "choice", "default"))


def _path_range(tuning: Tuning) -> tuple[float, float, float]:
    values = [v for points in _lines(tuning).values() for _, v in points] or [1.0]
    return max((p.measured for p in tuning.path), default=1), min(values), max(values)


def _lines(tuning: Tuning) -> dict[str, list[Point]]:
    """Lines of (number measured, cost): the expected and the best cost, over the last best cost."""
    path = [p for p in tuning.path if p.best > 0 and p.expected > 0]
    if not path:
        return {"expected": [], "choice": []}
    last = path[-1].best
    return {
        "expected": [(p.measured, p.expected * p.best / last) for p in path],
        "choice": [(p.measured, p.best / last) for p in path],
    }


def _path(tuning: Tuning, panel: _Panel) -> Iterator[str]:
    _, low, high = _path_range(tuning)
    ticks = [(value, f"{value:.2f}") for value in sorted({low, 1.0, high}) if low <= value <= high]
    yield from panel.frame("predicted cost of the next, and the best known", "configurations measured", ticks)
    for kind, points in _lines(tuning).items():
        placed = [panel.at(x, y) for x, y in points]
        shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        if placed:
            yield f'<polyline points="{shown}" fill="none" stroke="{COLORS[kind]}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{COLORS[kind]}"/>' for x, y in placed)


def _legend(panel: _Panel, kinds: Sequence[str]) -> Iterator[str]:
    for number, kind in enumerate(kinds):
        x, y = panel.left + 8 + 90 * number, panel.top + panel.height + 24
        yield f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{COLORS[kind]}"/>'
        yield _text(x + 8, y, kind)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten within the range, or its ends where there are fewer than two."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    return ticks if len(ticks) > 1 else sorted({low, high})


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
