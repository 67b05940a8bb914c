"""`range(...)` of a loop: its bounds as numbers or values of one type.

A range that counts down is counted up by its rounds, since the IR's loops have positive steps:

    for k in range(n - 1, -1, -2)        for %round = 0 to %rounds step 1 { k = n - 1 - 2 * round
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.program import Value
from ..ir.types import DataType
from ..records import dataclass
from .bindings import BufferView, Static
from .emitter import check_constant, type_of
from .inference import AnyType, OpenType, TypeMismatch, known, resolved, unify
from .python_source import Unsupported

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["LoopRange", "loop_range"]

Bound = Static | Value
"""A whole number, or a value of an integer type."""


@dataclass(frozen=True, slots=True)
class LoopRange:
    """The loop counts from `lower` up to, not including, `upper` by `step`.

    `first`, `down`: where it stands for one that counts down, that one begins at `first`, and goes down by so much.
    """

    lower: Bound
    upper: Bound
    step: Bound
    first: Bound | None = None
    down: int = 0

    @property
    def values(self) -> list[Value]:
        """The bounds that are values, in order."""
        return [bound for bound in (self.lower, self.upper, self.step) if isinstance(bound, Value)]

    @property
    def counter_type(self) -> AnyType:
        values = self.values
        return type_of(values[0]) if values else OpenType(False, is_scalar=True, is_integer=True)

    def item(self, t: Expressions, node: ast.For, counter: Value) -> Value:
        """Binding of the loop's name in a round."""
        if self.first is None:
            return counter
        dtype = type_of(counter)
        first = self.first if isinstance(self.first, Value) else t.emitter.adapted(self.first, dtype, node)
        distance = counter
        if self.down > 1:
            distance = t.emitter.value(
                "mul", (counter, t.emitter.adapted(Static(self.down), dtype, node)), dtype
            )
        return t.emitter.value("sub", (first, distance), dtype)


def loop_range(t: Expressions, call: ast.Call) -> LoopRange:
    """Raises Unsupported."""
    if call.keywords or not 1 <= len(call.args) <= 3:
        raise Unsupported(call, "range takes one to three numbers")
    start, stop, step = _bounds(t, call)
    if isinstance(step, Static) and step.value == 0:
        raise Unsupported(call.args[2], "a step is not 0")
    dtype = _counter_type(call, [b for b in (start, stop, step) if isinstance(b, Value)])
    if isinstance(step, Static) and step.value < 0:
        return _downwards(t, call, start, stop, -step.value, dtype)
    settled_type = None if dtype is None else known(dtype)
    for bound in (start, stop):
        if isinstance(bound, Static) and isinstance(settled_type, DataType):
            check_constant(bound.value, settled_type, call)
    return LoopRange(start, stop, step)


def _bounds(t: Expressions, call: ast.Call) -> list[Bound]:
    """Start, stop and step."""
    bounds: list[Bound] = []
    for node in call.args:
        binding = t.expression(node)
        if isinstance(binding, Static):
            if not isinstance(binding.value, int) or isinstance(binding.value, bool):
                help = "count by whole numbers, and compute with them: for k in range(10): t = f32(k) * 0.1"
                raise Unsupported(node, f"a loop counts by whole numbers, not {binding.value!r}", help)
            bounds.append(binding)
        elif isinstance(binding, BufferView):
            text = t.source.text(node)
            raise Unsupported(node, f"{text} is an array, not a number", f"write range(len({text}))")
        else:
            bounds.append(t.as_value(binding, node))
    if len(bounds) == 1:
        bounds.insert(0, Static(0))
    return bounds if len(bounds) == 3 else [*bounds, Static(1)]


def _counter_type(call: ast.Call, values: Sequence[Value]) -> AnyType | None:
    """The type of the bounds that are values; None if none is."""
    dtype: AnyType | None = None
    for value in values:
        try:
            dtype = type_of(value) if dtype is None else unify(dtype, type_of(value))
        except TypeMismatch as mismatch:
            a, b = (known(t) for t in mismatch.types)
            message = f"the bounds of a range are of one type, not {a} and {b}"
            raise Unsupported(call, message, f"convert one: {b}(...)") from None
        found = known(dtype)
        if isinstance(found, DataType) and not found.is_int:
            raise Unsupported(call, f"a loop counts by integers, not {found}", "convert the bounds: u32(...)")
    return dtype


def _downwards(
    t: Expressions, call: ast.Call, start: Bound, stop: Bound, down: int, dtype: AnyType | None
) -> LoopRange:
    """A range whose step is -`down`."""
    zero, one = Static(0), Static(1)
    if isinstance(start, Static) and isinstance(stop, Static):
        return LoopRange(zero, Static(len(range(start.value, stop.value, -down))), one, start, down)
    assert dtype is not None
    counter, emit = resolved(dtype), t.emitter.value
    number = t.emitter.number
    first = t.as_value(start, call, counter)
    if isinstance(stop, Static) and stop.value < 0:
        # apart, since the end of a loop down to 0 is no number of an unsigned type
        span = emit("add", (first, number(-stop.value, counter)), counter)
    else:
        last = t.as_value(stop, call, counter)
        is_empty = emit("le", (first, last), DataType.BOOL)
        span = emit("select", (is_empty, number(0, counter), emit("sub", (first, last), counter)), counter)
    if down > 1:
        more = emit("add", (span, number(down - 1, counter)), counter)
        span = emit("div", (more, number(down, counter)), counter)
    return LoopRange(zero, span, one, first, down)
