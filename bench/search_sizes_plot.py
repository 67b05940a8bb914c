"""docs/images/search_sizes.svg, drawn from bench/results/search_sizes.json:  python bench/search_sizes_plot.py

Needs matplotlib, of the extra `[plot]`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from figures import drawing
from search_sizes import RESULTS, size_name, speed

FIGURE = Path(__file__).resolve().parents[1] / "docs/images/search_sizes.svg"


def draw(samples: list[dict[str, Any]], path: Path) -> None:
    with drawing(path, samples, (8, 5)) as axes:
        sizes = [row["size"] for row in samples]
        for name in samples[0]["ways"]:
            is_peer = "Hyperscan" in name
            axes.plot(
                sizes,
                [speed(row, name) or 0.0 for row in samples],
                marker="o",
                markersize=4,
                color=("0.5" if "in lines" in name else "black") if is_peer else None,
                linestyle="--" if is_peer else "-",
                label=name,
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [size_name(size) for size in sizes])
        axes.set_xlabel("base64 text")
        axes.set_ylabel("GB of text a second")
        axes.grid(visible=True, which="major", color="0.9")
        axes.legend(fontsize="small")


def main() -> None:
    draw(json.loads((RESULTS / "search_sizes.json").read_text(encoding="utf-8"))["samples"], FIGURE)


if __name__ == "__main__":
    main()
