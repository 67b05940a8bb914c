"""c = a b by tiles of 16 by 16: a workgroup loads a tile of each into shared memory, for all its invocations to use."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, u32

TILE = 16


@vyre.program(workgroup=(TILE, TILE))
def matmul(m: u32, n: u32, k: u32, a: Read[f32], b: Read[f32], c: Write[f32]) -> None:
    a_tile, b_tile = vyre.shared(f32, TILE * TILE), vyre.shared(f32, TILE * TILE)
    x, y = vyre.local_id(0), vyre.local_id(1)
    column, row = vyre.global_id(0), vyre.global_id(1)
    total = 0.0
    for first in range(0, k, TILE):
        a_tile[y * TILE + x] = a[row * k + first + x] if row < m and first + x < k else 0.0
        b_tile[y * TILE + x] = b[(first + y) * n + column] if first + y < k and column < n else 0.0
        vyre.barrier()
        for t in range(TILE):
            total += a_tile[y * TILE + t] * b_tile[t * TILE + x]
        vyre.barrier()
    if row < m and column < n:
        c[row * n + column] = total


def run(m, n, k, a, b, c):
    matmul[vyre.ceil_div(n, TILE), vyre.ceil_div(m, TILE)](m, n, k, a, b, c)


def main():
    m, n, k = 300, 200, 250
    rng = np.random.default_rng(1)
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((k, n), dtype=np.float32)
    c = np.empty((m, n), np.float32)
    run(m, n, k, a.reshape(-1), b.reshape(-1), c.reshape(-1))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    print(f"matmul: {m} x {k} by {k} x {n} agrees with NumPy")


if __name__ == "__main__":
    main()
