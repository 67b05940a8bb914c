"""The cores of a chain as buffers: one after the other in @cores, or @core0, @core1, ... of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from math import prod

from ..ir.builder import Builder
from ..ir.types import DataType
from ..records import dataclass

__all__ = ["ChainSteps", "chain_steps", "largest_core"]


def largest_core(ranks: Sequence[int]) -> tuple[int, int]:
    """The rows and columns of the core with the most elements."""
    return max(pairwise(ranks), key=prod)


@dataclass(frozen=True, slots=True)
class ChainSteps:
    """`times` steps with cores of `rows` by `columns`, the first at element `start` of `buffer`, the others behind."""

    rows: int
    columns: int
    buffer: str
    start: int
    times: int

    @property
    def size(self) -> int:
        """Elements of a core."""
        return self.rows * self.columns


def chain_steps(b: Builder, ranks: Sequence[int], dtype: DataType, separate: bool) -> list[ChainSteps]:
    """Declares the buffers of the cores, from binding 1 on; consecutive steps that can be a loop are one item."""
    shapes = list(pairwise(ranks))
    if separate:
        for k, (rows, columns) in enumerate(shapes):
            b.buffer(f"core{k}", dtype, rows * columns, "read", 1 + k)
        return [ChainSteps(rows, columns, f"core{k}", 0, 1) for k, (rows, columns) in enumerate(shapes)]
    b.buffer("cores", dtype, sum(rows * columns for rows, columns in shapes), "read", 1)
    steps, start = [], 0
    for (rows, columns), group in groupby(shapes):
        times = len(list(group))
        steps.append(ChainSteps(rows, columns, "cores", start, times))
        start += rows * columns * times
    return steps
