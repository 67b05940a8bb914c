"""Rows of a table kept as a tensor train, on a GPU:  python bench/embedding_gpu.py

`vyre_opt.kernels.TTTable` on torch tensors, called as a user calls it, beside the slices gathered and multiplied by torch.bmm,
plain and through torch.compile.  Eight shapes are of ranks from 16 to 100, four are drawn at random.  Each time is of calls in
a row by events, so host time counts wherever it is longer than the GPU's; rows are compared with products in double
precision.  Limits: each byte moved once at the bandwidth of a copy, and multiply-adds at the rate of torch's
product of matrices of the type.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_timing import copy_bandwidth, head, in_turn, multiply_add_rate, relative_error, target
from measure import save

from vyre_opt.kernels import TTTable

RESULT = Path(__file__).parent / "results" / "embedding_gpu.json"
P, Q, LOOKUPS = (200, 220, 250), (4, 4, 4), 65536
DRAWN, MOST_GATHERED = 4, 8 << 30
LEAST = {"bf16": 5, "f32": 8}
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """A table of prod(`p`) rows of prod(`q`) values, and how many are looked up."""

    p: Triple
    q: Triple
    ranks: tuple[int, int]
    lookups: int = LOOKUPS

    def __str__(self) -> str:
        rows, columns = (" x ".join(map(str, sizes)) for sizes in (self.p, self.q))
        return f"{rows} rows of {columns}, ranks {self.ranks[0]}, {self.ranks[1]}, {self.lookups:,} lookups"

    @property
    def gathered(self) -> int:
        """Bytes of the middle slices of all lookups, in f32."""
        return self.lookups * self.ranks[0] * self.q[1] * self.ranks[1] * 4

    def moved(self, size: int) -> int:
        """Bytes that cannot but be moved, with elements of `size`."""
        (p0, p1, p2), (q0, q1, q2), (r1, r2) = self.p, self.q, self.ranks
        cores = p0 * q0 * r1 + p1 * r1 * q1 * r2 + p2 * r2 * q2
        return (cores + self.lookups * math.prod(self.q)) * size + self.lookups * 8

    @property
    def sums(self) -> int:
        """Multiply-adds."""
        (q0, q1, q2), (r1, r2) = self.q, self.ranks
        return self.lookups * q0 * q1 * r2 * (r1 + q2)


SHAPES = [
    *(Shape(P, Q, (rank, rank)) for rank in (16, 32, 50, 64, 100)),
    Shape((100, 120, 140), (8, 8, 8), (32, 32)),
    Shape((300, 300, 300), (2, 8, 4), (48, 24)),
    Shape((60, 64, 70), (4, 8, 4), (64, 64), 1 << 18),
]
SINGLE = [Shape(P, Q, (rank, rank)) for rank in (16, 32, 64)]


def drawn(count: int = DRAWN) -> list[Shape]:
    """Ranks from 16 to 100, and as many lookups as torch has the memory for."""
    draw, shapes = random.Random("embedding"), list[Shape]()
    while len(shapes) < count:
        p = tuple(draw.randint(50, 400) for _ in range(3))
        q = tuple(draw.choice((2, 3, 4, 5, 8)) for _ in range(3))
        ranks = draw.randint(16, 100), draw.randint(16, 100)
        shape = Shape((p[0], p[1], p[2]), (q[0], q[1], q[2]), ranks, round(2 ** draw.uniform(14, 18)))
        if shape.gathered <= MOST_GATHERED:
            shapes.append(shape)
    return shapes


def gathered(shape: Shape, cores: list[Any], indices: Any) -> Any:
    """Rows of the table: each lookup's slices, multiplied one after the other."""
    import torch

    count, (_, p1, p2), (q0, q1, q2), (r1, r2) = indices.numel(), shape.p, shape.q, shape.ranks
    digits = (indices // (p1 * p2), indices // p2 % p1, indices % p2)
    first, middle, last = (core[digit] for core, digit in zip(cores, digits, strict=True))
    rows = torch.bmm(first.view(count, q0, r1), middle.view(count, r1, q1 * r2))
    rows = torch.bmm(rows.view(count, q0 * q1, r2), last.view(count, r2, q2))
    return rows.view(count, -1)


def sample(shape: Shape, dtype: Any, bandwidth: float, rate: float) -> dict[str, Any]:
    import torch

    name = "bf16" if dtype is torch.bfloat16 else "f32"
    torch.manual_seed(shape.ranks[0])
    inner = (1, *shape.ranks, 1)
    sizes = zip(shape.p, inner, shape.q, inner[1:], strict=False)
    cores = [torch.randn(size, device="cuda").to(dtype) for size in sizes]
    indices = torch.randint(0, math.prod(shape.p), (shape.lookups,), device="cuda")
    table, out = (
        TTTable(cores),
        torch.full((shape.lookups, math.prod(shape.q)), math.nan, device="cuda", dtype=dtype),
    )
    table(indices, out=out)
    exact = gathered(shape, [core.double() for core in cores], indices[-4096:])
    error = relative_error(out[-4096:], exact)
    if not error < (4e-3 if name == "bf16" else 1e-5) or out.isnan().any():
        sys.exit(f"wrong rows of {shape}: relative error {error}")
    torch.compiler.reset()
    compiled = torch.compile(gathered)
    runs = {
        "ours": lambda: table(indices, out=out),
        "bmm": lambda: gathered(shape, cores, indices),
        "compile": lambda: compiled(shape, cores, indices),
    }
    result = {
        "shape": str(shape),
        "dtype": name,
        "seconds": in_turn(runs, 5),
        "limits": {"bytes": shape.moved(dtype.itemsize) / bandwidth, "sums": shape.sums / rate},
        "error": error,
    }
    print(" | ".join(row(result)), f"{error:.1e}", flush=True)
    return result


def row(sample: dict[str, Any]) -> list[str]:
    seconds, limits = sample["seconds"], sample["limits"]
    return [
        f"{sample['shape']}, {sample['dtype']}",
        f"{seconds['ours'] * 1e6:.1f}",
        f"{max(limits.values()) / seconds['ours']:.2f}",
        *(f"{seconds[peer] * 1e6:.1f}" for peer in ("bmm", "compile")),
        f"{ratio(sample):.2f}",
    ]


def ratio(sample: dict[str, Any]) -> float:
    """The better peer's time over ours."""
    seconds = sample["seconds"]
    return float(min(seconds["bmm"], seconds["compile"]) / seconds["ours"])


def samples() -> Iterator[dict[str, Any]]:
    import torch

    bandwidth, order = copy_bandwidth(), 8192
    x = torch.randn(order, order, device="cuda", dtype=torch.bfloat16)
    rates = {
        torch.bfloat16: order**3 / in_turn({"mm": lambda: torch.mm(x, x)}, 3)["mm"],
        torch.float32: multiply_add_rate(),
    }
    for dtype, shapes in ((torch.bfloat16, [*SHAPES, *drawn()]), (torch.float32, SINGLE)):
        for shape in shapes:
            yield sample(shape, dtype, bandwidth, rates[dtype])


def main() -> None:

    rows = list(samples())
    save(
        RESULT,
        {
            **head(
                "embedding_gpu",
                "Lookups in tensor trains on a GPU",
                __doc__,
                ("torch", "triton", "llvmlite", "numpy"),
            ),
            "tables": [
                {
                    "caption": "Microseconds; ours over the larger limit; and the better of torch's over ours",
                    "columns": [
                        "table",
                        "ours",
                        "limit / ours",
                        "torch.bmm",
                        "torch.compile",
                        "torch / ours",
                    ],
                    "rows": [row(each) for each in rows],
                }
            ],
            "targets": [
                target(
                    f"{dtype}: {least} times the better of torch.bmm and torch.compile at each shape",
                    [ratio(each) for each in rows if each["dtype"] == dtype],
                    least,
                )
                for dtype, least in LEAST.items()
            ],
            "samples": rows,
        },
    )


if __name__ == "__main__":
    main()
