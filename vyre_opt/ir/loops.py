"""The bounds and initial values of a `for`.

A bound is an int in `attrs`, or None there and an operand; the initial values follow those operands.
"""

from __future__ import annotations

from .program import Op, Value

Bound = int | Value
BOUND_NAMES = ("lower", "upper", "step")


def bounds(loop: Op) -> tuple[Bound, Bound, Bound]:
    """Lower bound, upper bound and step, each an int or a value."""
    dynamic = iter(loop.operands)
    lower, upper, step = (
        next(dynamic) if loop.attrs[name] is None else loop.attrs[name] for name in BOUND_NAMES
    )
    return lower, upper, step


def inits(loop: Op) -> tuple[Value, ...]:
    """The initial values of the iteration arguments of a `for` or a `while`."""
    if loop.name == "while":
        return loop.operands
    dynamic = sum(loop.attrs[name] is None for name in BOUND_NAMES)
    return loop.operands[dynamic:]


def with_bounds(loop: Op, lower: Bound, upper: Bound, step: Bound) -> None:
    """Replace the bounds of a `for` in place, keeping its initial values."""
    rest = inits(loop)
    limits = dict(zip(BOUND_NAMES, (lower, upper, step), strict=True))
    loop.attrs = {**loop.attrs, **{k: v if isinstance(v, int) else None for k, v in limits.items()}}
    loop.operands = (*(v for v in limits.values() if isinstance(v, Value)), *rest)


def trip_count(loop: Op) -> int | None:
    """The number of iterations of a `for` whose bounds are ints and whose step is positive; None otherwise."""
    lower, upper, step = bounds(loop)
    if not (isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int)):
        return None
    return max(0, -((lower - upper) // step)) if step > 0 else None
