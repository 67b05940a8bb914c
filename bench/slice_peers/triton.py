"""By Triton: a row a program in a block of the next power of two, as its tutorials do; tensors are torch's."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from slice_kernels import BLOCK, EPS, KEPT
from slice_kernels import HALF_ROOT as _HALF_ROOT

jit: Any = triton.jit
HALF_ROOT = tl.constexpr(_HALF_ROOT)
LOG2_E = 1.4426950408889634
MOST = 65536
"""Columns of a block, at most."""


def _row(columns: int) -> dict[str, int]:
    block = triton.next_power_of_2(columns)
    if block > MOST:
        raise ValueError(f"a row of {columns} has no block")
    return {"block": block, "num_warps": min(max(block // 256, 1), 16)}


@jit
def _softmax(x, y, columns, block: tl.constexpr):
    start, j = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, block)
    row = tl.load(x + start + j, mask=j < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + start + j, e / tl.sum(e, axis=0), mask=j < columns)


def softmax(x, y):
    _softmax[(len(x),)](x, y, x.shape[1], **_row(x.shape[1]))


@jit
def _layernorm(x, w, b, y, columns, eps, block: tl.constexpr):
    start, j = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, block)
    inside = j < columns
    row = tl.load(x + start + j, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, row - tl.sum(row, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    scaled = centred * scale * tl.load(w + j, mask=inside).to(tl.float32)
    tl.store(y + start + j, scaled + tl.load(b + j, mask=inside).to(tl.float32), mask=inside)


def layernorm(x, w, b, y):
    _layernorm[(len(x),)](x, w, b, y, x.shape[1], EPS, **_row(x.shape[1]))


@jit
def _layernorm_backward(dy, x, w, mean, scale, dx, columns, block: tl.constexpr):
    r, j = tl.program_id(0).to(tl.int64), tl.arange(0, block)
    start, inside = r * columns, j < columns
    row = tl.load(x + start + j, mask=inside, other=0.0).to(tl.float32)
    normed = tl.where(inside, (row - tl.load(mean + r)) * tl.load(scale + r), 0.0)
    weight = tl.load(w + j, mask=inside, other=0.0).to(tl.float32)
    grad = weight * tl.load(dy + start + j, mask=inside, other=0.0).to(tl.float32)
    along, level = tl.sum(normed * grad, axis=0) / columns, tl.sum(grad, axis=0) / columns
    tl.store(dx + start + j, (grad - (normed * along + level)) * tl.load(scale + r), mask=inside)


def layernorm_backward(dy, x, w, mean, scale, dx):
    _layernorm_backward[(len(x),)](dy, x, w, mean, scale, dx, x.shape[1], **_row(x.shape[1]))


@jit
def _rms_norm(x, w, y, columns, eps, block: tl.constexpr):
    start, j = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, block)
    row = tl.load(x + start + j, mask=j < columns, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(row * row, axis=0) / columns + eps)
    tl.store(y + start + j, row * scale * tl.load(w + j, mask=j < columns).to(tl.float32), mask=j < columns)


def rms_norm(x, w, y):
    _rms_norm[(len(x),)](x, w, y, x.shape[1], EPS, **_row(x.shape[1]))


@jit
def _cross_entropy(x, wanted, loss, columns, block: tl.constexpr):
    r, j = tl.program_id(0).to(tl.int64), tl.arange(0, block)
    start = r * columns
    row = tl.load(x + start + j, mask=j < columns, other=-float("inf")).to(tl.float32)
    most = tl.max(row, axis=0)
    total = tl.log(tl.sum(tl.exp(row - most), axis=0)) + most
    tl.store(loss + r, total - tl.load(x + start + tl.load(wanted + r)).to(tl.float32))


def cross_entropy(x, wanted, loss):
    _cross_entropy[(len(x),)](x, wanted, loss, x.shape[1], **_row(x.shape[1]))


@jit
def _cumsum(x, y, columns, block: tl.constexpr):
    start, j = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, block)
    row = tl.load(x + start + j, mask=j < columns, other=0.0).to(tl.float32)
    tl.store(y + start + j, tl.cumsum(row, axis=0), mask=j < columns)


def cumsum(x, y):
    _cumsum[(len(x),)](x, y, x.shape[1], **_row(x.shape[1]))


@jit
def _argmax(x, y, columns, block: tl.constexpr):
    start, j = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, block)
    row = tl.load(x + start + j, mask=j < columns, other=-float("inf"))
    tl.store(y + tl.program_id(0), tl.argmax(row, axis=0))


def argmax(x, y):
    _argmax[(len(x),)](x, y, x.shape[1], **_row(x.shape[1]))


@jit
def _dropout(x, y, seed, n, kept: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n).to(tl.float32)
    tl.store(y + i, tl.where(tl.rand(seed, i) < kept, value * (1.0 / kept), 0.0), mask=i < n)


def dropout(x, y, seed):
    _dropout[(triton.cdiv(x.numel(), BLOCK),)](x, y, seed, x.numel(), kept=KEPT, block=BLOCK)


def _configs() -> list[Any]:
    """Those of its tutorial for matrices, and some for less depth and more stages."""
    sizes = [
        (128, 256, 64, 3, 8), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4), (64, 128, 32, 4, 4),
        (128, 128, 64, 4, 8), (128, 128, 64, 3, 4), (256, 128, 64, 3, 8), (64, 64, 64, 4, 4), (64, 32, 32, 5, 2),
    ]  # fmt: skip
    return [
        triton.Config({"rows": m, "cols": n, "deep": k, "group": 8}, num_stages=stages, num_warps=warps)
        for m, n, k, stages, warps in sizes
    ]


@triton.autotune(_configs(), key=["m", "n", "k", "matrices"])
@jit
def _matmul(
    a, b, bias, c, m, n, k, matrices, gelu: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
    deep: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    number, matrix = tl.program_id(0), tl.program_id(1).to(tl.int64)
    across = tl.cdiv(n, cols)
    first = number // (group * across) * group
    height = min(tl.cdiv(m, rows) - first, group)
    row = (first + number % (group * across) % height) * rows + tl.arange(0, rows)
    column = number % (group * across) // height * cols + tl.arange(0, cols)
    depth = tl.arange(0, deep)
    at = a + matrix * m * k + (row % m)[:, None] * k + depth[None, :]
    bt = b + matrix * k * n + depth[:, None] * n + (column % n)[None, :]
    total = tl.zeros((rows, cols), dtype=tl.float32)
    for start in range(0, k, deep):
        x = tl.load(at, mask=depth[None, :] < k - start, other=0.0)
        y = tl.load(bt, mask=depth[:, None] < k - start, other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
        at += deep
        bt += deep * n
    if gelu:
        total += tl.load(bias + column % n)[None, :].to(tl.float32)
        total = 0.5 * total * (1.0 + tl.erf(total * HALF_ROOT))
    inside = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c + matrix * m * n + row[:, None] * n + column[None, :], total, mask=inside)


def _products(a, b, bias, c, gelu):
    matrices, m, k, n = a.numel() // (a.shape[-1] * a.shape[-2]), a.shape[-2], a.shape[-1], b.shape[-1]

    def grid(meta):
        return triton.cdiv(m, meta["rows"]) * triton.cdiv(n, meta["cols"]), matrices

    _matmul[grid](a, b, bias, c, m, n, k, matrices, gelu)


def matmul_gelu(a, b, bias, c):
    _products(a, b, bias, c, True)


def batched_matmul(a, b, c):
    _products(a, b, b, c, False)


def _attention_configs() -> list[Any]:
    sizes = [(64, 32, 4), (64, 64, 4), (128, 32, 4), (128, 64, 4), (128, 64, 8), (128, 128, 8)]
    return [
        triton.Config({"rows": rows, "cols": cols}, num_warps=warps, num_stages=stages)
        for rows, cols, warps in sizes
        for stages in (2, 3, 4)
    ]


@triton.autotune(_attention_configs(), key=["length", "size", "causal"])
@jit
def _attention(
    q, k, v, y, scale, length, size: tl.constexpr, causal: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr
):  # fmt: skip
    i, head = tl.program_id(0) * rows, tl.program_id(1).to(tl.int64) * length * size
    row, column, d = i + tl.arange(0, rows), tl.arange(0, cols), tl.arange(0, size)
    at = head + row[:, None] * size + d[None, :]
    query = tl.load(q + at, mask=row[:, None] < length, other=0.0)
    most, total = tl.full((rows,), -1e30, tl.float32), tl.zeros((rows,), tl.float32)
    weighted = tl.zeros((rows, size), tl.float32)
    end = tl.minimum(i + rows, length) if causal else length
    whole = i // cols * cols if causal else length // cols * cols
    for j in range(0, end, cols):
        place = j + column
        if j < whole:
            keys = tl.load(k + head + place[None, :] * size + d[:, None])
            values = tl.load(v + head + place[:, None] * size + d[None, :])
        else:
            keys = tl.load(
                k + head + place[None, :] * size + d[:, None], mask=place[None, :] < length, other=0.0
            )
            values = tl.load(
                v + head + place[:, None] * size + d[None, :], mask=place[:, None] < length, other=0.0
            )
        score = tl.dot(query, keys, input_precision="ieee")
        if j >= whole:
            inside = place[None, :] < length
            if causal:
                inside = inside & (place[None, :] <= row[:, None])
            score = tl.where(inside, score, -1e30)
        largest = tl.maximum(most, tl.max(score, 1) * scale)
        power = tl.exp2(score * scale - largest[:, None])
        fading = tl.exp2(most - largest)
        total = total * fading + tl.sum(power, 1)
        weighted = tl.dot(power.to(values.dtype), values, weighted * fading[:, None], input_precision="ieee")
        most = largest
    tl.store(y + at, (weighted / total[:, None]).to(y.dtype.element_ty), mask=row[:, None] < length)


def _attention_of(q, k, v, y, causal):
    heads, length, size = q.shape

    def grid(block):
        return triton.cdiv(length, block["rows"]), heads

    _attention[grid](q, k, v, y, size**-0.5 * LOG2_E, length, size, causal)


def attention(q, k, v, y):
    _attention_of(q, k, v, y, False)


def attention_causal(q, k, v, y):
    _attention_of(q, k, v, y, True)


def lines(name: str) -> int:
    """Of the source of a kernel, without what launches it."""
    shared = next((each for each in ("matmul", "attention") if each in name), name)
    function = globals()[f"_{shared}"]
    source = function.fn.src if isinstance(function, triton.runtime.Autotuner) else function.src
    return sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("@"))


__all__ = ["lines", "torch"]
