"""A tiled matrix product as a user writes it in Python, on the CPU:  python bench/matmul_tiled.py

The kernel is the textbook's, of workgroups T x T with two tiles and two barriers in a loop; it is called as a user calls
it, with the arrays of the caller.  Beside it, in the same run, NumPy's product (BLAS), and three loops in C with OpenMP
where there is a C compiler, which is what one would write by hand instead.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from bursts import bursts
from measure import machine, save, today

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, u32

RESULT = Path(__file__).parent / "results" / "matmul_tiled.json"
TILES = (8, 16, 32)
SIZES = (256, 512, 736, 1024)
TARGET_SIZE, TARGET_TILE, TARGET_SECONDS = 512, 16, 30e-3

OURS, NUMPY, C = "vyre-opt", "numpy", "C"
Product = Callable[[], Any]

C_SOURCE = """
void product(int n, const float *restrict a, const float *restrict b, float *restrict c) {
  #pragma omp parallel for
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) c[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
  }
}
"""
C_COMMAND = ("cc", "-O3", "-march=native", "-fopenmp", "-ffp-contract=off", "-shared", "-fPIC")


def tiled_product(tile: int) -> Any:
    """The kernel for tiles of tile x tile elements; sizes are multiples of it."""

    @vyre.program(workgroup=(tile, tile))
    def matmul(n: u32, a: Read[f32], b: Read[f32], c: Write[f32]):  # type: ignore[no-untyped-def]
        tile_a = vyre.shared(f32, tile * tile)
        tile_b = vyre.shared(f32, tile * tile)
        x = vyre.local_id(0)
        y = vyre.local_id(1)
        row = vyre.global_id(1)
        column = vyre.global_id(0)
        total = 0.0
        for start in range(0, n, tile):
            tile_a[y * tile + x] = a[row * n + start + x]
            tile_b[y * tile + x] = b[(start + y) * n + column]
            vyre.barrier()
            for k in range(tile):
                total += tile_a[y * tile + k] * tile_b[k * tile + x]
            vyre.barrier()
        c[row * n + column] = total

    return matmul


def c_product(folder: str) -> Any:
    """The function in C; None where nothing compiles it."""
    if shutil.which(C_COMMAND[0]) is None:
        return None
    source, library = Path(folder, "product.c"), Path(folder, "product.so")
    source.write_text(C_SOURCE)
    subprocess.run([*C_COMMAND, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).product
    function.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 3]
    return function


def sample(size: int, kernels: dict[int, Any], in_c: Any) -> dict[str, Any]:
    """Seconds of a product of two matrices of size x size, by each way to compute it; results checked."""
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    c = np.zeros_like(a)
    expected = a.astype(np.float64) @ b
    products: dict[str, Product] = {NUMPY: lambda: np.matmul(a, b, out=c)}
    if in_c is not None:
        products[C] = lambda: in_c(size, a.ctypes.data, b.ctypes.data, c.ctypes.data)
    for tile, kernel in kernels.items():
        groups = size // tile
        products[f"{OURS} {tile}"] = partial(kernel[groups, groups], size, a, b, c)
    for name, product in products.items():
        c[:] = np.nan
        product()
        if np.abs(c - expected).max() > 1e-4 * np.abs(expected).max():
            raise SystemExit(f"wrong product of {size} x {size} by {name}")
    return {"size": size, "seconds": {name: cost.seconds for name, cost in bursts(products).items()}}


def row(result: dict[str, Any]) -> list[str]:
    """Milliseconds of each, and billions of additions and multiplications a second of the kernel of 16 x 16."""
    size, seconds = result["size"], result["seconds"]
    columns = (*(f"{OURS} {tile}" for tile in TILES), NUMPY, C)
    rate = 2 * size**3 / seconds[f"{OURS} {TARGET_TILE}"] * 1e-9
    times = [f"{seconds[name] * 1e3:.2f}" if name in seconds else "" for name in columns]
    return [f"{size} x {size}", *times, f"{rate:.0f}"]


def main() -> None:
    kernels = {tile: tiled_product(tile) for tile in TILES}
    with tempfile.TemporaryDirectory() as folder:
        in_c = c_product(folder)
        results = [sample(size, kernels, in_c) for size in SIZES]
    for each in results:
        print(" | ".join(row(each)), flush=True)
    seconds = next(r for r in results if r["size"] == TARGET_SIZE)["seconds"][f"{OURS} {TARGET_TILE}"]
    save(
        RESULT,
        {
            "name": "matmul_tiled",
            "title": "A tiled matrix product in Python on the CPU",
            "about": "The textbook's kernel as a user writes it in Python, with workgroups of 8 x 8, 16 x 16 and 32 x 32, "
            "two tiles in workgroup memory and two barriers a step, called with NumPy arrays; beside it NumPy's "
            f"own product, and three loops in C (`{' '.join(C_COMMAND[:5])}`).  All in one process on the same threads, "
            "in bursts with the machine to itself; medians over rounds in changing order.",
            "date": today(),
            "machine": machine(),
            "versions": {package: importlib.metadata.version(package) for package in ("llvmlite", "numpy")},
            "absent": [] if in_c is not None else ["a C compiler"],
            "tables": [
                {
                    "caption": "Milliseconds of a product of f32; GFLOP/s of ours with tiles of 16 x 16",
                    "columns": ["size", *(f"ours, {t} x {t}" for t in TILES), "numpy", "C", "GFLOP/s"],
                    "rows": [row(r) for r in results],
                }
            ],
            "targets": [
                {
                    "what": f"{TARGET_SIZE} x {TARGET_SIZE} with tiles of {TARGET_TILE} x {TARGET_TILE} in at most "
                    f"{TARGET_SECONDS * 1e3:.0f} ms",
                    "measured": f"{seconds * 1e3:.2f} ms",
                    "met": seconds <= TARGET_SECONDS,
                }
            ],
            "samples": results,
        },
    )


if __name__ == "__main__":
    main()
