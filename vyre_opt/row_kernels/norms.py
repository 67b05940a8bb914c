"""layer_norm and rms_norm of rows, and what they hand back to arrays whose gradients are wanted."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

import vyre_opt as vyre

from ..driver.operands import A, DispatcherLike
from ..lang import Read, Write, f32, u32
from ..lang.functions import Kernel
from .on_rows import Element, RowsCall, as_rows, on_rows

__all__ = ["layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward"]

LEAST_CHUNK, MOST_CHUNKS, ACROSS = 32, 256, 512
"""Rows whose products a workgroup sums, at least; the sums of so many chunks are added by one; and columns of a workgroup."""


# --- programs


@vyre.program
def layer_norm_of_rows(
    x: Read[Annotated[Element, :, :]],
    weight: Read[Element],
    bias: Read[Element],
    y: Write[Annotated[Element, :, :]],
    eps: f32,
) -> None:
    r = vyre.workgroup_id(0)
    row = f32(x[r, :])
    centred = row - vyre.sum(row) / f32(len(row))
    scale = vyre.rsqrt(vyre.sum(centred * centred) / f32(len(row)) + eps)
    y[r, :] = y.dtype(centred * scale * f32(weight[:]) + f32(bias[:]))


@vyre.program
def layer_norm_dx(
    dy: Read[Annotated[Element, :, :]],
    x: Read[Annotated[Element, :, :]],
    weight: Read[Element],
    dx: Write[Annotated[Element, :, :]],
    mean: Write[f32],
    scale: Write[f32],
    eps: f32,
) -> None:
    r = vyre.workgroup_id(0)
    row, n = f32(x[r, :]), f32(x.shape[1])
    middle = vyre.sum(row) / n
    centred = row - middle
    factor = vyre.rsqrt(vyre.sum(centred * centred) / n + eps)
    normed, grad = centred * factor, f32(weight[:]) * f32(dy[r, :])
    along, level = vyre.sum(normed * grad) / n, vyre.sum(grad) / n
    dx[r, :] = dx.dtype((grad - (normed * along + level)) * factor)
    mean[r] = middle
    scale[r] = factor


@vyre.program
def rms_norm_of_rows(
    x: Read[Annotated[Element, :, :]], weight: Read[Element], y: Write[Annotated[Element, :, :]], eps: f32
) -> None:
    r = vyre.workgroup_id(0)
    row = f32(x[r, :])
    scale = vyre.rsqrt(vyre.sum(row * row) / f32(len(row)) + eps)
    y[r, :] = y.dtype(row * scale * f32(weight[:]))


@vyre.program
def rms_norm_dx(
    dy: Read[Annotated[Element, :, :]],
    x: Read[Annotated[Element, :, :]],
    weight: Read[Element],
    dx: Write[Annotated[Element, :, :]],
    mean: Write[f32],
    scale: Write[f32],
    eps: f32,
) -> None:
    r = vyre.workgroup_id(0)
    row, n = f32(x[r, :]), f32(x.shape[1])
    factor = vyre.rsqrt(vyre.sum(row * row) / n + eps)
    grad = f32(weight[:]) * f32(dy[r, :])
    along = vyre.sum(row * factor * grad) / n
    dx[r, :] = dx.dtype((grad - row * factor * along) * factor)
    mean[r] = 0.0
    scale[r] = factor


@vyre.program
def sums_of_chunks(
    dy: Read[Annotated[Element, :, :]],
    x: Read[Annotated[Element, :, :]],
    mean: Read[f32],
    scale: Read[f32],
    dw: Write[Annotated[f32, :, :]],
    db: Write[Annotated[f32, :, :]],
    chunk: u32,
) -> None:
    """Sums over each chunk of rows: of dy times the rows as they were normed, and of dy."""
    first, j = vyre.workgroup_id(0) * chunk, vyre.workgroup_id(1) * ACROSS
    of_weight, of_bias = vyre.zeros((ACROSS,), f32), vyre.zeros((ACROSS,), f32)
    for i in range(first, min(first + chunk, x.shape[0])):
        grad = f32(dy.filled(0)[i, j : j + ACROSS])
        of_weight += grad * ((f32(x.filled(0)[i, j : j + ACROSS]) - mean[i]) * scale[i])
        of_bias += grad
    dw[vyre.workgroup_id(0), j : j + ACROSS] = of_weight
    db[vyre.workgroup_id(0), j : j + ACROSS] = of_bias


@vyre.program
def sum_of_chunks(parts: Read[Annotated[f32, :, :]], total: Write[Element]) -> None:
    j = vyre.workgroup_id(0) * ACROSS
    sums = vyre.zeros((ACROSS,), f32)
    for i in range(parts.shape[0]):
        sums += parts.filled(0)[i, j : j + ACROSS]
    total[j : j + ACROSS] = total.dtype(sums)


# --- rules


@on_rows("layer_norm", "x", "weight", "bias")
def _layer_norm(call: RowsCall, eps: float) -> None:
    for name in ("weight", "bias"):
        call.need(name, (call.columns,))
    y = call.result(call.first.shape)
    call.launch(
        layer_norm_of_rows, call.rows, as_rows(call["x"]), call["weight"], call["bias"], as_rows(y), eps
    )


@on_rows("rms_norm", "x", "weight")
def _rms_norm(call: RowsCall, eps: float) -> None:
    call.need("weight", (call.columns,))
    y = call.result(call.first.shape)
    call.launch(rms_norm_of_rows, call.rows, as_rows(call["x"]), call["weight"], as_rows(y), eps)


@on_rows("layer_norm_backward", "x", "dy", "weight")
def _layer_norm_backward(call: RowsCall, eps: float) -> None:
    _backward(call, layer_norm_dx, eps)


@on_rows("rms_norm_backward", "x", "dy", "weight")
def _rms_norm_backward(call: RowsCall, eps: float) -> None:
    _backward(call, rms_norm_dx, eps)


def _backward(call: RowsCall, kernel: Kernel, eps: float) -> None:
    """Results: dx, dw, db, and what launches hand to one another."""
    call.need("dy", call.first.shape)
    call.need("weight", (call.columns,))
    dx, dw, db = call.result(call.first.shape), call.result((call.columns,)), call.result((call.columns,))
    mean, scale = (call.result((call.rows,), "float32") for _ in range(2))
    chunk = max(LEAST_CHUNK, -(-call.rows // MOST_CHUNKS))
    chunks, across = -(-call.rows // chunk), -(-call.columns // ACROSS)
    parts = [call.result((chunks, call.columns), "float32") for _ in range(2)]
    grad, rows = as_rows(call["dy"]), as_rows(call["x"])
    call.launch(kernel, call.rows, grad, rows, call["weight"], as_rows(dx), mean, scale, eps)
    call.launch(sums_of_chunks, (chunks, across), grad, rows, mean, scale, *parts, chunk)
    for part, total in zip(parts, (dw, db), strict=True):
        call.launch(sum_of_chunks, across, part, total)


# --- functions on arrays


def layer_norm(
    x: A, weight: A, bias: A, eps: float = 1e-5, *, dispatcher: DispatcherLike | None = None, out: Any = None
) -> A:
    """Rows of mean 0 and variance 1, times `weight`, plus `bias`: (x - mean) / sqrt(variance + eps) * weight + bias.

    Args:
        x: (..., columns) of f32, f16 or bf16; means and variances are along the last axis, in f32.
        weight: (columns,), of the type of `x`.
        bias: (columns,), likewise.
        eps: added to each variance.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned.

    Returns:
        An array like `x`, of its shape, type, library and memory.

    Raises:
        BadInputs: for other types or shapes, before anything runs.

    Example:
        >>> x = np.array([[1, 3]], np.float32)
        >>> kernels.layer_norm(x, np.ones(2, np.float32), np.zeros(2, np.float32), 0.0).tolist()
        [[-1.0, 1.0]]
    """
    y: A = _layer_norm((x, weight, bias), dispatcher, out, eps)[0]
    return y


def layer_norm_backward(
    dy: A, x: A, weight: A, eps: float = 1e-5, *, dispatcher: DispatcherLike | None = None
) -> tuple[A, A, A]:
    """The gradients of `layer_norm` for x, weight and bias.

    Args:
        dy: (..., columns), the gradient of the result.
        x: of the shape and type of `dy`, as `layer_norm` had it.
        weight: (columns,), likewise.
        eps: as `layer_norm` had it.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        Arrays like `x`, `weight` and `weight`.  The sums over rows are in one order, whatever computes them.

    Raises:
        BadInputs: for other types or shapes, before anything runs.

    Example:
        >>> x, ones = np.array([[1, 3], [0, 4]], np.float32), np.ones((2, 2), np.float32)
        >>> [each.tolist() for each in kernels.layer_norm_backward(ones, x, ones[0], 0.0)]
        [[[0.0, 0.0], [0.0, 0.0]], [-2.0, 2.0], [2.0, 2.0]]
    """
    return _gradients(_layer_norm_backward, dy, x, weight, eps, dispatcher)


def rms_norm(
    x: A, weight: A, eps: float = 1e-5, *, dispatcher: DispatcherLike | None = None, out: Any = None
) -> A:
    """Rows divided by the root of the mean of their squares, times `weight`: x / sqrt(mean(x^2) + eps) * weight.

    Args:
        x: (..., columns) of f32, f16 or bf16; means are along the last axis, in f32.
        weight: (columns,), of the type of `x`.
        eps: added to each mean.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned.

    Returns:
        An array like `x`, of its shape, type, library and memory.

    Raises:
        BadInputs: for other types or shapes, before anything runs.

    Example:
        >>> kernels.rms_norm(np.array([[1, 7]], np.float32), np.array([5, 5], np.float32), 0.0).tolist()
        [[1.0, 7.0]]
    """
    y: A = _rms_norm((x, weight), dispatcher, out, eps)[0]
    return y


def rms_norm_backward(
    dy: A, x: A, weight: A, eps: float = 1e-5, *, dispatcher: DispatcherLike | None = None
) -> tuple[A, A]:
    """The gradients of `rms_norm` for x and weight.

    Args:
        dy: (..., columns), the gradient of the result.
        x: of the shape and type of `dy`, as `rms_norm` had it.
        weight: (columns,), likewise.
        eps: as `rms_norm` had it.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.

    Returns:
        Arrays like `x` and `weight`.  The sums over rows are in one order, whatever computes them.

    Raises:
        BadInputs: for other types or shapes, before anything runs.

    Example:
        >>> x, ones = np.array([[1, 7]], np.float32), np.ones((1, 2), np.float32)
        >>> kernels.rms_norm_backward(ones, x, ones[0], 0.0)[1].tolist()
        [0.20000000298023224, 1.399999976158142]
    """
    dx, dw, _ = _gradients(_rms_norm_backward, dy, x, weight, eps, dispatcher)
    return dx, dw


def _gradients(
    function: Any, dy: Any, x: Any, weight: Any, eps: float, dispatcher: DispatcherLike | None
) -> tuple[Any, Any, Any]:
    dx, dw, db, *_ = function((x, dy, weight), dispatcher, None, eps)
    if not prod(x.shape[:-1]):
        dw[...], db[...] = 0, 0
    return dx, dw, db
