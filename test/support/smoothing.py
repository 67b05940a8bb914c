"""A pipeline of Python that changes the one array that it takes: a mean of neighbours, twice."""

from __future__ import annotations

import numpy as np

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32

__all__ = ["reference", "smooth", "smoothed_twice"]


@vyre.program(workgroup=256)
def smooth(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        before = x[i - 1] if i > 0 else x[0]
        after = x[i + 1] if i + 1 < len(x) else x[i]
        y[i] = 0.25 * before + 0.5 * x[i] + 0.25 * after


@vyre.pipeline
def smoothed_twice(x: ReadWrite[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    smooth[vyre.ceil_div(len(x), 256)](x, t)
    smooth[vyre.ceil_div(len(x), 256)](t, x)


def reference(x: np.ndarray) -> np.ndarray:
    """What `smooth` makes of an array, by NumPy."""
    padded = np.concatenate([x[:1], x, x[-1:]])
    quarter, half = np.float32(0.25), np.float32(0.5)
    result: np.ndarray = quarter * padded[:-2] + half * x + quarter * padded[2:]
    return result
