"""Layer normalization of rows of any length: a workgroup takes a row, and adds up over its invocations twice."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32

LANES = 256


@vyre.func
def workgroup_sum(value, partial):
    """The sum over a workgroup, for each of its invocations; `partial` has room for one number a subgroup."""
    for k in vyre.static((16, 8, 4, 2, 1)):
        value += vyre.subgroup_shuffle(value, k, "xor")
    vyre.barrier()
    if vyre.lane_id() == 0:
        partial[vyre.subgroup_id()] = value
    vyre.barrier()
    total = 0.0
    for k in range(LANES // 32):
        total += partial[k]
    return total


@vyre.program(workgroup=LANES)
def layernorm(eps: f32, x: Read[f32[:, :]], weight: Read[f32], bias: Read[f32], y: Write[f32[:, :]]) -> None:
    partial = vyre.shared(f32, LANES // 32)
    row, lane, columns = vyre.workgroup_id(0), vyre.local_id(0), x.shape[1]
    if row >= min(len(x), len(y)):  # once, or each access would look
        return
    total, squares = 0.0, 0.0
    for first in range(lane, columns, 4 * LANES):
        for k in vyre.static(range(4)):  # four loads on their way at once
            j = first + k * LANES
            value = x[row, min(j, columns - 1)]
            total += value if j < columns else 0.0
    mean = workgroup_sum(total, partial) / f32(columns)
    for j in range(lane, columns, LANES):
        squares += (x[row, j] - mean) ** 2
    scale = 1 / vyre.sqrt(workgroup_sum(squares, partial) / f32(columns) + eps)
    for j in range(lane, columns, LANES):
        y[row, j] = (x[row, j] - mean) * scale * weight[j] + bias[j]


def run(eps, x, weight, bias, y):
    layernorm[len(x)](eps, x, weight, bias, y)


def reference(eps, x, weight, bias):
    """By NumPy, in double precision."""
    x = x.astype(np.float64)
    scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps)
    return scaled * weight + bias


def main():
    rows, columns = 200, 5000
    rng = np.random.default_rng(1)
    x = rng.standard_normal((rows, columns), dtype=np.float32) * 3 + 1
    weight, bias = rng.standard_normal((2, columns), dtype=np.float32)
    y = np.empty_like(x)
    run(1e-5, x, weight, bias, y)
    np.testing.assert_allclose(y, reference(1e-5, x, weight, bias), rtol=1e-5, atol=1e-5)
    print(f"layernorm: {rows} rows of {columns} agree with NumPy")


if __name__ == "__main__":
    main()
