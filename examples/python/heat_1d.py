"""Heat that spreads along a rod whose ends stay as they are: a pipeline that repeats, and two buffers that take turns."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32

ROUNDS = 50


@vyre.program(workgroup=256)
def step(rate: f32, u: Read[f32], v: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(u):
        is_inner = 0 < i < len(u) - 1
        v[i] = u[i] + rate * (u[i - 1] - 2 * u[i] + u[i + 1]) if is_inner else u[i]


@vyre.pipeline
def heat(rate: f32, u: ReadWrite[f32]) -> None:
    v = vyre.buffer(f32, len(u))
    grid = vyre.ceil_div(len(u), 256)
    for _ in range(ROUNDS):
        step[grid](rate, u, v)
        step[grid](rate, v, u)


def reference(rate, u):
    """By NumPy, in the order of the kernel's operations."""
    for _ in range(2 * ROUNDS):
        v = u.copy()
        v[1:-1] = u[1:-1] + np.float32(rate) * (u[:-2] - 2 * u[1:-1] + u[2:])
        u = v
    return u


def main():
    u = np.random.default_rng(1).uniform(0, 100, 100_000).astype(np.float32)
    expected = reference(0.25, u)
    heat(0.25, u)
    assert np.array_equal(u, expected)
    print(f"heat_1d: {len(u)} points after {2 * ROUNDS} steps agree with NumPy")


if __name__ == "__main__":
    main()
