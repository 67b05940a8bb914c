"""docs/images/search_sizes.svg, drawn from bench/results/search_sizes.json:  python bench/search_sizes_plot.py

Needs matplotlib, of the extra `[plot]`.  The same figures and the same matplotlib give the same bytes: there is no date in the
file, and its ids are hashes with a fixed salt.  The description in the file has the digest of the figures, by which a
test sees, without matplotlib, that the drawing is that of the results.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from search_sizes import RESULTS, size_name, speed

BENCH = Path(__file__).resolve().parent
FIGURE = BENCH.parent / "docs/images/search_sizes.svg"


def digest(samples: list[dict[str, Any]]) -> str:
    """What the description of the drawing says of the figures."""
    return "figures " + hashlib.sha256(json.dumps(samples, sort_keys=True).encode()).hexdigest()


def draw(samples: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    # text stays text: it is small, and searchable
    settings: Any = {"svg.hashsalt": "search_sizes", "svg.fonttype": "none", "font.family": "sans-serif"}
    with matplotlib.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=(8, 5))
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
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None, "Description": digest(samples)})
        pyplot.close(figure)


def main() -> None:
    draw(json.loads((RESULTS / "search_sizes.json").read_text(encoding="utf-8"))["samples"], FIGURE)


if __name__ == "__main__":
    main()
