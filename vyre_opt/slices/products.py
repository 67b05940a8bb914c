"""Products of blocks by lanes: factors are in workgroup memory, and each invocation has its sums in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program import Value
from ..ir.types import DataType
from ..records import dataclass
from .elements import Elements
from .layout import GROUP, Extent, Layout
from .nodes import Node, RegisterNode

__all__ = ["Factor", "product"]

UNROLLED = 4
"""Groups of positions of the depth without a loop, for factors in tiles: loads of the next group overlap products."""


@dataclass(frozen=True)
class Factor:
    """A factor in workgroup memory: row by row in a buffer of one dimension, or at a stage of a tile buffer."""

    buffer: str
    columns: int
    stage: Value | None = None


def product(
    elements: Elements,
    layout: Layout,
    factors: tuple[Factor, Factor],
    total: Node | None,
    dtype: DataType,
    extents: Sequence[Extent],
) -> RegisterNode:
    """total + a @ c, with products added in the order of the depth, each with one rounding (fma)."""
    sums = None if total is None else [v for group in elements.of_layout(total, layout) for v in group]
    return RegisterNode(
        dtype, extents, layout, _Product(elements, layout, factors, dtype.element).values(sums)
    )


class _Product:
    """`rows`, `columns`: rows of the left factor and columns of the right one for an invocation's sums."""

    def __init__(
        self, elements: Elements, layout: Layout, factors: tuple[Factor, Factor], element: DataType
    ) -> None:
        self.elements, self.b, self.layout = elements, elements.b, layout
        (self.left, self.right), self.element = factors, element
        self.depth = self.left.columns
        self.unrolled = UNROLLED if self.left.stage is not None else 1
        groups, b = elements.groups(layout), self.b
        # an invocation beyond the edge computes the last row or column again
        is_partial = layout.row_rounds * layout.row_lanes > layout.rows
        heads = [group.position(0, 2)[0] for group in groups if group.place[1] == 0]
        self.rows = [b.min(h, layout.rows - 1) if is_partial else h for h in heads]
        is_partial = layout.column_rounds * layout.column_lanes * layout.width > layout.columns
        places = [place for group in groups if group.place[0] == 0 for place in group.columns]
        self.columns = [b.min(place, layout.columns - 1) if is_partial else place for place in places]

    def values(self, totals: Sequence[Value] | None) -> dict[tuple[int, int], Sequence[Value]]:
        """Values of each place, added to the totals of all places in order."""
        b, width = self.b, self.layout.width
        step = next(step for step in (self.unrolled * GROUP, GROUP, 1) if self.depth % step == 0)
        zero = b.const(-0.0 if self.element.is_float else 0, self.element)
        starts = [self.start(self.left, row) for row in self.rows]
        with b.for_(0, self.depth, step, carry=totals or [zero] * self.layout.registers) as loop:
            sums: Sequence[Value] = loop.args
            for ahead in range(0, step, GROUP):
                first = self.elements.offset_by(loop.index, ahead)
                sums = self.multiply(starts, first, min(GROUP, step), sums)
            loop.yield_(*sums)
        return {
            place: loop.results[k * width : (k + 1) * width] for k, place in enumerate(self.layout.places)
        }

    def multiply(
        self, starts: Sequence[Value], first: Value, count: int, sums: Sequence[Value]
    ) -> Sequence[Value]:
        """Add the products at `count` positions of the depth; those of a row are adjacent, so that they load as vectors."""
        places = [self.elements.offset_by(first, k) for k in range(count)]
        left = [[self.load(self.left, start, place) for place in places] for start in starts]
        for k, place in enumerate(places):
            across = self.start(self.right, place)
            right = [self.load(self.right, across, column) for column in self.columns]
            pairs = ((factor[k], other) for factor in left for other in right)
            sums = [self.multiply_add(total, *pair) for total, pair in zip(sums, pairs, strict=True)]
        return sums

    def start(self, factor: Factor, row: Value) -> Value:
        """Row of a factor, or the index where it begins in a buffer of one dimension."""
        return self.b.mul(row, factor.columns) if factor.stage is None else row

    def load(self, factor: Factor, start: Value, column: Value) -> Value:
        b, stage = self.b, factor.stage
        at = (b.add(start, column),) if stage is None else (stage, start, column)
        return self.elements.cast(b.load(factor.buffer, at), self.element)

    def multiply_add(self, total: Value, factor: Value, right: Value) -> Value:
        b = self.b
        return b.fma(factor, right, total) if self.element.is_float else b.add(total, b.mul(factor, right))
