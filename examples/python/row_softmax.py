"""Softmax over rows of any length: a workgroup takes a row, and reduces it."""

import math

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32

LANES = 256


@vyre.program(workgroup=LANES)
def softmax(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    row, lane, columns = vyre.workgroup_id(0), vyre.local_id(0), x.shape[1]
    if row >= min(len(x), len(y)):  # once, or each access would look
        return
    peak, total = -math.inf, 0.0
    for first in range(lane, columns, 4 * LANES):
        for k in vyre.static(range(4)):  # four loads on their way at once
            peak = max(peak, x[row, min(first + k * LANES, columns - 1)])
    peak = vyre.workgroup_reduce(peak, "max")
    for j in range(lane, columns, LANES):
        total += vyre.exp(x[row, j] - peak)
    total = vyre.workgroup_reduce(total, "add")
    for j in range(lane, columns, LANES):
        y[row, j] = vyre.exp(x[row, j] - peak) / total


def run(x, y):
    softmax[len(x)](x, y)


def reference(x):
    """By NumPy, in double precision."""
    grown = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return grown / grown.sum(1, keepdims=True)


def main():
    rows, columns = 300, 3000
    x = np.random.default_rng(1).standard_normal((rows, columns), dtype=np.float32) * 4
    y = np.empty_like(x)
    run(x, y)
    np.testing.assert_allclose(y, reference(x), rtol=1e-5)
    print(f"row_softmax: {rows} rows of {columns} agree with NumPy")


if __name__ == "__main__":
    main()
