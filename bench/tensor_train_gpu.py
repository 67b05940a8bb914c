"""tt.embedding and tt.chain on a GPU, beside torch in the same run:  python bench/tensor_train_gpu.py

The embedding: 65,536 lookups of a table of 200 x 220 x 250 rows of 64 values, kept as three
cores, beside the slices gathered and multiplied by torch.bmm, plain and through torch.compile.
The chain: a vector through 32 square matrices, beside 32 torch.mm in a CUDA graph.
"""

from __future__ import annotations

import importlib.metadata
import math
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpu_timing import Run, copy_bandwidth, in_turn, multiply_add_rate, relative_error, target
from measure import machine, save, today

RESULT = Path(__file__).parent / "results" / "tensor_train_gpu.json"
P, Q, LOOKUPS = (200, 220, 250), (4, 4, 4), 65536
RANKS = (16, 32, 64)
STEPS, CHAIN_RANKS = 32, (64, 128, 256, 512)


def gathered(cores: list[Any], indices: Any) -> Any:
    """Rows of the table: each lookup's slices, multiplied one after the other."""
    import torch

    count, rank = indices.numel(), cores[0].shape[3]
    digits = (indices // (P[1] * P[2]), indices // P[2] % P[1], indices % P[2])
    first, middle, last = (core[digit] for core, digit in zip(cores, digits, strict=True))
    rows = torch.bmm(first.view(count, Q[0], rank), middle.view(count, rank, Q[1] * rank))
    rows = torch.bmm(rows.view(count, Q[0] * Q[1], rank), last.view(count, rank, Q[2]))
    return rows.view(count, -1)


def stop_if_wrong(what: str, actual: Any, expected: Any, tolerance: float) -> None:
    error = relative_error(actual, expected)
    if not error < tolerance:
        sys.exit(f"wrong {what}: relative error {error}")


def embedding_runs(rank: int, dtype: Any) -> dict[str, Run]:
    import torch

    from vyre_opt.cuda import CudaDispatcher
    from vyre_opt.ir.types import DataType
    from vyre_opt.kernels.embedding import EmbeddingShape, embedding, embedding_grid, embedding_schedule

    torch.manual_seed(rank)
    inner = (1, rank, rank, 1)
    shapes = zip(P, inner, Q, inner[1:], strict=False)
    cores = [torch.randn(shape, device="cuda").to(dtype) for shape in shapes]
    indices = torch.randint(0, math.prod(P), (LOOKUPS,), device="cuda")
    out = torch.full((LOOKUPS, math.prod(Q)), math.nan, device="cuda", dtype=dtype)
    shape = EmbeddingShape(P, Q, (rank, rank))
    schedule = embedding_schedule(shape, count=LOOKUPS, target="cuda")
    program = embedding(shape, DataType.BF16 if dtype is torch.bfloat16 else DataType.F32, schedule)
    arrays = [torch.cat([core.view(-1) for core in cores]), indices.to(torch.uint32), out.view(-1)]
    gpu = CudaDispatcher(bounds="none")
    bound = gpu.bind(program, arrays, embedding_grid(schedule, shape, LOOKUPS))
    stream = torch.cuda.current_stream()
    bound.run(stream)
    exact = gathered([core.double() for core in cores], indices[:4096])
    stop_if_wrong(f"embedding of rank {rank}", out[:4096], exact, 4e-3 if dtype is torch.bfloat16 else 1e-5)
    if out.isnan().any():
        sys.exit("rows of the embedding were not written")
    compiled = torch.compile(gathered)
    return {
        "ours": lambda: bound.run(stream),
        "torch": lambda: gathered(cores, indices),
        "compiled": lambda: compiled(cores, indices),
    }


def chain_runs(rank: int) -> dict[str, Run]:
    import torch

    from vyre_opt.cuda import CudaDispatcher
    from vyre_opt.kernels.chain import chain, chain_schedule, uniform_ranks

    torch.manual_seed(rank)
    vector = torch.randn(1, rank, device="cuda")
    cores = [torch.randn(rank, rank, device="cuda") / math.sqrt(rank) for _ in range(STEPS)]
    between = [torch.empty(1, rank, device="cuda") for _ in range(STEPS)]

    def steps() -> None:
        for core, (before, after) in zip(cores, pairwise([vector, *between]), strict=True):
            torch.mm(before, core, out=after)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        steps()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps()
    ranks = uniform_ranks(STEPS, rank)
    schedule = chain_schedule(ranks, "cuda")
    out = torch.full((rank,), math.nan, device="cuda")
    arrays = [vector.view(-1), torch.cat([core.view(-1) for core in cores]), out]
    bound = CudaDispatcher(bounds="none").bind(chain(ranks, schedule=schedule), arrays, schedule.workgroups)
    stream = torch.cuda.current_stream()
    bound.run(stream)
    exact = vector.double()
    for core in cores:
        exact = exact @ core.double()
    stop_if_wrong(f"chain of rank {rank}", out, exact.view(-1), 1e-5)
    return {"ours": lambda: bound.run(stream), "torch graph": graph.replay}


def embedding_samples(bandwidth: float, rate: float) -> Iterator[dict[str, Any]]:
    import torch

    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for rank in RANKS:
            size = P[0] * Q[0] * rank + P[1] * Q[1] * rank**2 + P[2] * Q[2] * rank
            moved = (size + LOOKUPS * math.prod(Q)) * dtype.itemsize + LOOKUPS * 4
            sums = LOOKUPS * (Q[0] * Q[1] * rank**2 + math.prod(Q) * rank)
            torch.compiler.reset()
            seconds = in_turn(embedding_runs(rank, dtype), 5)
            limits = {"bytes": moved / bandwidth, "sums": sums / rate}
            yield {"rank": rank, "dtype": name, "seconds": seconds, "limits": limits}


def chain_samples(bandwidth: float) -> Iterator[dict[str, Any]]:
    for rank in CHAIN_RANKS:
        limit = (STEPS * rank * rank + 2 * rank) * 4 / bandwidth
        yield {"rank": rank, "dtype": "f32", "seconds": in_turn(chain_runs(rank)), "limits": {"bytes": limit}}


def row(sample: dict[str, Any], peers: tuple[str, ...]) -> list[str]:
    seconds = sample["seconds"]
    return [
        f"{sample['rank']} {sample['dtype']}",
        f"{seconds['ours'] * 1e6:.1f}",
        *(f"{limit * 1e6:.1f}" for limit in sample["limits"].values()),
        *(f"{seconds[peer] * 1e6:.1f}" for peer in peers),
        *(f"{seconds[peer] / seconds['ours']:.2f}" for peer in peers),
    ]


def ratios(samples: list[dict[str, Any]], peer: str) -> list[float]:
    return [sample["seconds"][peer] / sample["seconds"]["ours"] for sample in samples]


def main() -> None:
    import torch

    bandwidth, rate = copy_bandwidth(), multiply_add_rate()
    chains = list(chain_samples(bandwidth))
    lookups = list(embedding_samples(bandwidth, rate))
    single = [sample for sample in lookups if sample["dtype"] == "f32"]
    target_chains = [sample for sample in chains if sample["rank"] in (64, 256)]
    result: dict[str, Any] = {
        "name": "tensor_train_gpu",
        "title": "Tensor trains on a GPU",
        "about": f"{LOOKUPS:,} lookups in a table of {' x '.join(map(str, P))} rows kept as three cores, and a "
        f"vector through {STEPS} matrices.  Limits: each byte moved once at the bandwidth of a copy "
        f"({bandwidth / 1e12:.2f} TB/s), and multiply-adds at the rate of torch's f32 matrix product "
        f"({rate / 1e12:.1f} T/s).  torch uses the matrix units for bf16, our kernel does not.  Both sides of "
        "the chain find the cores in the L2 cache; its steps wait for each other, which no limit shows.",
        "date": today(),
        "machine": {**machine(), "gpu": torch.cuda.get_device_name()},
        "versions": {p: importlib.metadata.version(p) for p in ("torch", "triton", "llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "tt.embedding: microseconds, and torch's over ours",
                "columns": "rank|ours|limit by bytes|limit by sums|torch.bmm|torch.compile|bmm / ours|"
                "compile / ours".split("|"),
                "rows": [row(sample, ("torch", "compiled")) for sample in lookups],
            },
            {
                "caption": f"tt.chain of {STEPS} steps: microseconds, and torch's over ours",
                "columns": ["rank", "ours", "limit by bytes", "torch graph", "torch graph / ours"],
                "rows": [row(sample, ("torch graph",)) for sample in chains],
            },
        ],
        "targets": [
            target("embedding, f32: 8 times torch's gathered bmm", ratios(single, "torch"), 8),
            target("embedding, f32: 8 times torch.compile", ratios(single, "compiled"), 8),
            target(
                "chain of rank 64 and 256: 3 times torch's graph", ratios(target_chains, "torch graph"), 3
            ),
        ],
        "samples": [*lookups, *chains],
    }
    save(RESULT, result)
    for table in result["tables"]:
        print("\n".join(" | ".join(cells) for cells in [table["columns"], *table["rows"]]))


if __name__ == "__main__":
    main()
