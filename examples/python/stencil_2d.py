"""A five-point stencil on a grid of points, whose edge is kept: arrays and workgroups of two dimensions.

An invocation goes down some rows of a column, and keeps the points above and below, so that it loads three a row.
"""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32

ROWS = 4  # of an invocation


@vyre.program(workgroup=(32, 8))
def stencil(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    rows, columns = x.shape
    j, top = vyre.global_id(0), vyre.global_id(1) * ROWS
    if j >= columns or top >= rows:
        return
    middle = x[top, j]
    above = x[top - 1, j] if top > 0 else middle
    for i in range(top, min(top + ROWS, rows)):
        below = x[i + 1, j] if i + 1 < rows else middle
        value = middle
        if 0 < i and i + 1 < rows and 0 < j and j + 1 < columns:
            value = 0.2 * (middle + x[i, j - 1] + x[i, j + 1] + above + below)
        y[i, j] = value
        above, middle = middle, below


def run(x, y):
    rows, columns = x.shape
    stencil[vyre.ceil_div(columns, 32), vyre.ceil_div(rows, 8 * ROWS)](x, y)


def reference(x):
    """By NumPy, in the order of the kernel's additions."""
    y = x.copy()
    inner = x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]
    y[1:-1, 1:-1] = np.float32(0.2) * inner
    return y


def main():
    rows, columns = 900, 1100
    x = np.random.default_rng(1).standard_normal((rows, columns), dtype=np.float32)
    y = np.empty_like(x)
    run(x, y)
    assert np.array_equal(y, reference(x))
    print(f"stencil_2d: {rows} x {columns} points agree with NumPy")


if __name__ == "__main__":
    main()
