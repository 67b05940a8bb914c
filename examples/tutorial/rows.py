"""A kernel that computes with rows."""

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32


@vyre.program
def softmax(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    row = x[r, :]
    e = vyre.exp(row - vyre.max(row))
    y[r, :] = e / vyre.sum(e)


x, y = np.array([[0, 1, 2], [5, 5, 5]], np.float32), np.zeros((2, 3), np.float32)
softmax[len(x)](x, y)
print(y.round(2))
