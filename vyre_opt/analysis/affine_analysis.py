"""The affine expression of each integer value: an index in terms of ids, loop counters and constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ..ir import arith
from ..ir.loops import bounds
from ..ir.ops import AXES, SUBGROUP_SIZE
from ..ir.program import Op, Program, Value
from ..ir.uniformity import Level, Uniformity
from .affine import AffineExpr, ByLane, Digit, Range, Symbol, SymbolKind
from .congruence import fits
from .lane_values import LaneValues, affine_in_local_ids, is_by_lane
from .ranges import MAX_INVOCATIONS, result_range

__all__ = ["AffineAnalysis", "IdSplit", "LoopCounter", "Unknown"]

GROUP, LOCAL, LOOP, VALUE = SymbolKind
MAX_NAME = 80
MAX_VALUES = 1 << 16
"""A lane's own value becomes a symbol only if its range has at most this many values."""

IdSplit = tuple[str, int]
"""An axis and a divisor: the local id of the axis is expressed by its quotient and its remainder."""


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """A value without an affine expression, and the reason in words."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class LoopCounter:
    """The counter of a `for` with a constant step: `lower + step * symbol`.

    `lower_value` is the lower bound if it is a Value, `value` the counter itself.  The trip count lies
    between `min_trips` and `max_trips` for every lane.
    """

    symbol: Symbol
    lower: AffineExpr
    lower_value: Value | None
    step: int
    min_trips: int
    max_trips: int
    value: Value


class AffineAnalysis:
    """Affine expressions of a program's integer values, filled by `visit` in program order.

    A value that is uniform over the workgroup but not affine becomes a symbol itself; equal pure ops on
    equal expressions give equal symbols.  So does a lane's own value if its range is small, and where it depends
    on the local ids alone its symbol says what it is in each lane.

    A quotient of a local id is affine only in the digits of the id.  `missing_splits` collects the splits
    that would have given more expressions; a second analysis with these `id_splits` finds them.
    """

    def __init__(
        self, program: Program, uniformity: Uniformity, id_splits: frozenset[IdSplit] = frozenset()
    ) -> None:
        self.program = program
        self.uniformity = uniformity
        self.missing_splits: set[IdSplit] = set()
        self.exprs: dict[Value, AffineExpr | Unknown] = {}
        # for lanes' own values that depend on loaded data, the buffer that it was loaded from
        self.data_source: dict[Value, str] = {}
        self.ranges: dict[Value, Range] = {}  # without an entry: the range of the type
        self.counters: dict[Symbol, LoopCounter] = {}
        self.symbols: dict[
            tuple[object, ...], Symbol
        ] = {}  # of pure ops, keyed by what makes their values equal
        self.local = {
            axis: _local_id_expr(program, axis, sorted(at for name, at in id_splits if name == axis))
            for axis in AXES
        }
        self.lane_values = LaneValues(program.lanes, self.exprs)
        self.loops: list[Op] = []

    def expr(self, value: Value) -> AffineExpr | Unknown:
        """The expression of a visited value, modulo 2^bits of its type, or why there is none."""
        expr = self.exprs.get(value)
        return expr if expr is not None else Unknown("its value is not known")

    def exact(self, value: Value) -> AffineExpr | None:
        """The expression of `value` if they are equal as integers, not just modulo 2^bits."""
        expr = self.exprs.get(value)
        if not isinstance(expr, AffineExpr) or not value.type.is_int:
            return None
        return expr if fits(expr.range(), value.type) else None

    def split(self, expr: AffineExpr, divisor: int) -> tuple[AffineExpr, AffineExpr] | None:
        """Affine q and r with `expr = divisor * q + r` and r in [0, divisor), if there are such."""
        quotient = AffineExpr(
            expr.const // divisor, {s: c // divisor for s, c in expr.terms.items() if c % divisor == 0}
        )
        remainder = expr - quotient.scaled(divisor)
        # the remainder must stay below the divisor for all values of the symbols: in (8*a + 3*b) / 8 with b up
        # to 3, 3*b reaches 9 and carries into the quotient
        low, high = remainder.range()
        if 0 <= low and high < divisor:
            return quotient, remainder
        # a digit that reaches over the divisor, as in local_id / 16, would do if it were cut there
        for symbol, coefficient in remainder.terms.items():
            digit, (at, uneven) = symbol.digit, divmod(divisor, abs(coefficient))
            if digit is not None and not uneven and at < digit.radix and digit.radix % at == 0:
                self.missing_splits.add((digit.axis, digit.stride * at))
        return None

    # --- ops --------------------------------------------------------------------------

    def visit(self, op: Op) -> None:
        """Record the expressions of the results of an op without regions."""
        sources = (self.data_source[operand] for operand in op.operands if operand in self.data_source)
        source = op.attrs["buffer"] if op.name == "load" else next(sources, None)
        for result in op.results:
            if source is not None and self.uniformity.level(result) > Level.WORKGROUP:
                self.data_source[result] = source
            if result.type.is_int or result.type.is_bool:
                expr = None
                if len(op.results) == 1:
                    rule, self.ranges[result] = _RULES.get(op.name), result_range(op, self.ranges)
                    expr = rule(self, op) if rule is not None else None
                form = expr if expr is not None else self._opaque(op, result)
                if isinstance(form, AffineExpr) and is_by_lane(form):
                    form = self._put_together(form)
                self.exprs[result] = form
                if (exact := self.exact(result)) is not None:
                    self.ranges[result] = exact.range()
            elif result.type.is_vec:
                self.exprs[result] = Unknown("it is a vector")

    def _opaque(self, op: Op, result: Value) -> AffineExpr | Unknown:
        """A symbol for a non-affine result that is uniform or of a small range; otherwise Unknown."""
        if self.uniformity.level(result) <= Level.WORKGROUP:
            return AffineExpr.of(self._group_symbol(op, result))
        by_lane = self.lane_values.of_result(op, result) if result.type.is_int else None
        if by_lane is not None:
            limits = self.ranges[result] = min(by_lane), max(by_lane)
            if limits[1] - limits[0] < MAX_VALUES:
                name = f"%{result.name}"
                return AffineExpr.of(Symbol(VALUE, name, limits, identity=result, by_lane=by_lane))
        low, high = self.ranges.get(result) or arith.int_range(result.type)
        if result.type.is_int and high - low < MAX_VALUES:
            return AffineExpr.of(Symbol(VALUE, f"%{result.name}", (low, high), frozenset(self.loops), result))
        for operand in op.operands:
            expr = self.exprs.get(operand)
            if isinstance(expr, Unknown):
                return expr  # the reason nearest to the source says more
        return Unknown(f"{op.name} of a lane's value is not affine")

    def _put_together(self, expr: AffineExpr) -> AffineExpr:
        """The expression in local ids, as far as its terms of single lanes are affine in them."""
        ids = [symbol for local in self.local.values() for symbol in local.terms]
        return affine_in_local_ids(expr, ids, self.program.lanes)

    def _group_symbol(self, op: Op, result: Value) -> Symbol:
        """The symbol of a uniform value: one for all equal pure ops, whether or not cse ran."""
        inputs = [self.exprs.get(operand) for operand in op.operands]
        exprs = [expr for expr in inputs if isinstance(expr, AffineExpr)]
        # a load at equal indices may give two values: only pure ops of known operands are compared
        if not op.definition.is_pure or len(exprs) < len(inputs):
            return self._symbol(result)
        words = [str(op.attrs[a.name]) for a in op.definition.attrs]
        # expressions are modulo the types of the operands, and an op may have more results than one
        types = tuple(value.type for value in (result, *op.operands))
        key = (op.name, *words, op.results.index(result), types, *exprs)
        if key not in self.symbols:
            name = f"{op.name}({', '.join([*words, *map(str, exprs)])})"
            loops = frozenset().union(*(expr.loops for expr in exprs))
            self.symbols[key] = self._symbol(result, name if len(name) <= MAX_NAME else "", loops)
        return self.symbols[key]

    def _symbol(self, value: Value, name: str = "", loops: frozenset[Op] | None = None) -> Symbol:
        """A group symbol; without `loops`, it may change in every loop around."""
        varies_in = frozenset(self.loops) if loops is None else loops
        limits = self.ranges.get(value) or arith.int_range(value.type)
        return Symbol(GROUP, name or f"%{value.name}", limits, varies_in, value)

    def argument(self, value: Value, level: Level, what: str) -> None:
        """Record a block argument or a result of control flow: a symbol if it is uniform."""
        if level <= Level.WORKGROUP and (value.type.is_int or value.type.is_bool):
            self.exprs[value] = AffineExpr.of(self._symbol(value))
        else:
            self.exprs[value] = Unknown(f"it is {what}")

    # --- loops ------------------------------------------------------------------------

    def enter(self, loop: Op) -> LoopCounter | None:
        """Push a `for` or `while` and record its arguments; the counter of a `for` whose step and bounds allow one."""
        self.loops.append(loop)
        args = [arg for block in loop.regions for arg in block.args]
        counter = None
        if loop.name == "for":
            variable, *args = args
            counter = self._counter(loop, variable)
            if counter is None:
                self.argument(variable, self.uniformity.level(variable), "a loop counter of unknown bounds")
            else:
                self.counters[counter.symbol] = counter
                self.exprs[variable] = counter.lower + AffineExpr.of(counter.symbol).scaled(counter.step)
        for arg in args:
            self.argument(arg, self.uniformity.level(arg), "carried around a loop")
        return counter

    def leave(self) -> None:
        self.loops.pop()

    def _counter(self, loop: Op, variable: Value) -> LoopCounter | None:
        lower, upper, step = (
            AffineExpr(bound) if isinstance(bound, int) else self.exact(bound) for bound in bounds(loop)
        )
        if lower is None or upper is None or step is None or not step.is_const or step.const < 1:
            return None
        # fewest and most over the values of the symbols: lanes and workgroups may run different numbers
        low, high = (upper - lower).range()
        min_trips, max_trips = max(0, -(-low // step.const)), max(0, -(-high // step.const))
        if max_trips >= 1 << 31 or (lower.terms and any(s.kind is LOOP for s in lower.terms)):
            return None
        limit = arith.int_range(variable.type)[1]
        if upper.range()[1] + step.const - 1 > limit:
            return None  # the counter could wrap before it passes the bound
        iterations = (0, max(0, max_trips - 1))
        symbol = Symbol(LOOP, f"iteration(%{variable.name})", iterations, frozenset([loop]), loop)
        first = bounds(loop)[0]
        lower_value = first if isinstance(first, Value) else None
        return LoopCounter(symbol, lower, lower_value, step.const, min_trips, max_trips, variable)


def _local_id_expr(program: Program, axis: str, strides: list[int]) -> AffineExpr:
    """A local id as the sum of its digits with these `strides`, each a multiple of the one before."""
    terms: dict[Symbol, int] = {}
    place = AXES.index(axis)
    size, inner = program.workgroup[place], math.prod(program.workgroup[:place])
    for stride, end in pairwise([1, *strides, size]):
        name = f"local_id.{axis}"
        if stride > 1:
            name += f" / {stride}"
        if end < size:
            name += f" % {end // stride}"
        radix = end // stride
        digit = Digit(axis, stride, radix, size)
        by_lane = _digits(program.lanes, inner, size, stride, radix)
        name = f"({name})" if strides else name
        terms[Symbol(LOCAL, name, (0, radix - 1), digit=digit, by_lane=by_lane)] = stride
    return AffineExpr(0, terms if size > 1 else None)


# --- the expression of an op's result from those of its operands; None where it has none of its own


def _const(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    value = op.attrs["value"]
    return AffineExpr(value) if isinstance(value, int) else None


def _local_id(affine: AffineAnalysis, op: Op) -> AffineExpr:
    return affine.local[op.attrs["axis"]]


@lru_cache(maxsize=256)
def _digits(lanes: int, inner: int, size: int, stride: int, radix: int) -> ByLane:
    """A digit of each lane's local id along an axis; `inner`: lanes of which the id is the same."""
    return tuple(lane // inner % size // stride % radix for lane in range(lanes))


def _workgroup_id(affine: AffineAnalysis, op: Op) -> AffineExpr:
    axis = AXES.index(op.attrs["axis"])
    grid, lanes = affine.program.grid, affine.program.workgroup[axis]
    count = grid[axis] if grid else MAX_INVOCATIONS // lanes
    name = f"workgroup_id.{op.attrs['axis']}"
    return AffineExpr.of(Symbol(GROUP, name, (0, count - 1))) if count > 1 else AffineExpr(0)


def _global_id(affine: AffineAnalysis, op: Op) -> AffineExpr:
    lanes = affine.program.workgroup[AXES.index(op.attrs["axis"])]
    return _workgroup_id(affine, op).scaled(lanes) + affine.local[op.attrs["axis"]]


def _workgroup_size(affine: AffineAnalysis, op: Op) -> AffineExpr:
    return AffineExpr(affine.program.workgroup[AXES.index(op.attrs["axis"])])


def _num_workgroups(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    grid = affine.program.grid
    return AffineExpr(grid[AXES.index(op.attrs["axis"])]) if grid else None


def _global_size(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    grid, axis = affine.program.grid, AXES.index(op.attrs["axis"])
    return AffineExpr(grid[axis] * affine.program.workgroup[axis]) if grid else None


def _subgroup(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    """The lane or subgroup id: remainder and quotient of the linear local id."""
    width, height, _ = affine.program.workgroup
    x, y, z = affine.local.values()
    linear = x + y.scaled(width) + z.scaled(width * height)
    return _item(affine.split(linear, SUBGROUP_SIZE), 1 if op.name == "lane_id" else 0)


def _item(pair: tuple[AffineExpr, AffineExpr] | None, index: int) -> AffineExpr | None:
    return pair[index] if pair else None


def _len(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    count = affine.program.buffers[op.attrs["buffer"]].count
    is_known = count is not None and count <= arith.int_range(op.result.type)[1]
    return AffineExpr(count or 0) if is_known else None


def _operands(affine: AffineAnalysis, op: Op) -> tuple[AffineExpr, AffineExpr] | None:
    a, b = (affine.exprs.get(operand) for operand in op.operands)
    return (a, b) if isinstance(a, AffineExpr) and isinstance(b, AffineExpr) else None


def _sum(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    pair = _operands(affine, op)
    if pair is None:
        return None
    return pair[0] - pair[1] if op.name == "sub" else pair[0] + pair[1]


def _mul(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    pair = _operands(affine, op)
    if pair is None:
        return None
    a, b = pair
    return a.scaled(b.const) if b.is_const else b.scaled(a.const) if a.is_const else None


def _shl(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    pair = _operands(affine, op)
    if pair is None or not pair[1].is_const:
        return None
    return pair[0].scaled(1 << (pair[1].const % (op.results[0].type.bits or 1)))


def _neg(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    expr = affine.exprs.get(op.operands[0])
    return -expr if isinstance(expr, AffineExpr) else None


def _cast(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    """Wrapping to as many or fewer bits keeps the congruence; widening a wrapped value would not."""
    source, target = op.operands[0].type, op.results[0].type
    if not (source.is_int and target.is_int):
        return None
    if (target.bits or 0) > (source.bits or 0):
        return affine.exact(op.operands[0])
    expr = affine.exprs.get(op.operands[0])
    return expr if isinstance(expr, AffineExpr) else None


def _divide(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    # `split` rounds down, div and rem round to zero: they agree for dividends that are not negative
    a, divisor = affine.exact(op.operands[0]), affine.exact(op.operands[1])
    if a is None or divisor is None or not divisor.is_const or divisor.const < 1 or a.range()[0] < 0:
        return None
    return _item(affine.split(a, divisor.const), 1 if op.name == "rem" else 0)


def _shr(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    a, amount = affine.exact(op.operands[0]), affine.exact(op.operands[1])
    if a is None or amount is None or not amount.is_const or a.range()[0] < 0:
        return None
    return _item(affine.split(a, 1 << (amount.const % (op.results[0].type.bits or 1))), 0)


def _nonnegative_operands(affine: AffineAnalysis, op: Op) -> tuple[AffineExpr, AffineExpr] | None:
    """The exact operands of a bitwise op if neither is negative, a constant one last."""
    a, b = affine.exact(op.operands[0]), affine.exact(op.operands[1])
    if a is None or b is None or min(a.range()[0], b.range()[0]) < 0:
        return None
    return (b, a) if a.is_const else (a, b)


def _and(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    """Masking with 2^k - 1 is a remainder."""
    pair = _nonnegative_operands(affine, op)
    if pair is None or not pair[1].is_const or pair[1].const & (pair[1].const + 1):
        return None
    return _item(affine.split(pair[0], pair[1].const + 1), 1)


def _or(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    """A sum, where one operand is less than the largest power of two that divides the other."""
    pair = _nonnegative_operands(affine, op)
    for a, b in (pair, pair[::-1]) if pair else ():
        unit = math.gcd(a.const, *a.terms.values())
        if b.range()[1] < (unit & -unit):
            return a + b
    return None


def _xor(affine: AffineAnalysis, op: Op) -> AffineExpr | None:
    """A constant flips bits: where each flipped bit b is a digit of its own, it becomes 1 - b."""
    pair = _nonnegative_operands(affine, op)
    if pair is None or not pair[1].is_const:
        return None
    flipped, mask = pair[0], pair[1].const
    for place in range(mask.bit_length()):
        if mask >> place & 1:
            upper = affine.split(pair[0], 1 << place)
            bit = _item(affine.split(upper[0], 2), 1) if upper else None
            if bit is None:
                return None
            flipped += (AffineExpr(1) - bit.scaled(2)).scaled(1 << place)
    return flipped


_RULES: dict[str, Callable[[AffineAnalysis, Op], AffineExpr | None]] = {
    "const": _const, "local_id": _local_id, "workgroup_id": _workgroup_id, "global_id": _global_id,
    "workgroup_size": _workgroup_size, "num_workgroups": _num_workgroups, "global_size": _global_size,
    "lane_id": _subgroup, "subgroup_id": _subgroup, "len": _len, "add": _sum, "sub": _sum, "mul": _mul,
    "shl": _shl, "neg": _neg, "cast": _cast, "div": _divide, "rem": _divide, "shr": _shr, "and": _and, "or": _or,
    "xor": _xor,
}  # fmt: skip
