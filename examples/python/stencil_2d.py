"""A five-point stencil on a grid of points, whose edge is kept: workgroups of two dimensions.

An invocation takes some rows of a column, and loads all their points before it stores one.
"""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, u32

ROWS = 8  # of an invocation


@vyre.program(workgroup=(64, 4))
def stencil(rows: u32, columns: u32, x: Read[f32], y: Write[f32]) -> None:
    j, top = vyre.global_id(0), vyre.global_id(1) * ROWS
    if j >= columns or top >= rows:
        return
    above = x[(max(top, 1) - 1) * columns + j]
    starts = [min(top + k, rows - 1) * columns for k in range(ROWS + 1)]
    column = [x[start + j] for start in starts]
    left = [x[start + max(j, 1) - 1] for start in starts]
    right = [x[start + min(j + 1, columns - 1)] for start in starts]
    for k in vyre.static(range(ROWS)):
        if top + k < rows:
            inner = 0.2 * (column[k] + left[k] + right[k] + above + column[k + 1])
            y[starts[k] + j] = inner if 0 < top + k < rows - 1 and 0 < j < columns - 1 else column[k]
        above = column[k]


def run(x, y):
    rows, columns = x.shape
    stencil[vyre.ceil_div(columns, 64), vyre.ceil_div(rows, 4 * ROWS)](rows, columns, x, y)


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
