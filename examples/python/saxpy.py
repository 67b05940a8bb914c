"""y = a x + y: the smallest kernel, with a number among its arguments and an array that it updates."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, f32


@vyre.program(workgroup=256)
def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


def run(a, x, y):
    saxpy[vyre.ceil_div(len(y), 256)](a, x, y)


def main():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 1_000_000), dtype=np.float32)
    expected = np.float32(2.5) * x + y
    run(2.5, x, y)
    assert np.array_equal(y, expected)
    print(f"saxpy: {len(y)} elements agree with NumPy")


if __name__ == "__main__":
    main()
