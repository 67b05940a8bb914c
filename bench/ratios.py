"""docs/reference/performance.md, made from bench/results/*.json:  python bench/ratios.py > docs/reference/performance.md

One line a comparison: how many times as long the peer takes, in the worst case and in the geometric mean, with date,
machine and command.  `make docs` has every figure, on the page that report.py makes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["COMPARISONS", "Comparison", "page"]

RESULTS = Path(__file__).resolve().parent / "results"

_INTRO = """\
# Performance

<!-- Made by `python bench/ratios.py > docs/reference/performance.md`; run the benchmarks to change it. -->

How many times as long a peer takes as vyre-opt, over all cases of a benchmark.  Below 1 the peer is faster.  The list
begins with the comparison that vyre-opt loses by most.  Ours and the peer's cases ran in turns on one machine.

![Kernels as one writes them first, beside Triton, torch and NumPy](../images/peers.svg)
"""

_END = """
`make bench` and the commands repeat a measurement.  `make docs` makes a page of every case from `bench/results`,
with versions and the targets of each benchmark, met or not.
"""


@dataclass(frozen=True)
class Comparison:
    """Tables of a result that compare with one peer.

    `column`: of the ratio, by name and, where several have it, by number among these.  `tables`: a pattern that the
    captions match.
    """

    what: str
    peer: str
    result: str
    column: str
    number: int = 0
    tables: str = ""

    def ratios(self, result: dict[str, Any]) -> list[float]:
        """The peer's time over ours, one a case; a case that the peer does not have is left out."""
        found = []
        for table in result["tables"]:
            places = [place for place, name in enumerate(table["columns"]) if name == self.column]
            if places and re.search(self.tables, table["caption"]):
                found += [row[places[self.number]] for row in table["rows"]]
        return [float(cell) for cell in found if re.fullmatch(r"[\d.]+", cell)]


COMPARISONS = (
    Comparison("kernels as first written", "the best of torch, Triton, CuPy", "natural_cuda", "ratio"),
    Comparison("kernels as first written", "the best of NumPy, Numba", "natural_cpu", "ratio"),
    Comparison("functions on arrays", "the best of torch, Triton and others", "calls_cuda", "ratio", tables="fastest peer|same"),
    Comparison("functions on arrays", "the best of NumPy and others", "calls_cpu", "ratio", tables="fastest peer|same"),
    Comparison("kernels by lanes, in Python", "Triton", "python_kernels_cuda", "ratio"),
    Comparison("kernels by lanes, in Python", "NumPy", "python_kernels_cpu", "ratio"),
    Comparison("kernels of slices", "torch", "slices_cuda", "torch over ours"),
    Comparison("kernels of slices", "Triton", "slices_cuda", "triton over ours"),
    Comparison("products as slices", "torch", "slice_products_cuda", "torch over ours"),
    Comparison("products as slices", "Triton", "slice_products_cuda", "triton over ours"),
    Comparison("`kernels.softmax`", "torch", "softmax_gpu", "torch / ours"),
    Comparison("`kernels.softmax`", "Triton", "softmax_gpu", "triton / ours"),
    Comparison("softmax and prefix sums", "NumPy", "cpu_kernels", "numpy / ours"),
    Comparison("softmax and prefix sums", "torch", "cpu_kernels", "torch / ours"),
    Comparison("products of bf16 on matrix units", "torch (cuBLAS)", "matmul_gpu", "torch / ours"),
    Comparison("products, one thread", "NumPy (OpenBLAS)", "matmul", "numpy / ours"),
    Comparison("lookups in tensor trains", "torch", "embedding_gpu", "torch / ours"),
    Comparison("chains of matrices", "torch, in a CUDA graph", "chain_gpu", "torch / ours"),
    Comparison("search in base64 text, one thread", "pybase64 and Hyperscan", "search", "ratio", tables="One thread"),
    Comparison("decoding base64, one thread", "pybase64", "search", "ratio", tables="Decoding alone"),
    Comparison("mathematical functions", "NumPy", "math_functions", "numpy / ours"),
    Comparison("fused launches", "a CUDA graph of the launches", "launch_fusion_gpu", "graph / fused"),
    Comparison("decode and search, fused", "two launches", "decode_scan_gpu", "two / fused"),
    Comparison("parse, verify, cse, print", "xdsl-opt", "frontend", "xdsl-opt / vyre-opt"),
    Comparison("parse, verify, cse, print", "mlir-opt", "frontend", "mlir-opt / vyre-opt"),
)  # fmt: skip


def page(results: Path = RESULTS) -> str:
    """The whole page, the worst ratio first."""
    rows = sorted(_rows(results))
    lines = [
        _INTRO,
        "| Ours | The peer | Cases | Worst | Mean | Date | Machine | Command |",
        f"|{'---|' * 8}",
    ]
    return "\n".join([*lines, *(row for _, row in rows)]) + "\n" + _END


def _rows(results: Path) -> Iterator[tuple[float, str]]:
    """The worst ratio of each comparison, and its line."""
    for of in COMPARISONS:
        result = json.loads((results / f"{of.result}.json").read_text(encoding="utf-8"))
        ratios = of.ratios(result)
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        machine = (
            result["machine"].get("gpu") or f"{result['machine']['cpu']}, {result['machine']['cores']} cores"
        )
        command = f"python bench/{result['name']}.py {result.get('arguments') or ''}".rstrip()
        cells = (
            of.what, of.peer, str(len(ratios)), f"{min(ratios):.2g}", f"{mean:.2g}", result["date"], machine, f"`{command}`",
        )  # fmt: skip
        yield min(ratios), f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(page(), end="")
