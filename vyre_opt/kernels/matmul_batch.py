"""Stacks of matrices in the place of A and B, as numpy.matmul takes them: their leading extents broadcast.

    a [2, 3, rows, depth]    b [3, depth, columns]    c [2, 3, rows, columns]

    axes of C        extent    step in A    step in B        steps are counted in matrices,
                          2            3            0        and 0 along an axis that is broadcast
                          3            1            1

Stacks are stored matrix by matrix, so that a matrix of one is a run of rows.  Axes along which both steps continue
those of the next one are merged with it, and become rows where A continues and B is the same: of a stack times one
matrix no axis is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from math import prod

from ..ir.builder import Builder
from ..ir.program import Value
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["Batch", "BatchAxis", "batch_of", "first_rows", "row_behind"]


@dataclass(frozen=True)
class BatchAxis:
    """Indices along an axis, and how many matrices of A and of B lie from one to the next."""

    extent: int
    a_step: int
    b_step: int


@dataclass(frozen=True)
class Batch:
    """Matrices of C, each of `rows`, along `axes`, the outermost first."""

    rows: int
    axes: tuple[BatchAxis, ...] = ()

    @property
    def count(self) -> int:
        """Matrices of C."""
        return prod(axis.extent for axis in self.axes)

    @property
    def params(self) -> dict[str, int]:
        """The runtime scalars that `first_rows` reads."""
        sizes = {"rows": self.rows} if self.axes else {}
        for number, axis in enumerate(self.axes):
            sizes |= {f"{name}{number}": size for name, size in vars(axis).items()}
        return sizes


def batch_of(a_extents: Sequence[int], b_extents: Sequence[int], rows: int) -> Batch:
    """The fewest axes of a product of stacks, whose extents broadcast and are at least 1."""
    axes: list[BatchAxis] = []
    steps = zip_longest(_steps(a_extents), _steps(b_extents), fillvalue=(1, 0))
    for (a_extent, a_step), (b_extent, b_step) in reversed(list(steps)):
        inner = BatchAxis(max(a_extent, b_extent), a_step, b_step)
        if inner.extent == 1:
            continue
        if axes and (axes[-1].a_step, axes[-1].b_step) == (a_step * inner.extent, b_step * inner.extent):
            inner = BatchAxis(axes.pop().extent * inner.extent, a_step, b_step)
        axes.append(inner)
    if axes and (axes[-1].a_step, axes[-1].b_step) == (1, 0):
        more = axes.pop().extent
        rows *= more
        axes = [replace(axis, a_step=axis.a_step // more) for axis in axes]
    return Batch(rows, tuple(axes))


def _steps(extents: Sequence[int]) -> list[tuple[int, int]]:
    """Extents and steps, the innermost axis first."""
    inner = list(extents[::-1])
    return [(extent, prod(inner[:k]) if extent > 1 else 0) for k, extent in enumerate(inner)]


def first_rows(b: Builder, axes: int, number: Value, rows: Value, depth: Value | int) -> dict[str, Value]:
    """First rows of matrix `number` of C and of its factors, by the names of their buffers."""
    starts: dict[str, Value] = {"c": b.mul(number, rows, name="c_first")}
    matrices = {"a": b.const(0), "b": b.const(0)}
    for axis in reversed(range(axes)):
        extent = b.param(f"extent{axis}", DataType.U32)
        index, number = b.rem(number, extent), b.div(number, extent)
        for buffer, matrix in matrices.items():
            step = b.param(f"{buffer}_step{axis}", DataType.U32)
            matrices[buffer] = b.add(matrix, b.mul(index, step))
    starts["a"] = b.mul(matrices["a"], rows, name="a_first")
    starts["b"] = b.mul(matrices["b"], depth, name="b_first")
    return starts


def row_behind(b: Builder, first: Value | None, row: Value) -> Value:
    """`row` of the matrix that begins at row `first` of its buffer; None: the first matrix."""
    return row if first is None else b.add(first, row)
