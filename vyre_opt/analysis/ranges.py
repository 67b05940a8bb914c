"""Bounds of integer values: those that the program declares, and those that follow from operands.

local_id x of workgroup(64)     0 .. 63
and %a, 15                      0 .. 15
add %a, %b of u8, to 200 each   0 .. 255: it may wrap
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from ..ir import arith
from ..ir.ops import AXES, SUBGROUP_SIZE
from ..ir.program import Op, Program, Value
from .affine import Range

__all__ = ["MAX_INVOCATIONS", "Ranges", "bounds_of", "declared_range", "is_within", "result_range"]

MAX_DEPTH = 12
"""The most ops between a value and those that its range is computed from."""

MAX_INVOCATIONS = 1 << 32
"""Along an axis, since ids are u32."""


class Ranges:
    """The ranges of a program's values, computed on demand.  `specs`: values of specialization constants, where
    they are fixed.  They hold for all lanes, whatever branches are around; with `whole_subgroups`, for those of the
    last subgroup that lie beyond the workgroup too, which a CPU computes with the others."""

    def __init__(
        self, program: Program, specs: Mapping[str, object] | None = None, whole_subgroups: bool = False
    ) -> None:
        self.program = program
        self.specs = specs or {}
        self.whole_subgroups = whole_subgroups
        self.known: dict[Value, Range] = {}

    def of(self, value: Value, depth: int = MAX_DEPTH) -> Range:
        """Smallest and largest value."""
        cached = self.known.get(value)
        if cached is None:
            if not depth:  # not cached: on another path to the value more depth may be left
                return arith.int_range(value.type)
            cached = self.known[value] = self._compute(value, depth - 1)
        return cached

    def _compute(self, value: Value, depth: int) -> Range:
        op = value.owner
        if not isinstance(op, Op) or len(op.results) != 1 or op.regions:
            return arith.int_range(value.type)
        beyond = _BEYOND.get(op.name) if self.whole_subgroups else None
        declared = beyond(self.program, op) if beyond else declared_range(self.program, op, self.specs)
        if declared is not None:
            whole = arith.int_range(value.type)
            return declared if is_within(declared, whole) else whole
        return result_range(
            op, {v: self.of(v, depth) for v in op.operands if v.type.is_int or v.type.is_bool}
        )


def declared_range(program: Program, op: Op, specs: Mapping[str, object]) -> Range | None:
    """The range of an id, a size, a length or a constant by the program's declarations; None for other ops."""
    rule = _DECLARED.get(op.name)
    return rule(program, op, specs) if rule is not None else None


def result_range(op: Op, known: Mapping[Value, Range]) -> Range:
    """Smallest and largest result of an op with one integer or bool result.

    `known`: bounds of values; without an entry, those of the type.  Where nothing is known of the result,
    or it may wrap, the range is that of its type.
    """
    whole = arith.int_range(op.result.type)
    if not all(v.type.is_int or v.type.is_bool for v in op.operands):
        return whole
    span = bounds_of(op, [known.get(v) or arith.int_range(v.type) for v in op.operands])
    return span if span is not None and is_within(span, whole) else whole


def bounds_of(op: Op, operands: Sequence[Range]) -> Range | None:
    """Bounds of the result before it wraps, for operands in these ranges; None where nothing is known."""
    if op.name == "const":
        return op.attrs["value"], op.attrs["value"]
    if op.name in ("shr", "shl"):  # the amount is taken modulo the width
        value, (least, most) = operands
        bits = op.result.type.bits or 1
        amount = (least % bits, least % bits) if least == most else (least, most)
        return _SHIFTS[op.name](value, amount, bits)
    rule = _RULES.get(op.name)
    return rule(*operands) if rule is not None else None


def is_within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


# --- by declarations


def _local_id(program: Program, op: Op, specs: Mapping[str, object]) -> Range:
    return 0, program.workgroup[AXES.index(op.attrs["axis"])] - 1


def _workgroup_id(program: Program, op: Op, specs: Mapping[str, object]) -> Range:
    axis = AXES.index(op.attrs["axis"])
    return 0, (program.grid[axis] if program.grid else MAX_INVOCATIONS // program.workgroup[axis]) - 1


def _global_id(program: Program, op: Op, specs: Mapping[str, object]) -> Range:
    size = program.workgroup[AXES.index(op.attrs["axis"])]
    return 0, (_workgroup_id(program, op, specs)[1] + 1) * size - 1


def _workgroup_size(program: Program, op: Op, specs: Mapping[str, object]) -> Range:
    size = program.workgroup[AXES.index(op.attrs["axis"])]
    return size, size


def _len(program: Program, op: Op, specs: Mapping[str, object]) -> Range | None:
    count = program.buffers[op.attrs["buffer"]].count
    return None if count is None else (count, count)


def _spec(program: Program, op: Op, specs: Mapping[str, object]) -> Range | None:
    constant = specs.get(op.attrs["spec"])
    return (constant, constant) if isinstance(constant, int) else None


def _subgroup_id(program: Program, op: Op, specs: Mapping[str, object]) -> Range:
    return 0, -(-program.lanes // SUBGROUP_SIZE) - 1


_DECLARED: dict[str, Callable[[Program, Op, Mapping[str, object]], Range | None]] = {
    "local_id": _local_id,
    "workgroup_id": _workgroup_id,
    "global_id": _global_id,
    "workgroup_size": _workgroup_size,
    "len": _len,
    "spec": _spec,
    "lane_id": lambda program, op, specs: (0, min(SUBGROUP_SIZE, program.lanes) - 1),
    "subgroup_id": _subgroup_id,
    "subgroup_size": lambda program, op, specs: (SUBGROUP_SIZE, SUBGROUP_SIZE),
    "num_subgroups": lambda program, op, specs: (_subgroup_id(program, op, specs)[1] + 1,) * 2,
}


# --- in whole subgroups: the ids along the outermost axis go on beyond the workgroup


def _local_id_beyond(program: Program, op: Op) -> Range:
    axis = AXES.index(op.attrs["axis"])
    stride, size = prod(program.workgroup[:axis]), program.workgroup[axis]
    if size == 1 or stride * size < program.lanes:
        return 0, size - 1
    return 0, (-(-program.lanes // SUBGROUP_SIZE) * SUBGROUP_SIZE - 1) // stride


def _global_id_beyond(program: Program, op: Op) -> Range:
    first = _workgroup_id(program, op, {})[1] * program.workgroup[AXES.index(op.attrs["axis"])]
    return 0, first + _local_id_beyond(program, op)[1]


_BEYOND: dict[str, Callable[[Program, Op], Range]] = {
    "local_id": _local_id_beyond,
    "global_id": _global_id_beyond,
    "lane_id": lambda program, op: (0, SUBGROUP_SIZE - 1),
}


# --- by operands; x/0 = x, x%0 = 0.  What divides or works on bits is known of operands that are not negative


def _hull(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _product(a: Range, b: Range) -> Range:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _and(a: Range, b: Range) -> Range | None:
    limits = [high for low, high in (a, b) if low >= 0]
    return (0, min(limits)) if limits else None


def _or(a: Range, b: Range) -> Range | None:
    if min(a[0], b[0]) < 0:
        return None
    return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1


def _rem(a: Range, b: Range) -> Range | None:
    if min(a[0], b[0]) < 0:
        return None
    return 0, min(a[1], max(0, b[1] - 1))


def _div(a: Range, b: Range) -> Range | None:
    if min(a[0], b[0]) < 0:
        return None
    return (a[0] // b[1], a[1] // b[0]) if b[0] > 0 else (0, a[1])


def _shr(a: Range, amount: Range, bits: int) -> Range | None:
    if min(a[0], amount[0]) < 0:
        return None
    return (a[0] >> amount[1], a[1] >> amount[0]) if amount[1] < bits else (0, a[1])


def _shl(a: Range, amount: Range, bits: int) -> Range | None:
    if min(a[0], amount[0]) < 0 or amount[1] >= bits:
        return None
    return a[0] << amount[0], a[1] << amount[1]


_SHIFTS: dict[str, Callable[[Range, Range, int], Range | None]] = {"shr": _shr, "shl": _shl}

_RULES: dict[str, Callable[..., Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "neg": lambda a: (-a[1], -a[0]),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "select": lambda condition, a, b: _hull(a, b),
    "cast": lambda a: a,
    "and": _and,
    "or": _or,
    "xor": _or,
    "rem": _rem,
    "div": _div,
    "popcount": lambda a: (0, 64),
    "clz": lambda a: (0, 64),
    "ctz": lambda a: (0, 64),
}
