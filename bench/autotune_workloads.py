"""The workloads that are recorded and tuned by the benchmarks, for a GPU and for the CPU target."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

import scan_inputs  # noqa: F401 - its path has `support`
from support.search_workload import SearchWorkload

from vyre_opt.ir.types import DataType
from vyre_opt.tuning.workload import Workload, kernel_workload

__all__ = ["CPU", "GPU", "chain", "dfa", "embedding", "matvec", "prefix", "softmax"]

U8, U16, U32, F32, BF16 = DataType.U8, DataType.U16, DataType.U32, DataType.F32, DataType.BF16
Make = Callable[[], Workload]


def softmax(rows: int, columns: int, dtype: DataType = F32) -> Workload:
    return kernel_workload("math.softmax", [rows * columns] * 2, [dtype] * 2, {"columns": columns})


def prefix(count: int) -> Workload:
    return kernel_workload("scan.prefix", [count] * 2, [U32] * 2)


def chain(steps: int, rank: int) -> Workload:
    counts = [rank, steps * rank * rank, rank]
    return kernel_workload("tt.chain", counts, [F32] * 3, {"steps": steps, "rank": rank})


def embedding(lookups: int, rank: int, p: tuple[int, ...] = (200, 220, 250)) -> Workload:
    """Rows of 64 values, kept as three cores."""
    q, r = (4, 4, 4), (1, rank, rank, 1)
    cells = sum(p[k] * q[k] * x * y for k, (x, y) in enumerate(pairwise(r)))
    params = {f"p{k}": v for k, v in enumerate(p)} | {f"q{k}": v for k, v in enumerate(q)}
    counts = [cells, lookups, lookups * prod(q)]
    return kernel_workload("tt.embedding", counts, [F32, U32, F32], {**params, "r1": rank, "r2": rank})


def dfa(count: int, states: int = 64, warmup: int = 15) -> Workload:
    counts = [count, 256 * states, states, count]
    return kernel_workload("scan.dfa", counts, [U8, U16, U32, U32], {"warmup": warmup})


def base64(characters: int) -> Workload:
    return kernel_workload("decode.base64", [characters, characters // 4 * 3], [U8] * 2)


def matvec(rows: int, columns: int) -> Workload:
    return kernel_workload("math.matvec_fixed", [rows * columns, columns, rows], [U32] * 3)


def softmax_step(count: int) -> Workload:
    return kernel_workload("math.softmax_step", [count] * 2, [U32] * 2)


def contract_step(rows: int, columns: int) -> Workload:
    return kernel_workload("tt.contract_step", [rows, rows * columns, columns], [F32] * 3)


GPU: dict[str, Make] = {
    "softmax_f32": lambda: softmax(4096, 1024),
    "softmax_bf16": lambda: softmax(4096, 4096, BF16),
    "prefix": lambda: prefix(1 << 24),
    "embedding": lambda: embedding(65536, 32),
    "chain": lambda: chain(32, 256),
    "decode_scan": lambda: SearchWorkload(12 << 20),
    "dfa": lambda: dfa(16 << 20),
    "base64": lambda: base64(16 << 20),
    "softmax_step": lambda: softmax_step(1 << 20),
    "contract_step": lambda: contract_step(1024, 16384),
    "matvec": lambda: matvec(4096, 4096),
}

CPU: dict[str, Make] = {
    "softmax_f32": lambda: softmax(512, 1024),
    "prefix": lambda: prefix(1 << 20),
    "embedding": lambda: embedding(2048, 16, (50, 60, 50)),
    "chain": lambda: chain(32, 256),
    "decode_scan": lambda: SearchWorkload(1 << 20),
    "dfa": lambda: dfa(1 << 20),
    "base64": lambda: base64(4 << 20),
    "softmax_step": lambda: softmax_step(1 << 18),
    "contract_step": lambda: contract_step(512, 2048),
}
