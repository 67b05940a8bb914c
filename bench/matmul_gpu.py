"""Products of bf16 on a GPU's matrix units:  python bench/matmul_gpu.py

`vyre_opt.kernels.matmul` on torch tensors, as a user calls it, beside torch.mm (cuBLAS): at 4096 x 4096 x 4096, and at shapes
that fit no tile, four of them drawn at random.  Then a matrix product that a user writes in Python, of 30 lines with its head, for
that size.  Each time is of calls in a row by events, so host time counts wherever it is longer than the GPU's; the results
are compared with a product in double precision.  The limit is the rate that cuBLAS reaches in the same run at 8192 x 8192 x 8192.
"""

from __future__ import annotations

import importlib.metadata
import random
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

from gpu_timing import in_turn, relative_error, seconds
from measure import machine, save, today

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, bf16, f32

RESULT = Path(__file__).parent / "results" / "matmul_gpu.json"
N = 4096
SHAPES = [
    (1000, 1000, 1000),
    (2047, 2049, 2051),
    (511, 8192, 513),
    (100, 4096, 11008),
    (3000, 64, 5000),
    (12345, 1024, 96),
    (640, 640, 20000),
    (6006, 3003, 1501),
]
LEAST_OF_SQUARE, LEAST_OF_OTHERS, LEAST_OF_USER = 0.5, 0.35, 0.3
Shape = tuple[int, int, int]
Factor = Annotated[bf16, N, N]


@vyre.program(workgroup=256, grid=(N // 128, N // 256))
def tiled(a: Read[Factor], b: Read[Factor], c: Write[Annotated[f32, N, N]]):  # type: ignore[no-untyped-def]
    x = vyre.shared(bf16, (3, 128, 72))
    y = vyre.shared(bf16, (3, 64, 256))
    row, column = vyre.workgroup_id(0) * 128, vyre.workgroup_id(1) * 256
    r = vyre.subgroup_id() * 16
    for t in vyre.static(range(2)):
        vyre.copy_tile(x, (t, 0, 0), a, (row, t * 64), 128, 64)
        vyre.copy_tile(y, (t, 0, 0), b, (t * 64, column), 64, 256)
        vyre.copy_wait(1)
    left = vyre.matrix(16, 128, f32)
    right = vyre.matrix(16, 128, f32)
    for k in range(0, N, 64):
        vyre.copy_wait(1)
        vyre.barrier()
        if k + 192 <= N:
            t = (k // 64 + 2) % 3
            vyre.copy_tile(x, (t, 0, 0), a, (row, k + 128), 128, 64)
            vyre.copy_tile(y, (t, 0, 0), b, (k + 128, column), 64, 256)
        t = k // 64 % 3
        left = vyre.dot(x, (t, r, 0), y, (t, 0, 0), left, 64)
        right = vyre.dot(x, (t, r, 0), y, (t, 0, 128), right, 64)
    vyre.matrix_store(c, (row + r, column), left)
    vyre.matrix_store(c, (row + r, column + 128), right)


def drawn(count: int = 4) -> list[Shape]:
    """Sizes by their logarithm, with 2 to 60 GFLOP in all."""
    draw, shapes = random.Random("matmul"), list[Shape]()
    while len(shapes) < count:
        m, k, n = (round(32 * 512 ** draw.random()) for _ in range(3))
        if 1e9 < m * k * n < 3e10:
            shapes.append((m, k, n))
    return shapes


def sample(shape: Shape, user: bool = False) -> dict[str, Any]:
    import torch

    from vyre_opt.kernels import matmul

    rows, depth, columns = shape
    a = torch.randn(rows, depth, device="cuda").bfloat16()
    b = torch.randn(depth, columns, device="cuda").bfloat16()
    theirs = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
    ours = torch.full_like(theirs, torch.nan, dtype=torch.float32 if user else torch.bfloat16)
    times = in_turn(
        {
            "ours": lambda: tiled(a, b, ours) if user else matmul(a, b, out=ours),
            "torch": lambda: torch.mm(a, b, out=theirs),
        }
    )
    error = relative_error(ours, a.double() @ b.double())
    if not error < 4e-3:
        sys.exit(f"wrong product at {shape}: relative error {error}")
    what = "in Python, " if user else ""
    result = {"what": what + " x ".join(map(str, shape)), "flops": 2 * rows * depth * columns, **times}
    print(row(result, 1.0), flush=True)
    return result


def row(sample: dict[str, Any], limit: float) -> list[str]:
    ours, theirs, flops = sample["ours"], sample["torch"], sample["flops"]
    return [
        sample["what"],
        f"{ours * 1e6:.1f}",
        f"{theirs * 1e6:.1f}",
        f"{flops / ours / 1e12:.0f}",
        f"{flops / ours / limit:.2f}",
        f"{theirs / ours:.2f}",
    ]


def main() -> None:
    import torch

    from vyre_opt.targets.cuda import CudaDispatcher

    x = torch.randn(8192, 8192, device="cuda").bfloat16()
    limit = 2 * 8192**3 / seconds(lambda: torch.mm(x, x), 3)
    square, others = sample((N, N, N)), [sample(shape) for shape in [*SHAPES, *drawn()]]
    user = sample((N, N, N), user=True)
    samples = [square, *others, user]

    def ratio(each: dict[str, Any]) -> float:
        return float(each["torch"] / each["ours"])

    mean, least = geometric_mean(map(ratio, others)), min(map(ratio, others))
    result: dict[str, Any] = {
        "name": "matmul_gpu",
        "title": "Products of bf16 on matrix units",
        "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
        "date": today(),
        "machine": {**machine(), "gpu": CudaDispatcher().facts.name},
        "versions": {p: importlib.metadata.version(p) for p in ("pycuda", "llvmlite", "numpy", "torch")},
        "absent": [],
        "tables": [
            {
                "caption": f"Rows x depth x columns; cuBLAS at 8192 x 8192 x 8192 reaches {limit / 1e12:.0f} TFLOP/s",
                "columns": ["product", "ours us", "torch us", "TFLOP/s", "of the limit", "torch / ours"],
                "rows": [row(each, limit) for each in samples],
            }
        ],
        "targets": [
            {
                "what": f"{LEAST_OF_SQUARE} of cuBLAS at {N} x {N} x {N}",
                "measured": f"{ratio(square):.2f}",
                "met": ratio(square) >= LEAST_OF_SQUARE,
            },
            {
                "what": f"{LEAST_OF_OTHERS} of it over shapes that fit no tile, in the geometric mean",
                "measured": f"{mean:.2f} in the mean, {least:.2f} at worst, of {len(others)}",
                "met": mean >= LEAST_OF_OTHERS,
            },
            {
                "what": f"{LEAST_OF_USER} of it for the product that a user writes",
                "measured": f"{ratio(user):.2f}",
                "met": ratio(user) >= LEAST_OF_USER,
            },
        ],
        "samples": samples,
    }
    save(RESULT, result)
    for each in result["targets"]:
        print(f"{each['what']}: {each['measured']} ({'met' if each['met'] else 'not met'})")


if __name__ == "__main__":
    main()
