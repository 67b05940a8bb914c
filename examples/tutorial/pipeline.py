"""A pipeline of two launches."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32


@vyre.program(workgroup=256)
def shrink(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i] / (1 + abs(x[i]))


@vyre.pipeline
def shrink_twice(x: Read[f32], y: Write[f32]) -> None:
    once = vyre.buffer(f32, len(x))
    shrink[vyre.ceil_div(len(x), 256)](x, once)
    shrink[vyre.ceil_div(len(x), 256)](once, y)


y = np.zeros(2, np.float32)
shrink_twice(np.array([1, -3], np.float32), y)
print(y)
print(shrink_twice.report())
