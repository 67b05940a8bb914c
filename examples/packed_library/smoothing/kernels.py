"""The kernels of the library, which are compiled when it is packaged."""

import vyre_opt as vyre
from vyre_opt import Read, Write, f32


@vyre.program
def smooth(x: Read[f32], y: Write[f32], weight: f32):
    i = vyre.global_id(0)
    n = len(x)
    if i < n:
        left = x[max(i, 1) - 1]
        right = x[min(i + 1, n - 1)]
        y[i] = (1.0 - weight) * x[i] + weight * 0.5 * (left + right)


@vyre.pipeline
def smooth_twice(x: Read[f32], y: Write[f32], weight: f32):
    once = vyre.buffer(f32, len(x))
    smooth[vyre.ceil_div(len(x), 256)](x, once, weight)
    smooth[vyre.ceil_div(len(x), 256)](once, y, weight)
