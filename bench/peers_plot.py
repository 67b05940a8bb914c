"""docs/images/peers.svg, the chart of README.md:  python bench/peers_plot.py

It shows each kernel of bench/natural_kernels.py, as one writes it first: how many times as long Triton, torch
and NumPy take, at the size where that is least, from 1,000,000 elements on or a tenth of the most.  Needs matplotlib, of the extra `[plot]`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from figures import drawing

BENCH = Path(__file__).resolve().parent
FIGURE = BENCH.parent / "docs/images/peers.svg"

PEERS = {
    "triton": ("natural_cuda", "Triton, H200", "o", "tab:blue"),
    "torch": ("natural_cuda", "torch, H200", "s", "tab:red"),
    "numpy": ("natural_cpu", "NumPy, 2 cores", "^", "0.55"),
}
"""For each peer its result in bench/results, its name in the legend, its marker and its colour."""


def ratios() -> dict[str, dict[str, float]]:
    """Least time of each peer over ours, by kernel; a peer that has no such kernel is left out."""
    found: dict[str, dict[str, float]] = {}
    for peer, (name, *_) in PEERS.items():
        result = json.loads((BENCH / f"results/{name}.json").read_text(encoding="utf-8"))
        (table,) = [table for table in result["tables"] if "ours" in table["columns"]]
        most: dict[str, int] = {}
        for row in table["rows"]:
            most[_kernel(row)] = max(_elements(row), most.get(_kernel(row), 0))
        for row in table["rows"]:
            kernel, cells = _kernel(row), dict(zip(table["columns"], row, strict=True))
            if cells[peer] and _elements(row) >= min(1_000_000, most[kernel] / 10):
                ratio = float(cells[peer]) / float(cells["ours"])
                by_peer = found.setdefault(kernel, {})
                by_peer[peer] = min(ratio, by_peer.get(peer, ratio))
    return found


def _kernel(row: list[str]) -> str:
    return row[0].split()[0]


def _elements(row: list[str]) -> int:
    return int(row[0].split()[1].replace(",", ""))


def draw(figures: dict[str, dict[str, float]], path: Path) -> None:
    order = sorted(figures, key=lambda kernel: min(figures[kernel].values()), reverse=True)
    with drawing(path, figures, (8, 7)) as axes:
        axes.axvspan(0.05, 1, color="tab:red", alpha=0.06, linewidth=0)
        axes.axvline(1, color="black", linewidth=1)
        for peer, (_, label, marker, color) in PEERS.items():
            points: Any = [
                (figures[kernel][peer], row) for row, kernel in enumerate(order) if peer in figures[kernel]
            ]
            axes.plot(*zip(*points, strict=True), marker, color=color, markersize=5, label=label)
        axes.set_xscale("log")
        axes.set_xlim(0.08, 200)
        axes.set_xticks([0.1, 0.5, 1, 2, 10, 100], ["0.1", "0.5", "1", "2", "10", "100"])
        axes.set_yticks(range(len(order)), order, fontsize=8)
        axes.set_ylim(-0.7, len(order) - 0.3)
        axes.set_xlabel("the peer's time over ours; left of 1, the peer is faster")
        axes.grid(visible=True, which="major", color="0.92")
        axes.legend(loc="upper right")


def main() -> None:
    draw(ratios(), FIGURE)


if __name__ == "__main__":
    main()
