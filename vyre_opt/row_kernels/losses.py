"""log_sum_exp and cross_entropy of rows."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np

import vyre_opt as vyre

from ..driver.operands import A, DispatcherLike, Like
from ..execution.dispatcher import BadInputs
from ..lang import Read, Write, f32, i32, i64, u8, u16, u32
from .on_rows import Element, RowsCall, as_line, as_rows, on_rows

__all__ = ["cross_entropy", "log_sum_exp"]

Label = TypeVar("Label", i32, i64, u8, u16, u32)
LABELS = ("int32", "int64", "uint8", "uint16", "uint32")
INFINITY = math.inf


@vyre.program
def log_sum_exp_of_rows(x: Read[Annotated[Element, :, :]], y: Write[f32]) -> None:
    r = vyre.workgroup_id(0)
    row = f32(x[r, :])
    most = vyre.max(row)
    origin = vyre.where(vyre.abs(most) < INFINITY, most, 0.0)  # of a row of -inf alone, 0
    y[r] = vyre.log(vyre.sum(vyre.exp(row - origin))) + origin


@vyre.program
def cross_entropy_of_rows(x: Read[Annotated[Element, :, :]], labels: Read[Label], y: Write[f32]) -> None:
    r = vyre.workgroup_id(0)
    row = f32(x[r, :])
    most = vyre.max(row)
    origin = vyre.where(vyre.abs(most) < INFINITY, most, 0.0)
    total = vyre.log(vyre.sum(vyre.exp(row - origin))) + origin
    y[r] = total - f32(x[r, labels[r]])


@on_rows("log_sum_exp", "x")
def _log_sum_exp(call: RowsCall) -> None:
    _need_columns(call)
    y = call.result(call.shape, "float32")
    call.launch(log_sum_exp_of_rows, call.rows, as_rows(call["x"]), as_line(y))


@on_rows("cross_entropy", "x", "labels")
def _cross_entropy(call: RowsCall) -> None:
    _need_columns(call)
    labels = call.operands["labels"]
    if tuple(labels.shape) == tuple(call.first.shape):
        raise BadInputs(
            "cross_entropy: labels has a number for each column; a label is the number of a column: pass labels.argmax(-1)"
        )
    call.need("labels", call.shape, of_kind=False)
    if labels.kind not in LABELS:
        raise BadInputs(f"cross_entropy: labels holds {', '.join(LABELS)}, not {labels.kind}")
    if not call.backend.on_gpu:
        call.check(call["labels"], partial(_need_labels, call.columns))
    y = call.result(call.shape, "float32")
    call.launch(cross_entropy_of_rows, call.rows, as_rows(call["x"]), as_line(call["labels"]), as_line(y))


def log_sum_exp(x: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Like[A]:
    """The logarithm of the sum of exp(x) along the last axis, which does not overflow.

    Args:
        x: (..., columns) of f32, f16 or bf16, computed in f32.  A row of -inf gives -inf, one with +inf +inf, one with a NaN NaN.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array of f32 that gets the result, and is returned.

    Returns:
        An array of f32 of shape (...), of the library and memory of `x`.

    Raises:
        BadInputs: for other types or shapes, and rows without elements, before anything runs.

    Example:
        >>> kernels.log_sum_exp(np.array([[1000, 1000 - np.log(3)]], np.float32)).round(3).tolist()
        [1000.2880249023438]
    """
    y: A = _log_sum_exp((x,), dispatcher, out)[0]
    return y


def cross_entropy(x: A, labels: A, *, dispatcher: DispatcherLike | None = None, out: Any = None) -> Like[A]:
    """The cross entropy of each row of logits and its label: log(sum(exp(x))) - x[label].

    Args:
        x: (..., columns) of f32, f16 or bf16, computed in f32.
        labels: (...) of i32, i64, u8, u16 or u32, below columns.
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array of f32 that gets the result, and is returned.

    Returns:
        An array of f32 of shape (...), of the library and memory of `x`, without reduction.

    Raises:
        BadInputs: for other types or shapes, and rows without elements, before anything runs; in main memory for a label that no column has.
        ProgramError: for such a label on a GPU, where accesses are checked.

    Example:
        >>> kernels.cross_entropy(np.zeros((1, 4), np.float32), np.array([2], np.int32)).round(4).tolist()
        [1.386299967765808]
    """
    y: A = _cross_entropy((x, labels), dispatcher, out)[0]
    return y


def _need_columns(call: RowsCall) -> None:
    if not call.columns:
        raise BadInputs(f"{call.name}: x has rows without elements")


def _need_labels(columns: int, labels: Any) -> None:
    """Raise BadInputs for a label that no column has."""
    labels = np.asarray(labels)
    wrong = (labels < 0) | (labels >= columns)
    if wrong.any():
        row = int(wrong.argmax())
        raise BadInputs(
            f"cross_entropy: label {labels.reshape(-1)[row]} of row {row} is no column, which are 0 to {columns - 1}: leave such rows "
            f"out, rows = (labels >= 0) & (labels < {columns}), and pass x[rows], labels[rows]"
        )
