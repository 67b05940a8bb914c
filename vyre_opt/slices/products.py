"""Products of blocks: both go through workgroup memory, and each invocation has its elements of the result in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program import Value
from ..ir.types import DataType
from .elements import Elements
from .layout import GROUP, Layout
from .nodes import Extent, Held, Node

__all__ = ["product"]


def product(
    elements: Elements, a: Node, c: Node, total: Node | None, dtype: DataType, extents: Sequence[Extent]
) -> Held:
    """total + a @ c, whose products are added in the order of the depth, each with one rounding."""
    rows, depth, columns = (extent.number or 0 for extent in (extents[0], a.extents[1], extents[1]))
    layout = elements.layout_of((rows, columns))
    left, right = elements.written("left", a, rows * depth), elements.written("right", c, depth * columns)
    sums = None if total is None else [v for group in elements.of_layout(total, layout) for v in group]
    values = _Product(elements, layout, (left, right), depth, dtype.element).values(sums)
    return Held(dtype, extents, layout, values)


class _Product:
    """`places`: where the first elements of an invocation's rows are in the left factor, and its columns in each row of the right one."""

    def __init__(
        self, elements: Elements, layout: Layout, factors: tuple[str, str], depth: int, element: DataType
    ) -> None:
        self.elements, self.b, self.layout = elements, elements.b, layout
        (self.left, self.right), self.depth, self.element = factors, depth, element
        groups, b = elements.groups(layout), self.b
        # where there is no element, it is computed like the last one
        is_partial = layout.row_rounds * layout.row_lanes > layout.rows
        heads = [group.position(0, 2)[0] for group in groups if group.place[1] == 0]
        self.rows = [b.mul(b.min(h, layout.rows - 1) if is_partial else h, depth) for h in heads]
        is_partial = layout.column_rounds * layout.column_lanes * layout.width > layout.columns
        places = [place for group in groups if group.place[0] == 0 for place in group.columns]
        self.columns = [b.min(place, layout.columns - 1) if is_partial else place for place in places]

    def values(self, totals: Sequence[Value] | None) -> dict[tuple[int, int], Sequence[Value]]:
        """Values of each place, added to the totals of all places in order."""
        b, width = self.b, self.layout.width
        step = GROUP if self.depth % GROUP == 0 else 1
        zero = b.const(-0.0 if self.element.is_float else 0, self.element)
        with b.for_(0, self.depth, step, carry=totals or [zero] * self.layout.held) as loop:
            sums: list[Value] = list(loop.args)
            # of each row the next elements side by side, as vectors
            factors = [
                [self.load(self.left, b.add(start, loop.index), k) for k in range(step)]
                for start in self.rows
            ]
            across = b.mul(loop.index, self.layout.columns)
            for k in range(step):
                others = [
                    self.load(self.right, b.add(across, place), k * self.layout.columns)
                    for place in self.columns
                ]
                sums = [
                    self.added(sums[number], factor[k], other)
                    for number, (factor, other) in enumerate((f, o) for f in factors for o in others)
                ]
            loop.yield_(*sums)
        return {
            place: loop.results[k * width : (k + 1) * width] for k, place in enumerate(self.layout.places)
        }

    def load(self, buffer: str, at: Value, distance: int) -> Value:
        return self.elements.cast(self.b.load(buffer, self.elements.moved_by(at, distance)), self.element)

    def added(self, total: Value, factor: Value, other: Value) -> Value:
        b = self.b
        return b.fma(factor, other, total) if self.element.is_float else b.add(total, b.mul(factor, other))
