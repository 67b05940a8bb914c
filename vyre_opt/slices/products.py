"""Products of blocks: both go through workgroup memory, and each invocation has its elements of the result in registers."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program import Value
from ..ir.types import DataType
from .elements import Elements
from .nodes import Extent, Held, Node

__all__ = ["product"]


def product(elements: Elements, a: Node, c: Node, dtype: DataType, extents: Sequence[Extent]) -> Held:
    """a @ c, whose products are added in the order of the depth, each with one rounding."""
    b, element = elements.b, dtype.element
    rows, depth, columns = (extent.number or 0 for extent in (extents[0], a.extents[1], extents[1]))
    layout = elements.layout_of((rows, columns))
    left, right = elements.written("left", a, rows * depth), elements.written("right", c, depth * columns)
    firsts = [group for group in elements.groups(layout) if group.place[0] == 0]
    heads = [group for group in elements.groups(layout) if group.place[1] == 0]
    # where there is no element, it is computed like the last one
    row_starts = [b.mul(_within(elements, head.position(0, 2)[0], rows), depth) for head in heads]
    places = [[_within(elements, each, columns) for each in first.columns] for first in firsts]
    zero = b.const(-0.0 if element.is_float else 0, element)
    size = len(layout.places) * layout.width
    with b.for_(0, depth, carry=[zero] * size) as loop:
        across = b.mul(loop.index, columns)
        factors = [elements.cast(b.load(left, b.add(start, loop.index)), element) for start in row_starts]
        others = [
            [elements.cast(b.load(right, b.add(across, place)), element) for place in group]
            for group in places
        ]
        sums: list[Value] = []
        for factor in factors:
            for group in others:
                for other in group:
                    total = loop.args[len(sums)]
                    sums.append(
                        b.fma(factor, other, total)
                        if element.is_float
                        else b.add(total, b.mul(factor, other))
                    )
        loop.yield_(*sums)
    width = layout.width
    values = {place: loop.results[k * width : (k + 1) * width] for k, place in enumerate(layout.places)}
    return Held(dtype, extents, layout, values)


def _within(elements: Elements, index: Value, count: int) -> Value:
    return elements.b.min(index, count - 1)
