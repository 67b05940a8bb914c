"""The affine expression of each integer value: an index in terms of ids, loop counters and constants."""

from __future__ import annotations

from ..ir import arith
from ..ir.loops import bounds
from ..ir.program import Op, Program, Value
from ..ir.uniformity import Level, Uniformity
from ..records import dataclass
from .affine import AffineExpr, Range, Symbol, SymbolKind
from .affine_rules import IdSplit, OperandForms, local_ids, result_form
from .congruence import fits
from .lane_values import LaneValues, put_together
from .ranges import result_range

__all__ = ["AffineAnalysis", "LoopCounter", "Unknown"]

MAX_NAME = 80
MAX_VALUES = 1 << 16
"""A lane's own value becomes a symbol only if its range has at most this many values."""


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
        self.operands = OperandForms(
            program, program.lanes, local_ids(program, program.lanes, id_splits), self.form, self.exact
        )
        self.exprs: dict[Value, AffineExpr | Unknown] = {}
        # for lanes' own values that depend on loaded data, the buffer that it was loaded from
        self.data_source: dict[Value, str] = {}
        self.ranges: dict[Value, Range] = {}  # without an entry: the range of the type
        self.counters: dict[Symbol, LoopCounter] = {}
        self.symbols: dict[
            tuple[object, ...], Symbol
        ] = {}  # of pure ops, keyed by what makes their values equal
        self.lane_values = LaneValues(program.lanes, self.form)
        self.loops: list[Op] = []

    def expr(self, value: Value) -> AffineExpr | Unknown:
        """The expression of a visited value, modulo 2^bits of its type; Unknown, with the reason, if it has none."""
        expr = self.exprs.get(value)
        return expr if expr is not None else Unknown("its value is not known")

    def form(self, value: Value) -> AffineExpr | None:
        """The expression of a visited value, if it has one."""
        expr = self.exprs.get(value)
        return expr if isinstance(expr, AffineExpr) else None

    def exact(self, value: Value) -> AffineExpr | None:
        """The expression of `value` if they are equal as integers, not just modulo 2^bits."""
        expr = self.form(value)
        if expr is None or not value.type.is_int:
            return None
        return expr if fits(expr.range(), value.type) else None

    # --- ops --------------------------------------------------------------------------

    def visit(self, op: Op) -> None:
        """Record the expressions of the results of an op without regions."""
        sources = (self.data_source[operand] for operand in op.operands if operand in self.data_source)
        source = op.attrs["buffer"] if op.name == "load" else next(sources, None)
        for result in op.results:
            if source is not None and self.uniformity.level(result) > Level.WORKGROUP:
                self.data_source[result] = source
            if result.type.is_int or result.type.is_bool:
                form = None
                if len(op.results) == 1:
                    self.ranges[result] = result_range(op, self.ranges)
                    form = result_form(op, self.operands)
                expr = form if form is not None else self._opaque(op, result)
                if isinstance(expr, AffineExpr):
                    expr = put_together(expr, self.operands.local.values(), self.program.lanes)
                self.exprs[result] = expr
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
                return AffineExpr.of(Symbol(SymbolKind.VALUE, name, limits, identity=result, by_lane=by_lane))
        low, high = self.ranges.get(result) or arith.int_range(result.type)
        if result.type.is_int and high - low < MAX_VALUES:
            return AffineExpr.of(
                Symbol(SymbolKind.VALUE, f"%{result.name}", (low, high), frozenset(self.loops), result)
            )
        for operand in op.operands:
            expr = self.exprs.get(operand)
            if isinstance(expr, Unknown):
                return expr  # the reason nearest to the source says more
        return Unknown(f"{op.name} of a lane's value is not affine")

    def _group_symbol(self, op: Op, result: Value) -> Symbol:
        """The symbol of a uniform value: one for all equal pure ops, whether or not cse ran."""
        inputs = [self.exprs.get(operand) for operand in op.operands]
        exprs = [expr for expr in inputs if isinstance(expr, AffineExpr)]
        # a load at equal indices may give two values: only pure ops of known operands are compared
        if not op.definition.is_pure or len(exprs) < len(inputs):
            return self._symbol(result)
        attrs = [str(op.attrs[a.name]) for a in op.definition.attrs if a.name in op.attrs]
        # expressions are modulo the types of the operands, and an op may have more results than one
        types = tuple(value.type for value in (result, *op.operands))
        key = (op.name, *attrs, op.results.index(result), types, *exprs)
        if key not in self.symbols:
            name = f"{op.name}({', '.join([*attrs, *map(str, exprs)])})"
            loops = frozenset().union(*(expr.loops for expr in exprs))
            self.symbols[key] = self._symbol(result, name if len(name) <= MAX_NAME else "", loops)
        return self.symbols[key]

    def _symbol(self, value: Value, name: str = "", loops: frozenset[Op] | None = None) -> Symbol:
        """A group symbol; without `loops`, it may change in every loop around."""
        varies_in = frozenset(self.loops) if loops is None else loops
        limits = self.ranges.get(value) or arith.int_range(value.type)
        return Symbol(SymbolKind.GROUP, name or f"%{value.name}", limits, varies_in, value)

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
        if max_trips >= 1 << 31 or (lower.terms and any(s.kind is SymbolKind.LOOP for s in lower.terms)):
            return None
        limit = arith.int_range(variable.type)[1]
        if upper.range()[1] + step.const - 1 > limit:
            return None  # the counter could wrap before it passes the bound
        iterations = (0, max(0, max_trips - 1))
        symbol = Symbol(SymbolKind.LOOP, f"iteration(%{variable.name})", iterations, frozenset([loop]), loop)
        first = bounds(loop)[0]
        lower_value = first if isinstance(first, Value) else None
        return LoopCounter(symbol, lower, lower_value, step.const, min_trips, max_trips, variable)
