"""A vector through 32 square matrices on a GPU:  python bench/chain_gpu.py

`vyre_opt.kernels.TTChain` on torch tensors, called as a user calls it, beside 32 torch.mm in a CUDA graph; and 64 vectors at a time,
that all go through the same matrices; then ranks that are drawn, by turns for one vector and for a drawn number of them.  Each
time is of calls in a row by events, so host time counts wherever it is longer than the GPU's; results are compared with products
in double precision.  The limit is each byte moved once at the bandwidth of a copy; both sides find the matrices in the L2 cache,
and their steps wait for each other, which no limit shows.
"""

from __future__ import annotations

import math
import random
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpu_timing import copy_bandwidth, head, in_turn, relative_error, target
from measure import save

from vyre_opt.kernels import TTChain

RESULT = Path(__file__).parent / "results" / "chain_gpu.json"
STEPS, RANKS, VECTORS = 32, (64, 128, 256, 512), (1, 64)
LEAST = {(64, 1): 5, (256, 1): 5, (128, 1): 3, (512, 1): 3}
LEAST_OF_MANY = 3
DRAWN, DRAWN_RANKS, DRAWN_VECTORS = 16, (65, 720), (2, 200)


def sample(rank: int, vectors: int, bandwidth: float) -> dict[str, Any]:
    import torch

    torch.manual_seed(rank + vectors)
    x = torch.randn(vectors, rank, device="cuda")
    cores = [torch.randn(rank, rank, device="cuda") / math.sqrt(rank) for _ in range(STEPS)]
    between = [torch.empty(vectors, rank, device="cuda") for _ in range(STEPS)]

    def steps() -> None:
        for core, (before, after) in zip(cores, pairwise([x, *between]), strict=True):
            torch.mm(before, core, out=after)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        steps()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()
    chain, given = TTChain(cores), x if vectors > 1 else x.view(-1)
    out = torch.full_like(given, math.nan)
    chain(given, out=out)
    exact = x.double()
    for core in cores:
        exact = exact @ core.double()
    error = relative_error(out.view(vectors, -1), exact)
    if not error < 1e-5:
        sys.exit(f"wrong chain of rank {rank}: relative error {error}")
    result = {
        "rank": rank,
        "vectors": vectors,
        "seconds": in_turn({"ours": lambda: chain(given, out=out), "graph": graph.replay}),
        "limit": (STEPS * rank * rank + 2 * vectors * rank) * 4 / bandwidth,
    }
    print(" | ".join(row(result)), flush=True)
    return result


def row(sample: dict[str, Any]) -> list[str]:
    seconds = sample["seconds"]
    return [
        str(sample["rank"]),
        str(sample["vectors"]),
        f"{seconds['ours'] * 1e6:.1f}",
        f"{sample['limit'] / seconds['ours']:.2f}",
        f"{seconds['graph'] * 1e6:.1f}",
        f"{ratio(sample):.2f}",
    ]


def ratio(sample: dict[str, Any]) -> float:
    return float(sample["seconds"]["graph"] / sample["seconds"]["ours"])


def main() -> None:
    bandwidth = copy_bandwidth()
    samples = [sample(rank, vectors, bandwidth) for vectors in VECTORS for rank in RANKS]
    draw = random.Random(2)
    drawn = [
        sample(draw.randint(*DRAWN_RANKS), draw.randint(*DRAWN_VECTORS) if k % 2 else 1, bandwidth)
        for k in range(DRAWN)
    ]
    by_size = {(each["rank"], each["vectors"]): ratio(each) for each in samples}
    save(
        RESULT,
        {
            **head("chain_gpu", "Chains of matrices on a GPU", __doc__, ("torch", "llvmlite", "numpy")),
            "tables": [
                {
                    "caption": f"{STEPS} steps: microseconds, and torch's over ours; the last {DRAWN} rows are drawn",
                    "columns": ["rank", "vectors", "ours", "limit / ours", "torch graph", "torch / ours"],
                    "rows": [row(each) for each in samples + drawn],
                }
            ],
            "targets": [
                *(
                    target(f"rank {size[0]}: {least} times torch's graph", [by_size[size]], least)
                    for size, least in LEAST.items()
                ),
                target(
                    f"{VECTORS[1]} vectors: {LEAST_OF_MANY} times torch's graph",
                    [by_size[rank, VECTORS[1]] for rank in RANKS],
                    LEAST_OF_MANY,
                ),
                target("drawn: faster than torch's graph", [ratio(each) for each in drawn], 1),
            ],
            "samples": samples + drawn,
        },
    )


if __name__ == "__main__":
    main()
