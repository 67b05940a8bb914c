"""A five-point stencil on a grid of points, whose edge is kept: workgroups of two dimensions.

An invocation goes down some rows of a column, and keeps the points above and below, so that it loads three a row.
"""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, u32

ROWS = 4  # of an invocation


@vyre.program(workgroup=(32, 8))
def stencil(rows: u32, columns: u32, x: Read[f32], y: Write[f32]) -> None:
    j, top = vyre.global_id(0), vyre.global_id(1) * ROWS
    if j >= columns or top >= rows:
        return
    above, middle = x[(max(top, 1) - 1) * columns + j], x[top * columns + j]
    for i in range(top, min(top + ROWS, rows)):
        at = i * columns + j
        below = x[min(i + 1, rows - 1) * columns + j]
        if 0 < i < rows - 1 and 0 < j < columns - 1:
            y[at] = 0.2 * (middle + x[at - 1] + x[at + 1] + above + below)
        else:
            y[at] = middle
        above, middle = middle, below


def run(rows, columns, x, y):
    stencil[vyre.ceil_div(columns, 32), vyre.ceil_div(rows, 8 * ROWS)](rows, columns, x, y)


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
    run(rows, columns, x.reshape(-1), y.reshape(-1))
    assert np.array_equal(y, reference(x))
    print(f"stencil_2d: {rows} x {columns} points agree with NumPy")


if __name__ == "__main__":
    main()
