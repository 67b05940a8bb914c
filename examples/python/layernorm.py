"""Layer normalization of rows of any length: a workgroup takes a row, and goes over it three times."""

import functools
from typing import Any

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32


@functools.cache
def layernorm(lanes, width):
    """The kernel with so many invocations for a row, which load and store `width` numbers at once."""

    @vyre.func
    def row_sum(rows, start, count, centre, power):
        """The sum of a row's `(value - centre) ** power`, for each invocation."""
        total: Any = 0.0  # a number, or `width` of them
        for first in range(vyre.local_id(0), count, 4 * lanes):
            for j in [first + k * lanes for k in range(4)]:  # four loads on their way at once
                at = min(j, count - 1)
                at = at if power == 1 else count - 1 - at  # backwards: what caches still have comes first
                value = rows[start + at] - centre
                total += value**power if j < count else 0.0
        total = total if width == 1 else total[0] + total[1] + total[2] + total[3]
        return vyre.workgroup_reduce(total, "add")

    @vyre.program(workgroup=lanes)
    def kernel(eps: f32, x: Read[f32], weight: Read[f32], bias: Read[f32], y: Write[f32]) -> None:
        rows, weights, biases, out = x.vec(width), weight.vec(width), bias.vec(width), y.vec(width)
        count, start = len(weights), vyre.workgroup_id(0) * len(weights)
        mean = row_sum(rows, start, count, 0.0, 1) / f32(len(weight))
        scale = 1 / vyre.sqrt(row_sum(rows, start, count, mean, 2) / f32(len(weight)) + eps)
        for j in range(vyre.local_id(0), count, lanes):
            out[start + j] = (rows[start + j] - mean) * scale * weights[j] + biases[j]

    return kernel


def run(eps, x, weight, bias, y):
    width = 4 if len(weight) % 4 == 0 else 1
    lanes = min(1024, max(32, 1 << ((len(weight) - 1) // (4 * width)).bit_length()))
    layernorm(lanes, width)[len(x)](eps, x, weight, bias, y)


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
