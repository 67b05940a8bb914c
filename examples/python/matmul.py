"""c = a b by tiles of 16 by 16: a workgroup loads a tile of each into shared memory, for all its invocations to use."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32

TILE = 16


@vyre.program(workgroup=(TILE, TILE))
def matmul(a: Read[f32[:, :]], b: Read[f32[:, :]], c: Write[f32[:, :]]) -> None:
    a_tile, b_tile = vyre.shared(f32, (TILE, TILE)), vyre.shared(f32, (TILE, TILE))
    (m, k), n = a.shape, b.shape[1]
    x, y = vyre.local_id(0), vyre.local_id(1)
    column, row = vyre.global_id(0), vyre.global_id(1)
    total = 0.0
    for first in range(0, k, TILE):
        a_tile[y, x] = a[row, first + x] if row < m and first + x < k else 0.0
        b_tile[y, x] = b[first + y, column] if first + y < len(b) and column < n else 0.0
        vyre.barrier()
        for t in range(TILE):
            total += a_tile[y, t] * b_tile[t, x]
        vyre.barrier()
    if row < len(c) and column < c.shape[1]:
        c[row, column] = total


def run(a, b, c):
    rows, columns = c.shape
    matmul[vyre.ceil_div(columns, TILE), vyre.ceil_div(rows, TILE)](a, b, c)


def main():
    m, n, k = 300, 200, 250
    rng = np.random.default_rng(1)
    a = rng.standard_normal((m, k), dtype=np.float32)
    b = rng.standard_normal((k, n), dtype=np.float32)
    c = np.empty((m, n), np.float32)
    run(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    print(f"matmul: {m} x {k} by {k} x {n} agrees with NumPy")


if __name__ == "__main__":
    main()
