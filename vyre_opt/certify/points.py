"""The values of a program at one point of its execution, as z3 integers: one invocation, and one iteration of each loop.

    %i = add %g, 4 : u32        (64*w + l + 4) mod 2^32, as an integer; without the mod where it surely does not wrap
    load @x[%i]                 a free variable: nothing is known of what memory holds

A term is equal to its value, wrapping included, so what z3 proves of terms holds for values.  Where an op has no
rule its result is free, which can only keep z3 from proving something: see `Point.free`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import product
from math import prod
from typing import NamedTuple

import z3

from ..ir.loops import bounds
from ..ir.ops import AXES, SUBGROUP_SIZE
from ..ir.program import MAX_EXTENT, MAX_GRID, AccessMode, Block, Dim3, Op, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .op_terms import has_term, literal, op_term

__all__ = ["MAIN_GROUP", "Grid", "Group", "Nesting", "Point", "type_range"]

MOST_INVOCATIONS = 1 << 32
"""Along an axis, since ids are u32."""

MAIN_GROUP = "w"
"""The name of the workgroup, where there is only one in question."""

MOST_CASES = 256
"""Values of operands that are looked at one by one."""

MAX_DEPTH = 8
"""Conditions of conditions, beyond which one gets a name: z3 writes out what `and` and `or` share."""

LEAST_WRAP = 1 << 8
"""The modulus of the narrowest type."""

_ZERO = z3.IntVal(0)

MOST_FLIPPED = 8
"""Bits of a constant that terms of `or` and `xor` have."""


Grid = tuple[int | None, int | None, int | None]
"""Workgroups along each axis."""


class Integer(NamedTuple):
    """A term, bounds of it that hold wherever the loops around run these iterations, and a power of two that divides it."""

    term: z3.ArithRef
    low: int
    high: int
    unit: int = 1


def type_range(dtype: DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = dtype.bits or 1
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


class Nesting:
    """Nesting of the ops of a program: their number in program order, and the blocks and ops around them.

    `number`: by op.  `around`: by op, the ops around it, outermost first, each with the number of the region.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ops: list[Op] = list(program.walk())
        self.number = {op: number for number, op in enumerate(self.ops)}
        self.around: dict[Op, tuple[tuple[Op, int], ...]] = {}
        self.block: dict[Op, Block] = {}
        self.loop_of_argument: dict[Value, Op] = {}
        self._visit(program.body, ())

    def _visit(self, block: Block, around: tuple[tuple[Op, int], ...]) -> None:
        for op in block.ops:
            self.around[op], self.block[op] = around, block
            for region, inner in enumerate(op.regions):
                self.loop_of_argument.update(dict.fromkeys(inner.args, op))
                self._visit(inner, (*around, (op, region)))

    def loops(self, op: Op) -> tuple[Op, ...]:
        """The loops around an op, outermost first."""
        return tuple(outer for outer, _ in self.around[op] if outer.name in ("for", "while"))

    def loops_of(self, value: Value) -> tuple[Op, ...]:
        """The loops in which a value may change."""
        if isinstance(value.owner, Op):
            return self.loops(value.owner)
        loop = self.loop_of_argument.get(value)
        return (*self.loops(loop), loop) if loop is not None else ()


@dataclass
class Group:
    """Values that all invocations of a workgroup share: its id, the grid, lengths of buffers.

    `name`: that variables begin with.  `grid`, `lengths`: where a launch gives what the program leaves open, None for
    an axis that it leaves open too.  `specs`: specialization constants that are fixed.  `params`: what a launch binds
    runtime scalars to, encoded values or params of its pipeline, which are the same for all groups.  `facts`: what is true of the
    terms.  `wraps`: whether a term of its points has a `%` as large as a type's.
    """

    program: Program
    name: str = MAIN_GROUP
    grid: Grid = (None, None, None)
    lengths: Mapping[str, int] = field(default_factory=dict)
    specs: Mapping[str, object] = field(default_factory=dict)
    params: Mapping[str, str | int] = field(default_factory=dict)
    facts: list[z3.BoolRef] = field(default_factory=list)
    shared: dict[object, Integer] = field(default_factory=dict)
    wraps: bool = False

    def variable(self, key: object, name: str, low: int, high: int) -> Integer:
        """The variable of a key, within bounds."""
        if key not in self.shared:
            term = z3.Int(f"{self.name}.{name}")
            self.facts += [term >= low, term <= high]
            self.shared[key] = Integer(term, low, high)
        return self.shared[key]

    def param(self, name: str, dtype: DataType) -> Integer:
        """A runtime scalar: the number that the launch passes, or a variable."""
        bound = self.params.get(name)
        if isinstance(bound, int) and dtype.is_int:
            return _exactly(bound)
        low, high = type_range(dtype)
        if not isinstance(bound, str):
            return self.variable(("param", name), f"param.{name}", low, high)
        key = "param of the pipeline", bound
        if key not in self.shared:
            term = z3.Int(f"@{bound}")
            self.facts += [term >= low, term <= high]
            self.shared[key] = Integer(term, low, high)
        return self.shared[key]

    def remainder(self, term: z3.ArithRef, modulus: z3.ArithRef | int, most: int) -> z3.ArithRef:
        """`modulus` is `most` or less."""
        self.wraps |= most >= LEAST_WRAP
        return term % modulus

    def length(self, buffer: str, dimension: int | None = None) -> Integer:
        """Length of a buffer, or its extent along one of several dimensions."""
        declared = self.program.buffers[buffer]
        if declared.dimensions > 1:
            number = dimension or 0
            extent = self.lengths.get(f"{buffer},{number}", declared.shape[number])
            if extent is not None:
                return _exactly(extent)
            return self.variable(("len", buffer, number), f"len.{buffer}.{number}", 0, MAX_EXTENT)
        count = self.lengths.get(buffer, declared.count)
        if count is not None:
            return _exactly(count)
        return self.variable(("len", buffer), f"len.{buffer}", 0, (1 << 64) - 1)

    def shape(self, buffer: str) -> list[z3.ArithRef]:
        """The extents along all dimensions."""
        return [self.length(buffer, number).term for number in range(self.program.buffers[buffer].dimensions)]

    def workgroup_id(self, axis: int) -> Integer:
        count = self.num_workgroups(axis)
        if count.low == count.high == 1:
            return Integer(z3.IntVal(0), 0, 0)
        known = ("workgroup_id", axis) in self.shared
        workgroup = self.variable(("workgroup_id", axis), f"workgroup_id.{AXES[axis]}", 0, count.high - 1)
        if not known:
            self.facts.append(workgroup.term < count.term)
        return workgroup

    def num_workgroups(self, axis: int) -> Integer:
        count = self.program.grid[axis] if self.program.grid is not None else self.grid[axis]
        if count is not None:
            return _exactly(count)
        most = min(MOST_INVOCATIONS // self.program.workgroup[axis], MAX_GRID[axis])
        return self.variable(("num_workgroups", axis), f"num_workgroups.{AXES[axis]}", 1, most)


class Point:
    """Terms of values at one point.

    `local`: the local ids; `iterations`: the number of the iteration of each `for`.  They may be any terms: `reaches`
    says whether a lane comes there.  `contents`: for buffers whose loads are functions of the index, the functions'
    names; by default for those that the program only reads.  `free`: the values that are free variables, by the
    variables' names.  `linear`: the linear local id, where that is what the local ids come from; see `computed`.
    """

    linear: Integer | None = None

    def __init__(
        self,
        nesting: Nesting,
        group: Group,
        name: str,
        local: Sequence[z3.ArithRef],
        iterations: Mapping[Op, z3.ArithRef],
        contents: Mapping[str, str] | None = None,
    ) -> None:
        self.nesting, self.group, self.name = nesting, group, name
        self.program = nesting.program
        self.contents = _inputs(self.program) if contents is None else contents
        self.local, self.iterations = tuple(local), dict(iterations)
        self.facts: list[z3.BoolRef] = []
        self.free: dict[str, Value] = {}
        self.integers: dict[Value, Integer] = {}
        self.booleans: dict[Value, z3.BoolRef] = {}
        self.depths: dict[Value, int] = {}  # of the terms of conditions

    @staticmethod
    def any(nesting: Nesting, group: Group, name: str, contents: Mapping[str, str] | None = None) -> Point:
        """Any lane of the group, in any iteration of each loop."""
        sizes = zip(AXES, nesting.program.workgroup, strict=True)
        local = [z3.Int(f"{name}.local_id.{axis}") if size > 1 else _ZERO for axis, size in sizes]
        iterations = {
            op: z3.Int(f"{name}.iteration.{nesting.number[op]}") for op in nesting.ops if op.name == "for"
        }
        return Point(nesting, group, name, local, iterations, contents)

    @staticmethod
    def computed(nesting: Nesting, group: Group, name: str, lanes: int) -> Point:
        """One of `lanes` lanes that the machine computes together, some of them beyond the workgroup.

        Branches and loops impose no conditions: counters, results of branches and loaded values are any
        values.
        """
        linear = z3.Int(f"{name}.linear_id")
        point = Point(nesting, group, name, _ids(linear, nesting.program.workgroup), {}, {})
        point.linear = Integer(linear, 0, lanes - 1)
        point.facts += [linear >= 0, linear < lanes]
        return point

    def same_lane(self, name: str, shared: Sequence[Op], iterations: Mapping[Op, z3.ArithRef]) -> Point:
        """Point of the same lane in the same iterations of the loops `shared`, and in `iterations` of the others.

        Free values that do not change in the other loops are the same ones.
        """
        shared_iterations = {op: self.iterations[op] for op in shared if op in self.iterations}
        point = Point(
            self.nesting, self.group, name, self.local, {**iterations, **shared_iterations}, self.contents
        )
        for variable, value in self.free.items():
            if set(self.nesting.loops_of(value)) <= set(shared):
                point.free[variable] = value
                if value in self.integers:
                    point.integers[value] = self.integers[value]
                else:
                    point.booleans[value] = self.booleans[value]
        return point

    # --- whether it is a point of the execution -------------------------------------------

    def _is_lane(self) -> list[z3.BoolRef]:
        ids = zip(self.local, self.program.workgroup, strict=True)
        # of an axis of 1, ids are mostly the constant 0
        inexact = [(term, size) for term, size in ids if size > 1 or not term.eq(_ZERO)]
        return [bound for term, size in inexact for bound in (term >= 0, term < size)]

    def subgroup(self) -> z3.ArithRef:
        """The number of the lane's subgroup."""
        return _linear(self).term / SUBGROUP_SIZE

    def reaches(self, op: Op) -> z3.BoolRef:
        """Whether this lane comes to `op`: its loops run these iterations, and branches lead there."""
        conditions = self._is_lane()
        for outer, region in self.nesting.around[op]:
            if outer.name == "if":
                taken = self.boolean(outer.operands[0])
                conditions.append(taken if region == 0 else z3.Not(taken))
            elif outer.name == "for":
                lower, upper, step = map(self._bound, bounds(outer))
                iteration = self.iterations[outer]
                conditions += [iteration >= 0, lower.term + step.term * iteration < upper.term]
            elif outer.name == "while" and region == 1:
                end = outer.regions[0].terminator
                if end is not None:
                    conditions.append(self.boolean(end.operands[0]))
        return z3.And(conditions)

    def _bound(self, bound: Value | int) -> Integer:
        return _exactly(bound) if isinstance(bound, int) else self.integer(bound)

    # --- values --------------------------------------------------------------------------------

    def integer(self, value: Value) -> Integer:
        """An integer value."""
        if value not in self.integers:
            self._visit(value)
        return self.integers[value]

    def indices(self, op: Op) -> list[z3.ArithRef]:
        """The indices of an access, one for each dimension of its buffer."""
        return [self.integer(index).term for index in op.indices]

    def boolean(self, value: Value) -> z3.BoolRef:
        if value not in self.booleans:
            self._visit(value)
        return self.booleans[value]

    def _visit(self, value: Value) -> None:
        """Make the terms of a value and of its operands, without recursion, however long the chain."""
        pending = [value]
        while pending:
            value = pending[-1]
            known = self.booleans if value.type.is_bool else self.integers
            missing = [] if value in known else [v for v in self._sources(value) if not self._is_known(v)]
            pending += missing
            if not missing:
                pending.pop()
                if value.type.is_bool and value not in known:
                    self.booleans[value] = self._boolean(value)
                elif value not in known:
                    self.integers[value] = self._integer(value)

    def _is_known(self, value: Value) -> bool:
        return value in self.integers or value in self.booleans

    def _sources(self, value: Value) -> list[Value]:
        """Values whose terms the term of `value` is made of."""
        op = value.owner
        if not isinstance(op, Op):
            loop = self.nesting.loop_of_argument.get(value) if self.linear is None else None
            is_counter = loop is not None and loop.name == "for" and loop.regions[0].args[0] is value
            return [b for b in bounds(loop) if isinstance(b, Value)] if loop and is_counter else []
        if op.name == "if" and self.linear is None and value.type.is_int:
            ends = [block.terminator for block in op.regions]
            yielded = [end.operands[op.results.index(value)] for end in ends if end is not None]
            return [*yielded, op.operands[0]]
        if op.regions or not op.definition.is_pure:
            return []
        return [operand for operand in op.operands if operand.type.is_int or operand.type.is_bool]

    def variable(self, value: Value) -> Integer:
        """A free variable of the value's type."""
        low, high = type_range(value.type)
        term = z3.Int(self._name(value))
        self.facts += [term >= low, term <= high]
        return Integer(term, low, high)

    def _name(self, value: Value) -> str:
        name = f"{self.name}.%{value.name}.{len(self.free)}"
        self.free[name] = value
        return name

    def _integer(self, value: Value) -> Integer:
        op = value.owner
        if not isinstance(op, Op):
            return self._argument(value)
        if op.name == "if":
            return self._chosen(op, op.results.index(value)) if self.linear is None else self.variable(value)
        rule = _INTEGERS.get(op.name)
        result = rule(self, op) if rule is not None else None
        if result is None:
            result = _by_cases(self, op)
        return self.variable(value) if result is None else _wrapped(self.group, result, value.type)

    def _argument(self, value: Value) -> Integer:
        """The counter of a `for` is lower + step * iteration; other loop-carried values are free variables."""
        if self.linear is not None:
            return self.variable(value)
        loop = self.nesting.loop_of_argument.get(value)
        if loop is not None and loop.name == "while" and value in loop.regions[1].args:
            # the condition hands its arguments on to the body
            return self.integer(loop.regions[0].args[loop.regions[1].args.index(value)])
        if loop is None or loop.name != "for" or loop.regions[0].args[0] is not value:
            return self.variable(value)
        lower, upper, step = map(self._bound, bounds(loop))
        term = lower.term + step.term * self.iterations[loop]
        # it is below the upper bound where the loop runs, so it does not wrap there
        return Integer(term, lower.low, max(lower.low, upper.high - 1))

    def _chosen(self, op: Op, index: int) -> Integer:
        yielded = [block.terminator.operands[index] for block in op.regions if block.terminator is not None]
        if len(yielded) != 2:
            return self.variable(op.results[index])
        a, b = (self.integer(value) for value in yielded)
        return Integer(
            z3.If(self.boolean(op.operands[0]), a.term, b.term), min(a.low, b.low), max(a.high, b.high)
        )

    def _boolean(self, value: Value) -> z3.BoolRef:
        op = value.owner
        rule = _BOOLEANS.get(op.name) if isinstance(op, Op) else None
        result = rule(self, op) if rule is not None and isinstance(op, Op) else None
        if result is None or not isinstance(op, Op):
            return z3.Bool(self._name(value))
        depth = 1 + max((self.depths.get(operand, 0) for operand in op.operands), default=0)
        if depth > MAX_DEPTH:
            named = z3.FreshBool(f"{self.name}.%{value.name}")
            self.facts.append(named == result)
            return named
        self.depths[value] = depth
        return result

    def assumptions(self) -> list[z3.BoolRef]:
        """Assumptions about the variables, once all terms exist."""
        return [*self.group.facts, *self.facts]


def _ids(linear: z3.ArithRef, workgroup: Dim3) -> list[z3.ArithRef]:
    """The local ids of a lane.  Beyond the workgroup those along the outermost axis go on."""
    ids = []
    for axis, size in enumerate(workgroup):
        stride = prod(workgroup[:axis])
        along = linear / stride if stride > 1 else linear
        ids.append(_ZERO if size == 1 else along if _is_outermost(workgroup, axis) else along % size)
    return ids


def _is_outermost(workgroup: Dim3, axis: int) -> bool:
    return prod(workgroup[: axis + 1]) == prod(workgroup)


def _inputs(program: Program) -> dict[str, str]:
    """The buffers that the program only reads, each its own function."""
    return {name: name for name, buffer in program.buffers.items() if buffer.access is AccessMode.READ}


def _wrapped(group: Group, value: Integer, dtype: DataType) -> Integer:
    """The value that a result has in its type."""
    low, high = type_range(dtype)
    if low <= value.low and value.high <= high:
        return value
    modulus = high - low + 1
    if low:
        term = group.remainder(value.term - low, modulus, modulus) + low
    else:
        term = group.remainder(value.term, modulus, modulus)
    return Integer(term, low, high, min(value.unit, modulus))


# --- integer results, before they wrap; None where nothing is known


def _operands(point: Point, op: Op) -> list[Integer]:
    return [point.integer(value) for value in op.operands]


def _const(point: Point, op: Op) -> Integer:
    return _exactly(int(op.attrs["value"]))


def _exactly(number: int) -> Integer:
    return Integer(z3.IntVal(number), number, number, number & -number or MOST_INVOCATIONS)


def _local_id(point: Point, op: Op) -> Integer:
    axis, workgroup = AXES.index(op.attrs["axis"]), point.program.workgroup
    last = workgroup[axis] - 1
    if point.linear is not None and last and _is_outermost(workgroup, axis):
        last = point.linear.high // prod(workgroup[:axis])
    return Integer(point.local[axis], 0, last)


def _workgroup_id(point: Point, op: Op) -> Integer:
    return point.group.workgroup_id(AXES.index(op.attrs["axis"]))


def _global_id(point: Point, op: Op) -> Integer:
    size, group = point.program.workgroup[AXES.index(op.attrs["axis"])], _workgroup_id(point, op)
    local = _local_id(point, op)
    return Integer(group.term * size + local.term, 0, group.high * size + local.high)


def _num_workgroups(point: Point, op: Op) -> Integer:
    return point.group.num_workgroups(AXES.index(op.attrs["axis"]))


def _global_size(point: Point, op: Op) -> Integer:
    size, count = point.program.workgroup[AXES.index(op.attrs["axis"])], _num_workgroups(point, op)
    return Integer(count.term * size, count.low * size, count.high * size)


def _linear(point: Point) -> Integer:
    """The linear local id, by which a workgroup is divided into subgroups."""
    if point.linear is not None:
        return point.linear
    width, height, _ = point.program.workgroup
    x, y, z = point.local
    return Integer(x + y * width + z * width * height, 0, point.program.lanes - 1)


def _len(point: Point, op: Op) -> Integer:
    return point.group.length(op.attrs["buffer"], op.attrs.get("dimension"))


def _spec(point: Point, op: Op) -> Integer | None:
    value = point.group.specs.get(op.attrs["spec"])
    if isinstance(value, int) and op.result.type.is_int:
        return _exactly(value)
    low, high = type_range(op.result.type)
    return point.group.variable(("spec", op.attrs["spec"]), f"spec.{op.attrs['spec']}", low, high)


def _param(point: Point, op: Op) -> Integer:
    return point.group.param(op.attrs["param"], op.result.type)


def _load(point: Point, op: Op) -> Integer | None:
    """Result of an unknown function of the indices, so that equal loads are equal."""
    name = point.contents.get(op.attrs["buffer"])
    if name is None or not op.result.type.is_int:
        return None
    low, high = type_range(op.result.type)
    function = z3.Function(f"@{name}", *[z3.IntSort()] * len(op.indices), z3.IntSort())
    term = function(*point.indices(op))
    point.facts += [term >= low, term <= high]
    return Integer(term, low, high)


def _add(point: Point, op: Op) -> Integer:
    a, b = _operands(point, op)
    return Integer(a.term + b.term, a.low + b.low, a.high + b.high, min(a.unit, b.unit))


def _sub(point: Point, op: Op) -> Integer:
    a, b = _operands(point, op)
    return Integer(a.term - b.term, a.low - b.high, a.high - b.low, min(a.unit, b.unit))


def _mul(point: Point, op: Op) -> Integer:
    a, b = _operands(point, op)
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Integer(a.term * b.term, min(corners), max(corners), a.unit * b.unit)


def _neg(point: Point, op: Op) -> Integer:
    (a,) = _operands(point, op)
    return Integer(-a.term, -a.high, -a.low)


def _div(point: Point, op: Op) -> Integer | None:
    """x / 0 = x.  z3 rounds down, as the language does where nothing is negative."""
    a, b = _operands(point, op)
    if a.low < 0 or b.low < 0:
        return None
    term = a.term / b.term if b.low > 0 else z3.If(b.term == 0, a.term, a.term / b.term)
    return Integer(term, a.low // b.high if b.low > 0 else 0, a.high // b.low if b.low > 0 else a.high)


def _rem(point: Point, op: Op) -> Integer | None:
    """x % 0 = 0."""
    a, b = _operands(point, op)
    if a.low < 0 or b.low < 0:
        return None
    rest = point.group.remainder(a.term, b.term, b.high)
    term = rest if b.low > 0 else z3.If(b.term == 0, 0, rest)
    return Integer(term, 0, min(a.high, max(0, b.high - 1)))


def _amount(point: Point, op: Op) -> int | None:
    """The amount of a shift if it is constant, modulo the width."""
    amount = point.integer(op.operands[1])
    return amount.low % (op.result.type.bits or 1) if amount.low == amount.high else None


def _shl(point: Point, op: Op) -> Integer | None:
    a, amount = point.integer(op.operands[0]), _amount(point, op)
    if amount is None:
        return None
    return Integer(a.term * (1 << amount), a.low << amount, a.high << amount, a.unit << amount)


def _shr(point: Point, op: Op) -> Integer | None:
    """Rounds down, signed or not."""
    a, amount = point.integer(op.operands[0]), _amount(point, op)
    if amount is None:
        return None
    return Integer(a.term / (1 << amount), a.low >> amount, a.high >> amount)


def _and(point: Point, op: Op) -> Integer | None:
    """Bits of a value under a constant mask: a remainder for 2^k - 1, the rest of it for -2^k, bit by bit for others."""
    a, b = _operands(point, op)
    value, mask = (b, a) if a.low == a.high else (a, b)
    bits = op.result.type.bits or 1
    if mask.low != mask.high:
        return None
    if value.low == value.high:
        return _exactly(value.low & mask.low)
    if mask.low >= 0 and mask.low & (mask.low + 1) == 0:
        return Integer(point.group.remainder(value.term, mask.low + 1, mask.low + 1), 0, mask.low)
    unit = (1 << bits) - (mask.low % (1 << bits))
    if value.low >= 0 and unit & (unit - 1) == 0:
        return Integer(value.term - point.group.remainder(value.term, unit, unit), 0, value.high)
    if min(value.low, mask.low) < 0 or mask.low.bit_count() > MOST_FLIPPED:
        return None
    powers = [1 << k for k in range(mask.low.bit_length()) if mask.low >> k & 1]
    return Integer(z3.Sum([value.term / power % 2 * power for power in powers]), 0, mask.low)


def _flipped(sets_only: bool) -> Callable[[Point, Op], Integer | None]:
    """`or` and `xor` with a constant, bit by bit: a bit that is not set is added, one that is set taken away.  Of values
    that have no bit in common, a sum."""

    def rule(point: Point, op: Op) -> Integer | None:
        a, b = _operands(point, op)
        if min(a.low, b.low) >= 0 and (b.high < a.unit or a.high < b.unit):
            return Integer(a.term + b.term, a.low + b.low, a.high + b.high, min(a.unit, b.unit))
        value, mask = (b, a) if a.low == a.high else (a, b)
        if mask.low != mask.high or mask.low < 0 or value.low < 0 or mask.low.bit_count() > MOST_FLIPPED:
            return None
        top = (1 << max(value.high, mask.low).bit_length()) - 1
        if mask.low & (mask.low + 1) == 0:  # the low bits, as a number
            low_bits = point.group.remainder(value.term, mask.low + 1, mask.low + 1)
            return Integer(value.term + mask.low - (low_bits if sets_only else 2 * low_bits), 0, top)
        term = value.term
        for power in (1 << k for k in range(mask.low.bit_length()) if mask.low >> k & 1):
            is_set = (value.term / power) % 2 == 1
            term += z3.If(is_set, 0 if sets_only else -power, power)
        return Integer(term, 0, top)

    return rule


def _least(point: Point, op: Op) -> Integer:
    a, b = _operands(point, op)
    return Integer(z3.If(a.term <= b.term, a.term, b.term), min(a.low, b.low), min(a.high, b.high))


def _most(point: Point, op: Op) -> Integer:
    a, b = _operands(point, op)
    return Integer(z3.If(a.term >= b.term, a.term, b.term), max(a.low, b.low), max(a.high, b.high))


def _sub_sat(point: Point, op: Op) -> Integer | None:
    a, b = _operands(point, op)
    if op.result.type.is_signed:
        return None
    return Integer(
        z3.If(a.term >= b.term, a.term - b.term, 0), max(0, a.low - b.high), max(0, a.high - b.low)
    )


def _select(point: Point, op: Op) -> Integer:
    condition, a, b = point.boolean(op.operands[0]), *(point.integer(v) for v in op.operands[1:])
    return Integer(z3.If(condition, a.term, b.term), min(a.low, b.low), max(a.high, b.high))


def _cast(point: Point, op: Op) -> Integer | None:
    source = op.operands[0]
    if source.type.is_bool:
        return Integer(z3.If(point.boolean(source), 1, 0), 0, 1)
    return point.integer(source) if source.type.is_int else None


def _by_cases(point: Point, op: Op) -> Integer | None:
    """Result by cases, for operands with few values, such as local ids: the meaning of the op for each."""
    values = [*op.operands, *op.results]
    if not op.operands or op.regions or not all(v.type.is_int for v in values):
        return None
    operands = _operands(point, op)
    if not has_term(op.name, op.result.type) or prod(a.high - a.low + 1 for a in operands) > MOST_CASES:
        return None
    cases = list(product(*(range(a.low, a.high + 1) for a in operands)))
    results = [_result(op, case) for case in cases]
    term = z3.IntVal(results[0])
    for case, result in zip(cases[1:], results[1:], strict=True):
        term = z3.If(z3.And([a.term == x for a, x in zip(operands, case, strict=True)]), result, term)
    return Integer(term, min(results), max(results))


def _result(op: Op, numbers: Sequence[int]) -> int:
    """The result for these operands."""
    terms = [literal(x, operand.type) for x, operand in zip(numbers, op.operands, strict=True)]
    bits = z3.simplify(op_term(op, terms))
    return int(bits.as_signed_long() if op.result.type.is_signed else bits.as_long())


_INTEGERS: dict[str, Callable[[Point, Op], Integer | None]] = {
    "const": _const, "local_id": _local_id, "workgroup_id": _workgroup_id, "global_id": _global_id,
    "num_workgroups": _num_workgroups, "global_size": _global_size, "len": _len, "spec": _spec, "param": _param, "load": _load,
    "workgroup_size": lambda point, op: _exactly(point.program.workgroup[AXES.index(op.attrs["axis"])]),
    "lane_id": lambda point, op: Integer(_linear(point).term % SUBGROUP_SIZE, 0, SUBGROUP_SIZE - 1),
    "subgroup_id": lambda point, op: Integer(
        _linear(point).term / SUBGROUP_SIZE, 0, (point.program.lanes - 1) // SUBGROUP_SIZE
    ),
    "subgroup_size": lambda point, op: _exactly(SUBGROUP_SIZE),
    "num_subgroups": lambda point, op: _exactly(-(-point.program.lanes // SUBGROUP_SIZE)),
    "add": _add, "sub": _sub, "mul": _mul, "neg": _neg, "div": _div, "rem": _rem, "shl": _shl, "shr": _shr,
    "and": _and, "or": _flipped(True), "xor": _flipped(False), "min": _least, "max": _most, "sub_sat": _sub_sat, "select": _select, "cast": _cast,
}  # fmt: skip


# --- conditions

_RELATIONS: dict[str, Callable[[z3.ArithRef, z3.ArithRef], z3.BoolRef]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip


def _compare(point: Point, op: Op) -> z3.BoolRef | None:
    if not op.operands[0].type.is_int:
        return None
    a, b = _operands(point, op)
    return _RELATIONS[op.name](a.term, b.term)


def _junction(join: Callable[..., z3.BoolRef]) -> Callable[[Point, Op], z3.BoolRef]:
    return lambda point, op: join([point.boolean(value) for value in op.operands])


_BOOLEANS: dict[str, Callable[[Point, Op], z3.BoolRef | None]] = {
    **dict.fromkeys(_RELATIONS, _compare),
    "and": _junction(z3.And),
    "or": _junction(z3.Or),
    "xor": lambda point, op: z3.Xor(*(point.boolean(value) for value in op.operands)),
    "not": lambda point, op: z3.Not(point.boolean(op.operands[0])),
    "const": lambda point, op: z3.BoolVal(bool(op.attrs["value"])),
    "select": lambda point, op: z3.If(*(point.boolean(value) for value in op.operands)),
    "cast": lambda point, op: point.integer(op.operands[0]).term != 0 if op.operands[0].type.is_int else None,
}
