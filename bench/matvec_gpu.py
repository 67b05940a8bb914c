"""math.matvec_fixed on a GPU, beside a copy in the same run:  python bench/matvec_gpu.py [--quick]

Few and long rows, which workgroups share, up to many and short ones.  `call` is `vyre_opt.kernels.matvec_fixed`, as
callers call it, into a result that is there; `dispatch` is a bound launch of the same program on arrays of the caller,
after its scratch is zeroed where it has some.  Matrices are rotated so that no run finds its own in the L2 cache; times
are the GPU's, medians of events around ten runs, both in turn.  What comes out is compared with sums in 64 bits.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gpu_timing import copy_bandwidth, in_rotation, in_turn, target
from measure import machine, save, today

RESULT = Path(__file__).parent / "results" / "matvec_gpu.json"
SHAPES = [
    (1, 1 << 22),
    (8, 1 << 20),
    (16, 59914),
    (64, 65536),
    (100, 9973),
    (512, 8192),
    (4096, 4096),
    (65536, 64),
    (1 << 20, 11),
    (16384, 16384),
]
QUICK = [(64, 65536), (4096, 4096)]
BIG_BYTES = 60 << 20
ROTATED_BYTES = 512 << 20  # ten times the L2 cache of an H100
MOST_SETS = 32


def operands(rows: int, columns: int) -> list[tuple[Any, Any, Any]]:
    """Matrices, vectors and poisoned results, enough sets that none is found in the L2 cache."""
    import torch

    sets = max(2, min(MOST_SETS, ROTATED_BYTES // (4 * rows * columns)))

    def words(*shape: int) -> Any:
        return torch.randint(-(1 << 31), 1 << 31, shape, device="cuda").to(torch.int32)

    return [(words(rows, columns), words(columns), words(rows)) for _ in range(sets)]


def is_right(m: Any, x: Any, y: Any) -> bool:
    """Whether y is M x in 16.16, modulo 2^32."""
    import torch

    wide = x.to(torch.int64)
    rows = max(1, (1 << 26) // m.shape[1])
    sums = torch.cat([((part.to(torch.int64) * wide) >> 16).sum(1) for part in m.split(rows)])
    return bool((sums.to(torch.int32) == y).all())


def call(m: Any, x: Any, y: Any) -> Callable[[], None]:
    from vyre_opt.kernels import matvec_fixed

    return lambda: matvec_fixed(m, x, out=y)


def dispatch(m: Any, x: Any, y: Any) -> Callable[[], None]:
    import torch

    from vyre_opt.ir.types import DataType
    from vyre_opt.kernels.matvec import matvec_fixed, matvec_grid, matvec_schedule
    from vyre_opt.targets.cuda import CudaDispatcher

    rows, columns = m.shape
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    schedule = matvec_schedule(columns, rows, "cuda", multiprocessors=processors)
    arrays, stream = [m.view(-1), x, y], torch.cuda.current_stream()
    sums = torch.zeros(rows, dtype=torch.uint64, device="cuda")
    if schedule.splits > 1:
        arrays.append(sums)
    program = matvec_fixed(DataType.I32, schedule)
    bound = CudaDispatcher(bounds="none").bind(program, arrays, matvec_grid(schedule, rows))

    def run() -> None:
        if schedule.splits > 1:
            sums.zero_()
        bound.run(stream)

    return run


def samples(shapes: list[tuple[int, int]], bandwidth: float) -> Iterator[dict[str, Any]]:
    for rows, columns in shapes:
        sets = operands(rows, columns)
        runs = {bind.__name__: [bind(*arrays) for arrays in sets] for bind in (call, dispatch)}
        for name, each in runs.items():
            for run, (m, x, y) in zip(each, sets, strict=True):
                y.fill_(0x55555555)
                run()
                if not is_right(m, x, y):
                    sys.exit(f"{name}: wrong sums of {rows} x {columns}")
        moved = 4 * (rows * columns + columns + rows)
        seconds = in_turn({name: in_rotation(each) for name, each in runs.items()})
        yield {"shape": [rows, columns], "bytes": moved, "seconds": seconds, "limit": moved / bandwidth}


def row(sample: dict[str, Any]) -> list[str]:
    rows, columns = sample["shape"]
    cells = [f"{rows:,} x {columns:,}", f"{sample['limit'] * 1e6:.1f}"]
    for seconds in sample["seconds"].values():
        cells += [f"{seconds * 1e6:.1f}", f"{sample['bytes'] / seconds / 1e9:,.0f}"]
    return [*cells, f"{sample['limit'] / sample['seconds']['call']:.2f}"]


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two shapes; nothing is saved")
    quick = parser.parse_args().quick
    bandwidth = copy_bandwidth()
    columns = ["rows x columns", "limit us", "call us", "GB/s", "dispatch us", "GB/s", "limit / call"]
    print(" | ".join(columns), f"(copy: {bandwidth / 1e9:,.0f} GB/s)")
    results = []
    for sample in samples(QUICK if quick else SHAPES, bandwidth):
        results.append(sample)
        print(" | ".join(row(sample)), flush=True)
    if quick:
        return
    big = [s["limit"] / s["seconds"]["call"] for s in results if s["bytes"] >= BIG_BYTES]
    result = {
        "name": "matvec_gpu",
        "title": "A fixed-point matrix times a vector on a GPU",
        "about": "`kernels.matvec_fixed` as callers call it, and a bound launch of the same program without checks.  "
        "The limit is each byte moved once at the bandwidth of a copy "
        f"({bandwidth / 1e12:.2f} TB/s, read and written bytes); most of these matrices take it a few microseconds.",
        "date": today(),
        "machine": {**machine(), "gpu": torch.cuda.get_device_name()},
        "versions": {p: importlib.metadata.version(p) for p in ("torch", "llvmlite", "numpy")},
        "absent": [],
        "tables": [
            {
                "caption": "Microseconds, GB/s, and the limit over the time of a call",
                "columns": columns,
                "rows": [row(sample) for sample in results],
            }
        ],
        "targets": [target("0.8 of copy bandwidth from 60 MiB up", big, 0.8)],
        "samples": results,
    }
    save(RESULT, result)


if __name__ == "__main__":
    main()
