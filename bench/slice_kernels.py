"""Kernels of rows and blocks as slices say them, in f32 and bf16: what slices.py measures."""

from typing import Any

import vyre_opt as vyre
from vyre_opt import Read, Write, bf16, f32, i32, u32
from vyre_opt.lang.functions import Kernel

EPS, KEPT = 1e-5, 0.9
BLOCK = 1024
HALF_ROOT = 0.5**0.5
FAST = ("afn",)
BLOCKS = {"m": (128, 64), "n": (128, 256, 64, 32), "k": (64,)}
F32_BLOCKS = {"m": (64, 128, 32, 16), "n": (64, 32, 16), "k": (32, 64)}


def of_type(dtype: Any) -> dict[str, Kernel]:
    """The kernels for arrays of a type, by name; sums are of f32."""
    Rows, Row, Out = Read[dtype[:, :]], Read[dtype], Write[dtype[:, :]]  # noqa: N806

    @vyre.program
    def softmax(x: Rows, y: Out):
        r = vyre.workgroup_id(0)
        row = f32(x[r, :])
        e = vyre.exp(row - vyre.max(row))
        y[r, :] = dtype(e / vyre.sum(e))

    @vyre.program
    def layernorm(x: Rows, w: Row, b: Row, y: Out):
        r = vyre.workgroup_id(0)
        row = f32(x[r, :])
        centred = row - vyre.sum(row) / f32(len(row))
        scale = vyre.rsqrt(vyre.sum(centred * centred) / f32(len(row)) + EPS)
        y[r, :] = dtype(centred * scale * f32(w[:]) + f32(b[:]))

    @vyre.program
    def layernorm_backward(dy: Rows, x: Rows, w: Row, mean: Read[f32], scale: Read[f32], dx: Out):
        r = vyre.workgroup_id(0)
        normed = (f32(x[r, :]) - mean[r]) * scale[r]
        grad = f32(w[:]) * f32(dy[r, :])
        n = f32(len(normed))
        along, level = vyre.sum(normed * grad) / n, vyre.sum(grad) / n
        dx[r, :] = dtype((grad - (normed * along + level)) * scale[r])

    @vyre.program
    def rms_norm(x: Rows, w: Row, y: Out):
        r = vyre.workgroup_id(0)
        row = f32(x[r, :])
        scale = vyre.rsqrt(vyre.sum(row * row) / f32(len(row)) + EPS)
        y[r, :] = dtype(row * scale * f32(w[:]))

    @vyre.program
    def cross_entropy(x: Rows, wanted: Read[i32], loss: Write[f32]):
        r = vyre.workgroup_id(0)
        row = f32(x[r, :])
        most = vyre.max(row)
        loss[r] = vyre.log(vyre.sum(vyre.exp(row - most))) + most - f32(x[r, wanted[r]])

    @vyre.program
    def cumsum(x: Rows, y: Out):
        r = vyre.workgroup_id(0)
        y[r, :] = vyre.cumsum(x[r, :])

    @vyre.program
    def argmax(x: Rows, y: Write[i32]):
        r = vyre.workgroup_id(0)
        y[r] = i32(vyre.argmax(x[r, :]))

    @vyre.program
    def dropout(x: Row, y: Write[dtype], seed: u32):
        i = vyre.workgroup_id(0) * BLOCK
        keeps = vyre.rand(seed, i + vyre.arange(BLOCK)) < KEPT
        y[i : i + BLOCK] = dtype(vyre.where(keeps, f32(x.filled(0)[i : i + BLOCK]) * (1.0 / KEPT), 0.0))

    kernels = softmax, layernorm, layernorm_backward, rms_norm, cross_entropy, cumsum, argmax, dropout
    fast = {f"{kernel.function.__name__}_fast": _fast(kernel) for kernel in (softmax, cross_entropy)}
    return {**{kernel.function.__name__: kernel for kernel in kernels}, **fast}


def _fast(kernel: Kernel) -> Kernel:
    """With the flags under which the peers compute."""
    return vyre.program(fastmath=("afn", "arcp", "contract"))(kernel.function)


def _is_nearly_square(block: Any) -> Any:
    return (block["m"] <= 2 * block["n"]) & (block["n"] <= 2 * block["m"])


def _is_deep_if_small(block: Any) -> Any:
    """Of f32 deep blocks are for results of few blocks."""
    return (block["k"] == 64) == (block["m"] * block["n"] <= 512)


def products_of(dtype: Any) -> dict[str, Any]:
    """Products of matrices for arrays of a type, with sums of f32, by name; the sizes of their blocks are measured."""
    Matrix, Out = Read[dtype[:, :]], Write[dtype[:, :]]  # noqa: N806
    Stack, OutStack = Read[dtype[:, :, :]], Write[dtype[:, :, :]]  # noqa: N806
    blocks, constraints = BLOCKS, [_is_nearly_square]
    if dtype is not bf16:
        blocks, constraints = F32_BLOCKS, [_is_nearly_square, _is_deep_if_small]

    @vyre.tunable(**blocks, constraints=constraints)
    def matmul_gelu(m, n, k):
        @vyre.program
        def matmul_gelu(a: Matrix, b: Matrix, bias: Read[dtype], c: Out):
            i, j = vyre.workgroup_id(0) * m, vyre.workgroup_id(1) * n
            total = vyre.zeros((m, n), f32)
            for at in range(0, a.shape[1], k):
                total += a.filled(0)[i : i + m, at : at + k] @ b.filled(0)[at : at + k, j : j + n]
            x = total + f32(bias.filled(0)[j : j + n])
            c[i : i + m, j : j + n] = dtype(0.5 * x * (1.0 + vyre.erf(x * HALF_ROOT, fastmath=FAST)))

        return matmul_gelu

    @vyre.tunable(**blocks, constraints=constraints)
    def batched_matmul(m, n, k):
        @vyre.program
        def batched_matmul(a: Stack, b: Stack, c: OutStack):
            i, j, h = vyre.workgroup_id(0) * m, vyre.workgroup_id(1) * n, vyre.workgroup_id(2)
            total = vyre.zeros((m, n), f32)
            for at in range(0, a.shape[2], k):
                total += a.filled(0)[h, i : i + m, at : at + k] @ b.filled(0)[h, at : at + k, j : j + n]
            c[h, i : i + m, j : j + n] = dtype(total)

        return batched_matmul

    return {"matmul_gelu": matmul_gelu, "batched_matmul": batched_matmul}


KERNELS = {"f32": of_type(f32), "bf16": of_type(bf16)}
PRODUCTS = {"f32": products_of(f32), "bf16": products_of(bf16)}
