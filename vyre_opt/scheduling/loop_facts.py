"""Facts for rewrites of loops: the loops, the most iterations of each, and whether invocations meet."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..analysis.effects import Effects
from ..ir.loops import bounds
from ..ir.program import Op, Program, Shape

__all__ = ["invocations_meet", "is_inner", "known_shapes", "most_trips", "op_numbers"]


def op_numbers(program: Program) -> dict[Op, int]:
    """Number of each op in the order of `walk`, by which certificates name ops."""
    return {op: number for number, op in enumerate(program.walk())}


def known_shapes(program: Program, shapes: Mapping[str, Shape] | None = None) -> dict[str, Shape]:
    """Shape of each buffer by name.  `shapes`: shapes of bound buffers in a launch, with None for open extents."""
    return {name: buffer.shape for name, buffer in program.buffers.items()} | dict(shapes or {})


def most_trips(loop: Op, shapes: Mapping[str, Shape], limit: int) -> int | None:
    """The most iterations of a `for`, capped at `limit`, which also stands for an unknown number.

    None if the trip count depends on an unknown length."""
    lower, upper, step = bounds(loop)
    start = lower if isinstance(lower, int) else 0
    end: int | None = limit
    if isinstance(upper, int):
        end = upper
    elif isinstance(upper.owner, Op) and upper.owner.name == "len":
        end = _length(upper.owner, shapes)
    else:
        return limit
    if end is None or not isinstance(step, int) or start < 0:
        return None if end is None else limit
    return min(limit, max(0, -((start - end) // step)))


def _length(op: Op, shapes: Mapping[str, Shape]) -> int | None:
    shape = shapes[op.attrs["buffer"]]
    dimension: int | None = op.attrs.get("dimension")
    if dimension is not None:
        return shape[dimension]
    return None if None in shape else prod(n or 0 for n in shape)


def is_inner(op: Op) -> bool:
    """Whether this is a `for` with no loop in it."""
    return op.name == "for" and sum(inner.name in ("for", "while") for inner in op.walk()) == 1


def invocations_meet(loop: Op, effects: Effects) -> bool:
    """Whether an iteration has a barrier, an op of a subgroup or the like.  `effects`: those of the loop."""
    return effects.orders or effects.waits or any("subgroup" in op.definition.effects for op in loop.walk())
