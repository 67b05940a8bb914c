"""A kernel, and a call of it."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, f32


@vyre.program(workgroup=256)
def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
saxpy[vyre.ceil_div(len(y), 256)](2.0, x, y)
print(y)
