"""By Triton, as its tutorials do: a block of 1024 elements a program, or a row of a matrix; tensors are torch's.

Rows by blocks, and the stencil, are those of python_peers.  The product is left to cuBLAS.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from natural_kernels import MANDELBROT_STEPS
from python_peers.layernorm import run as layernorm
from python_peers.row_softmax import run as softmax
from python_peers.saxpy import run as saxpy
from python_peers.stencil_2d import run as stencil
from triton.language.extra import libdevice

__all__ = ["layernorm", "saxpy", "softmax", "stencil"]

jit: Any = triton.jit
BLOCK = 1024
MOST_STEPS: tl.constexpr = tl.constexpr(MANDELBROT_STEPS)


def _blocks(x):
    return (triton.cdiv(x.numel(), BLOCK),)


@jit
def _affine(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0 + 1.0, mask=i < n)


def affine(x, y):
    _affine[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _add(a, b, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


def add(a, b, y):
    _add[_blocks(y)](a, b, y, y.numel(), block=BLOCK)


add_rows = add


@jit
def _scale(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)


def scale_f16(x, y):
    _scale[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _widen(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(tl.float32), mask=i < n)


def widen(x, y):
    _widen[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _narrow(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = libdevice.rint(tl.load(x + i, mask=i < n) * 255.0)
    tl.store(y + i, tl.clamp(value, 0.0, 255.0).to(tl.uint8), mask=i < n)


def narrow(x, y):
    _narrow[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _exp(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)


def exp(x, y):
    _exp[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _log(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.log(tl.load(x + i, mask=i < n)), mask=i < n)


def log(x, y):
    _log[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _rsqrt(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.rsqrt(tl.load(x + i, mask=i < n)), mask=i < n)


def rsqrt(x, y):
    _rsqrt[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _sin(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.sin(tl.load(x + i, mask=i < n)), mask=i < n)


def sin(x, y):
    _sin[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _tanh(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, libdevice.tanh(tl.load(x + i, mask=i < n)), mask=i < n)


def tanh(x, y):
    _tanh[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _erf(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.erf(tl.load(x + i, mask=i < n)), mask=i < n)


def erf(x, y):
    _erf[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _pow(a, b, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, libdevice.pow(tl.load(a + i, mask=i < n), tl.load(b + i, mask=i < n)), mask=i < n)


def pow(a, b, y):
    _pow[_blocks(y)](a, b, y, y.numel(), block=BLOCK)


@jit
def _gelu_of(v):
    return 0.5 * v * (1.0 + libdevice.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))


@jit
def _gelu(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, _gelu_of(tl.load(x + i, mask=i < n)), mask=i < n)


def gelu(x, y):
    _gelu[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _polynomial(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n)
    total = tl.zeros([block], dtype=tl.float32)
    for k in tl.static_range(8, 0, -1):
        total = total * value + k
    tl.store(y + i, total, mask=i < n)


def polynomial(x, y):
    _polynomial[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _mandelbrot(re, im, steps, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    a, b = tl.load(re + i, mask=i < n), tl.load(im + i, mask=i < n)
    x, y = tl.zeros([block], dtype=tl.float32), tl.zeros([block], dtype=tl.float32)
    count = tl.zeros([block], dtype=tl.int32)
    inside = tl.full([block], 1, dtype=tl.int1)
    for _ in range(MOST_STEPS):
        inside = inside & (x * x + y * y <= 4.0)
        count += inside.to(tl.int32)
        next_x = x * x - y * y + a
        y = 2.0 * x * y + b
        x = next_x
    tl.store(steps + i, count, mask=i < n)


def mandelbrot(re, im, steps):
    _mandelbrot[_blocks(steps)](re, im, steps, steps.numel(), block=BLOCK)


@jit
def _add_bias(x, bias, y, n, columns, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n) + tl.load(bias + i % columns, mask=i < n)
    tl.store(y + i, value, mask=i < n)


def add_bias(x, bias, y):
    _add_bias[_blocks(x)](x, bias, y, x.numel(), x.shape[1], block=BLOCK)


@jit
def _bias_gelu(x, bias, y, n, columns, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n) + tl.load(bias + i % columns, mask=i < n)
    tl.store(y + i, _gelu_of(value), mask=i < n)


def bias_gelu(x, bias, y):
    _bias_gelu[_blocks(x)](x, bias, y, x.numel(), x.shape[1], block=BLOCK)


@jit
def _residual(x, skip, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.maximum(tl.load(x + i, mask=i < n), 0.0) + tl.load(skip + i, mask=i < n)
    tl.store(y + i, value, mask=i < n)


def residual(x, skip, y):
    _residual[_blocks(x)](x, skip, y, x.numel(), block=BLOCK)


@jit
def _smooth(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inner = (i > 0) & (i + 1 < n)
    total = tl.load(x + i - 1, mask=inner) + tl.load(x + i, mask=inner) + tl.load(x + i + 1, mask=inner)
    tl.store(y + i, total * 0.25, mask=inner)


def smooth(x, y):
    _smooth[_blocks(x)](x, y, x.numel(), block=BLOCK)


@jit
def _transpose(x, y, rows, columns, block: tl.constexpr):
    i = tl.program_id(1) * block + tl.arange(0, block)[:, None]
    j = tl.program_id(0) * block + tl.arange(0, block)[None, :]
    inside = (i < rows) & (j < columns)
    tl.store(y + j * rows + i, tl.load(x + i * columns + j, mask=inside), mask=inside)


def transpose(x, y):
    rows, columns = x.shape
    _transpose[triton.cdiv(columns, 32), triton.cdiv(rows, 32)](x, y, rows, columns, block=32)


@jit
def _gather(x, index, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    at = tl.load(index + i, mask=i < n)
    tl.store(y + i, tl.load(x + at, mask=i < n), mask=i < n)


def gather(x, index, y):
    _gather[_blocks(y)](x, index, y, y.numel(), block=BLOCK)


def _row(columns):
    """The block and the warps of a row, as in the tutorial of layer norm."""
    block = triton.next_power_of_2(columns)
    return {"block": block, "num_warps": min(max(block // 256, 1), 8)}


@jit
def _row_sum(x, y, columns, block: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, block)
    value = tl.load(x + row * columns + j, mask=j < columns, other=0.0)
    tl.store(y + row, tl.sum(value, axis=0))


def row_sum(x, y):
    _row_sum[(len(x),)](x, y, x.shape[1], **_row(x.shape[1]))


lane_sum = row_sum


@jit
def _row_max(x, y, columns, block: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, block)
    value = tl.load(x + row * columns + j, mask=j < columns, other=-float("inf"))
    tl.store(y + row, tl.max(value, axis=0))


def row_max(x, y):
    _row_max[(len(x),)](x, y, x.shape[1], **_row(x.shape[1]))


@jit
def _rms_norm(eps, x, weight, y, columns, block: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, block)
    value = tl.load(x + row * columns + j, mask=j < columns, other=0.0)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / columns + eps)
    weights = tl.load(weight + j, mask=j < columns)
    tl.store(y + row * columns + j, value * scale * weights, mask=j < columns)


def rms_norm(eps, x, weight, y):
    _rms_norm[(len(x),)](eps, x, weight, y, x.shape[1], **_row(x.shape[1]))


@jit
def _histogram(x, bins, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.atomic_add(bins + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


def histogram(x, bins):
    _histogram[_blocks(x)](x, bins.view(torch.int32), x.numel(), block=BLOCK)


@jit
def _count_zeros(x, total, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n, other=1)
    tl.atomic_add(total, tl.sum((value == 0).to(tl.int32), axis=0))


def count_zeros(x, total):
    _count_zeros[_blocks(x)](x, total.view(torch.int32), x.numel(), block=BLOCK)


@jit
def _dot(x, y, total, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    product = tl.load(x + i, mask=i < n, other=0.0) * tl.load(y + i, mask=i < n, other=0.0)
    tl.atomic_add(total, tl.sum(product, axis=0))


def dot_of_lanes(x, y, total):
    _dot[_blocks(x)](x, y, total, x.numel(), block=BLOCK)


dot_of_subgroups = dot_of_lanes
