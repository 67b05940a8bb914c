"""By Numba: loops, the outer one over all threads.  It has no f16 on the CPU.

Constants and numbers are of f32, or it computes in f64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from natural_kernels import MANDELBROT_STEPS
from numba import get_num_threads, njit, prange

jit: Any = njit(parallel=True)
f32 = np.float32


@jit
def affine(x, y):
    for i in prange(len(x)):
        y[i] = x[i] * f32(2) + f32(1)


@jit
def add(a, b, y):
    for i in prange(len(y)):
        y[i] = a[i] + b[i]


@jit
def saxpy(a, x, y):
    scale = f32(a)
    for i in prange(len(y)):
        y[i] = scale * x[i] + y[i]


@jit
def widen(x, y):
    for i in prange(len(x)):
        y[i] = x[i]


@jit
def narrow(x, y):
    for i in prange(len(x)):
        y[i] = min(max(round(x[i] * f32(255)), f32(0)), f32(255))


@jit
def exp(x, y):
    for i in prange(len(x)):
        y[i] = math.exp(x[i])


@jit
def log(x, y):
    for i in prange(len(x)):
        y[i] = math.log(x[i])


@jit
def rsqrt(x, y):
    for i in prange(len(x)):
        y[i] = f32(1) / math.sqrt(x[i])


@jit
def sin(x, y):
    for i in prange(len(x)):
        y[i] = math.sin(x[i])


@jit
def tanh(x, y):
    for i in prange(len(x)):
        y[i] = math.tanh(x[i])


@jit
def erf(x, y):
    for i in prange(len(x)):
        y[i] = math.erf(x[i])


@jit
def pow(a, b, y):
    for i in prange(len(y)):
        y[i] = a[i] ** b[i]


@njit
def _gelu(v: Any) -> Any:
    return f32(0.5) * v * (f32(1) + math.tanh(f32(0.7978845608) * (v + f32(0.044715) * v * v * v)))


@jit
def gelu(x, y):
    for i in prange(len(x)):
        y[i] = _gelu(x[i])


@jit
def polynomial(x, y):
    for i in prange(len(x)):
        total = f32(0)
        for k in range(8, 0, -1):
            total = total * x[i] + f32(k)
        y[i] = total


@jit
def mandelbrot(re, im, steps):
    for i in prange(len(steps)):
        x, y, n = f32(0), f32(0), 0
        while n < MANDELBROT_STEPS and x * x + y * y <= f32(4):
            x, y = x * x - y * y + re[i], f32(2) * x * y + im[i]
            n += 1
        steps[i] = n


@jit
def add_bias(x, bias, y):
    for i in prange(len(x)):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] + bias[j]


@jit
def bias_gelu(x, bias, y):
    for i in prange(len(x)):
        for j in range(x.shape[1]):
            y[i, j] = _gelu(x[i, j] + bias[j])


@jit
def residual(x, skip, y):
    for i in prange(len(x)):
        y[i] = max(x[i], f32(0)) + skip[i]


@jit
def smooth(x, y):
    for i in prange(1, len(x) - 1):
        y[i] = (x[i - 1] + x[i] + x[i + 1]) * f32(0.25)


@jit
def stencil(x, y):
    rows, columns = x.shape
    for i in prange(rows):
        for j in range(columns):
            if 0 < i < rows - 1 and 0 < j < columns - 1:
                y[i, j] = f32(0.2) * (x[i, j] + x[i, j - 1] + x[i, j + 1] + x[i - 1, j] + x[i + 1, j])
            else:
                y[i, j] = x[i, j]


@jit
def add_rows(a, b, y):
    for i in prange(len(y)):
        for j in range(y.shape[1]):
            y[i, j] = a[i, j] + b[i, j]


@jit
def transpose(x, y):
    for i in prange(len(x)):
        for j in range(x.shape[1]):
            y[j, i] = x[i, j]


@jit
def gather(x, index, y):
    for i in prange(len(index)):
        y[i] = x[index[i]]


@jit
def row_sum(x, y):
    for i in prange(len(x)):
        total = f32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total


lane_sum = row_sum


@jit
def row_max(x, y):
    for i in prange(len(x)):
        peak = f32(-math.inf)
        for j in range(x.shape[1]):
            peak = max(peak, x[i, j])
        y[i] = peak


@jit
def softmax(x, y):
    for i in prange(len(x)):
        peak, total = f32(-math.inf), f32(0)
        for j in range(x.shape[1]):
            peak = max(peak, x[i, j])
        for j in range(x.shape[1]):
            y[i, j] = math.exp(x[i, j] - peak)
            total += y[i, j]
        for j in range(x.shape[1]):
            y[i, j] /= total


@jit
def rms_norm(eps, x, weight, y):
    for i in prange(len(x)):
        squares = f32(0)
        for j in range(x.shape[1]):
            squares += x[i, j] * x[i, j]
        scale = f32(1) / math.sqrt(squares / f32(x.shape[1]) + f32(eps))
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * scale * weight[j]


@jit
def layernorm(eps, x, weight, bias, y):
    for i in prange(len(x)):
        total, squares = f32(0), f32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / f32(x.shape[1])
        for j in range(x.shape[1]):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        scale = f32(1) / math.sqrt(squares / f32(x.shape[1]) + f32(eps))
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]


@jit
def histogram(x, bins):
    threads = get_num_threads()
    counts = np.zeros((threads, 256), np.uint32)
    for t in prange(threads):
        for i in range(len(x) * t // threads, len(x) * (t + 1) // threads):
            counts[t, x[i]] += 1
    bins += counts.sum(0)


@jit
def count_zeros(x, total):
    zeros = 0
    for i in prange(len(x)):
        zeros += x[i] == 0
    total[0] += zeros


@jit
def dot_of_lanes(x, y, total):
    product = f32(0)
    for i in prange(len(x)):
        product += x[i] * y[i]
    total[0] += product


dot_of_subgroups = dot_of_lanes


@jit
def matmul(a, b, c):
    for i in prange(c.shape[0]):
        for j in range(c.shape[1]):
            total = f32(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            c[i, j] = total
