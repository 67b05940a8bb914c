"""By CuPy: its functions on whole arrays where it has one, otherwise an ElementwiseKernel."""

from __future__ import annotations

from typing import Any

import cupy
from natural_kernels import MANDELBROT_STEPS

array = cupy.asarray


def _elementwise(name: str, inputs: str, output: str, code: str) -> Any:
    return cupy.ElementwiseKernel(inputs, output, code, name)


affine = _elementwise("affine", "float32 x", "float32 y", "y = x * 2.0f + 1.0f")


def add(a, b, y):
    cupy.add(a, b, out=y)


_saxpy = _elementwise("saxpy", "float32 a, float32 x, float32 y", "float32 z", "z = a * x + y")


def saxpy(a, x, y):
    _saxpy(a, x, y, y)


def scale_f16(x, y):
    cupy.multiply(x, 2.0, out=y)


def widen(x, y):
    y[...] = x


narrow = _elementwise(
    "narrow", "float32 x", "uint8 y", "y = (unsigned char)fminf(fmaxf(rintf(x * 255.0f), 0.0f), 255.0f)"
)


def exp(x, y):
    cupy.exp(x, out=y)


def log(x, y):
    cupy.log(x, out=y)


rsqrt = _elementwise("rsqrt_", "float32 x", "float32 y", "y = rsqrtf(x)")


def sin(x, y):
    cupy.sin(x, out=y)


def tanh(x, y):
    cupy.tanh(x, out=y)


erf = _elementwise("erf_", "float32 x", "float32 y", "y = erff(x)")


def pow(a, b, y):
    cupy.power(a, b, out=y)


_GELU = "0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)))"
gelu = _elementwise("gelu", "float32 v", "float32 y", f"y = {_GELU}")
polynomial = _elementwise(
    "polynomial", "float32 x", "float32 y", "float v = 0; for (int k = 8; k > 0; k--) v = v * x + k; y = v"
)
mandelbrot = _elementwise(
    "mandelbrot",
    "float32 re, float32 im",
    "int32 steps",
    f"""
    float x = 0, y = 0;
    int count = 0;
    while (count < {MANDELBROT_STEPS} && x * x + y * y <= 4.0f) {{
        float next = x * x - y * y + re;
        y = 2.0f * x * y + im;
        x = next;
        count++;
    }}
    steps = count;
    """,
)


def add_bias(x, bias, y):
    cupy.add(x, bias, out=y)


bias_gelu = _elementwise(
    "bias_gelu", "float32 x, float32 bias", "float32 y", f"float v = x + bias; y = {_GELU}"
)
residual = _elementwise("residual", "float32 x, float32 skip", "float32 y", "y = fmaxf(x, 0.0f) + skip")
smooth = _elementwise(
    "smooth",
    "raw float32 x",
    "float32 y",
    "if (i > 0 && i + 1 < _ind.size()) y = (x[i - 1] + x[i] + x[i + 1]) * 0.25f",
)
_stencil = _elementwise(
    "stencil",
    "raw float32 x, int64 rows, int64 columns",
    "float32 y",
    """
    long long r = i / columns, c = i % columns;
    y = r > 0 && r + 1 < rows && c > 0 && c + 1 < columns
        ? 0.2f * (x[i] + x[i - 1] + x[i + 1] + x[i - columns] + x[i + columns])
        : x[i];
    """,
)


def stencil(x, y):
    _stencil(x, *x.shape, y)


def add_rows(a, b, y):
    cupy.add(a, b, out=y)


def transpose(x, y):
    y[...] = x.T


def gather(x, index, y):
    cupy.take(x, index, out=y)


def row_sum(x, y):
    cupy.sum(x, axis=1, out=y)


lane_sum = row_sum


def row_max(x, y):
    cupy.amax(x, axis=1, out=y)


def softmax(x, y):
    grown = cupy.exp(x - x.max(axis=1, keepdims=True))
    cupy.divide(grown, grown.sum(axis=1, keepdims=True), out=y)


def rms_norm(eps, x, weight, y):
    cupy.multiply(x / cupy.sqrt((x * x).mean(axis=1, keepdims=True) + eps), weight, out=y)


def layernorm(eps, x, weight, bias, y):
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1 / cupy.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps)
    cupy.add(centred * scale * weight, bias, out=y)


_histogram = _elementwise("histogram", "uint8 x", "raw uint32 bins", "atomicAdd(&bins[x], 1u)")


def histogram(x, bins):
    _histogram(x, bins)


def count_zeros(x, total):
    return cupy.count_nonzero(x == 0)


def dot_of_lanes(x, y, total):
    return cupy.dot(x, y)


dot_of_subgroups = dot_of_lanes


def matmul(a, b, c):
    cupy.matmul(a, b, out=c)
