"""Footprints: which elements each access of a program touches, and in which order.

`Footprints(program).events` is the program as memory sees it, in program order: accesses with the
affine expression of their index, barriers and waits, and the loops and branches around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, product
from operator import mul

from ..ir.access_extents import access_extents, is_matrix_access, moved_type
from ..ir.program import Block, Op, Program, Value
from ..ir.types import DataType
from ..ir.uniformity import Level, Uniformity
from ..records import dataclass
from .affine import AffineExpr, Range, Symbol, SymbolKind
from .affine_analysis import AffineAnalysis, LoopCounter, Unknown
from .affine_rules import IdSplit
from .congruence import Residue, fits
from .elements import Elements
from .lane_values import sum_by_lane
from .virtual_index import EXACT, RADIX, along, components, virtual_index

__all__ = [
    "MemoryAccess",
    "Predicate",
    "Barrier",
    "BranchEnd",
    "BranchStart",
    "CopyWait",
    "Event",
    "Footprints",
    "LoopEnd",
    "LoopStart",
]

_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_HOLDS: dict[str, Callable[[int], bool]] = {
    "lt": lambda d: d < 0, "le": lambda d: d <= 0, "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0, "eq": lambda d: d == 0, "ne": lambda d: d != 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition under which an access happens.  Equal predicates hold together.

    `kind`: `uniform` (one truth value for the workgroup), `element` (depends only on the element that is
    accessed), or `lane`.  `loops`: those in which it may change from one iteration to the next.
    """

    kind: str
    key: object
    loops: frozenset[Op]

    def __str__(self) -> str:
        return str(self.key)


@dataclass(frozen=True, slots=True)
class Guard:
    """One conjunct of a branch condition: `value` is `holds`.

    If it compares integers, it also is `left relation right`, of integers of type `dtype`.  `expr`: the
    expression of the condition itself.
    """

    value: Value
    holds: bool
    level: Level
    relation: str = ""
    left: AffineExpr | None = None
    right: AffineExpr | None = None
    dtype: DataType | None = None
    loops: frozenset[Op] = frozenset()
    expr: AffineExpr | None = None

    def predicate(self, indices: Sequence[tuple[AffineExpr, DataType]]) -> Predicate:
        """The guard as a predicate on an access with these indices, by dimension."""
        for dimension, (index, dtype) in enumerate(indices):
            if self.dtype is not dtype or self.left is None or self.right is None:
                continue
            for relation, moving, bound in (
                (self.relation, self.left, self.right),
                (_FLIPPED[self.relation], self.right, self.left),
            ):
                # a bound on the index itself (`i < n`) holds for the element whichever lane accesses it
                offset = moving - index
                if _is_group(offset) and _is_group(bound):
                    # with the type: expressions may be equal where only one of the two indices wraps
                    key = ("index", dimension, relation, dtype.name, offset, bound)
                    return Predicate("element", key, offset.loops | bound.loops)
        if self.level <= Level.WORKGROUP:
            identity = self.expr if self.expr is not None else self.value
            return Predicate("uniform", (identity, self.holds), self.loops)
        return Predicate("lane", (self.value, self.holds), self.loops)


def _range_under(expr: AffineExpr, guards: Sequence[Guard]) -> Range:
    """The range of an expression where comparisons hold: `%c + 1` does not wrap where %c is below a length."""
    low, high = expr.range()
    for guard in guards:
        if guard.left is None or guard.right is None or guard.dtype is None:
            continue
        if not (fits(guard.left.range(), guard.dtype) and fits(guard.right.range(), guard.dtype)):
            continue  # a comparison of wrapped values is not one of their expressions
        for relation, moving, bound in (
            (guard.relation, guard.left, guard.right),
            (_FLIPPED[guard.relation], guard.right, guard.left),
        ):
            (least, most), (lowest, highest) = (expr - moving).range(), bound.range()
            if relation in ("lt", "le", "eq"):
                high = min(high, most + highest - (relation == "lt"))
            if relation in ("gt", "ge", "eq"):
                low = max(low, least + lowest + (relation == "gt"))
    return low, high


def _is_group(expr: AffineExpr) -> bool:
    return all(symbol.kind is SymbolKind.GROUP for symbol in expr.terms)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A load, store or atomic.

    `index`: expression of the element index; of a vector or a matrix, that of its first element.  In a buffer of several
    dimensions it is a virtual one, see virtual_index.py.
    `width`: elements accessed from there, in each of `rows` rows.  `count`: the buffer's elements, if known.
    `lanes`: ranges of local ids that the branches around leave; empty, `(1, 0)`, where no lane gets there.
    `lane_count`: of the workgroup.
    `guards`: the conditions of the branches around that are not such ranges.
    `loops`: counters of the loops around, outermost first; None for an unknown trip count.
    `inside`: the ops of these loops.
    """

    op: Op
    buffer: str
    is_write: bool
    is_atomic: bool
    index: AffineExpr | Unknown
    width: int
    rows: int
    count: int | None
    guards: tuple[Guard, ...]
    lanes: Mapping[Symbol, Range]
    loops: tuple[LoopCounter | None, ...]
    inside: tuple[Op, ...]
    lane_count: int

    @property
    def expr(self) -> AffineExpr:
        assert isinstance(self.index, AffineExpr)
        return self.index

    @property
    def dimensions(self) -> int:
        return len(self.op.indices)

    @property
    def is_collective(self) -> bool:
        """Whether a subgroup makes the access together, so that any of its lanes may touch any of the elements."""
        return is_matrix_access(self.op)

    @property
    def is_copy(self) -> bool:
        """Whether the written elements are visible only after a wait."""
        return self.op.name == "copy_async"

    def along(self) -> list[MemoryAccess]:
        """The access along each dimension, as if the index there were all of it."""
        if self.dimensions == 1 or not isinstance(self.index, AffineExpr):
            return [self] * self.dimensions
        exprs = components(self.index, self.dimensions)
        widths = [1] * (self.dimensions - 2) + [self.rows, self.width]
        return [
            replace(self, index=expr, width=width, rows=1) for expr, width in zip(exprs, widths, strict=True)
        ]

    @property
    def residue(self) -> Residue:
        """The arithmetic that relates the elements to the expression of the index."""
        if self.dimensions > 1:
            return EXACT
        return Residue.of(self.op.index.type, self.expr, self.width, self.count)

    @property
    def predicates(self) -> frozenset[Predicate]:
        # a condition on the first element of a vector or a matrix says nothing of the others
        indices: list[tuple[AffineExpr, DataType]] = []
        if isinstance(self.index, AffineExpr) and self.width == self.rows == 1:
            exprs = components(self.index, self.dimensions)
            indices = [(expr, value.type) for expr, value in zip(exprs, self.op.indices, strict=True)]
        return frozenset(guard.predicate(indices) for guard in self.guards)

    def elements(self) -> Elements | None:
        """The elements that the lanes of a workgroup may access in one iteration, relative to the terms of
        the workgroup and the loops; None if they span too far to track.

        This is exact unless the index `has_unknown`, then an upper bound.
        """
        elements: Elements | None = self.first_elements()
        moving = self.expr.terms_of(SymbolKind.LOCAL, SymbolKind.VALUE)
        if any(symbol.kind is SymbolKind.VALUE and symbol.by_lane is not None for symbol in moving.terms):
            # not a sum of ranges: l / 3 and l % 3 move together
            unknown = AffineExpr(0, {s: c for s, c in moving.terms.items() if s.by_lane is None})
            known_part = AffineExpr(self.expr.const) + moving - unknown
            elements, moving = self._elements_by_lane(known_part), unknown
        for symbol, coefficient in moving.terms.items():
            if elements is not None:
                lowest, highest = self.lanes.get(symbol, symbol.range)
                shifted = elements.shifted(coefficient * lowest)
                elements = shifted and shifted.spread(coefficient, highest - lowest + 1)
        if elements is not None and any(highest < lowest for lowest, highest in self.lanes.values()):
            return Elements(0, 0)  # no lane gets here
        return elements

    def first_elements(self) -> Elements | None:
        """The elements where all symbols are 0."""
        element = Elements.single(self.expr.const, self.dimensions)
        return None if element is None else self._moved_from(element)

    def _moved_from(self, starts: Elements) -> Elements | None:
        """The elements of accesses whose first elements these are."""
        row = starts.spread(1, self.width)
        return None if row is None else row.spread(RADIX, self.rows)

    def _elements_by_lane(self, expr: AffineExpr) -> Elements | None:
        """The elements of the lanes that get here, where `expr`, the index, depends on local ids alone."""
        present = [
            all(
                lowest <= symbol.by_lane[lane] <= highest
                for symbol, (lowest, highest) in self.lanes.items()
                if symbol.by_lane is not None
            )
            for lane in range(self.lane_count)
        ]
        offsets = compress(sum_by_lane(expr, self.lane_count) or (), present)
        starts = Elements.of(offsets, self.dimensions)
        return None if starts is None else self._moved_from(starts)

    def describe(self) -> str:
        """The access in words: `load @b[64*workgroup_id.x + local_id.x]`."""
        where = along(self.index, self.dimensions) if isinstance(self.index, AffineExpr) else "?"
        last = ", ".join(f"+{extent - 1}" for extent in (self.rows, self.width)[self.rows == 1 :])
        span = f" .. {last}" if self.width * self.rows > 1 else ""
        return f"{self.op.name} @{self.buffer}[{where}{span}]"


@dataclass(frozen=True, slots=True)
class Barrier:
    op: Op
    scope: str


@dataclass(frozen=True, slots=True)
class CopyWait:
    """Each invocation waits for its copies, except those issued since the last `pending` waits before this one."""

    op: Op
    pending: int


@dataclass(frozen=True, slots=True)
class LoopStart:
    """A loop begins; `counter` is None for a while and for a for of unknown trips."""

    op: Op
    counter: LoopCounter | None


@dataclass(frozen=True, slots=True)
class LoopEnd:
    op: Op
    counter: LoopCounter | None


@dataclass(frozen=True, slots=True)
class BranchStart:
    """An arm of an `if` begins: region `arm` of `op`."""

    op: Op
    arm: int


@dataclass(frozen=True, slots=True)
class BranchEnd:
    """An arm ends.  `guards`, `lanes`: those of an access around the `if`, see MemoryAccess."""

    op: Op
    arm: int
    guards: tuple[Guard, ...]
    lanes: Mapping[Symbol, Range]


Event = MemoryAccess | Barrier | CopyWait | LoopStart | LoopEnd | BranchStart | BranchEnd


class Footprints:
    """The memory events of a program, and the affine analysis behind them."""

    name = "footprints"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uniformity = Uniformity(program)
        id_splits = frozenset[IdSplit]()
        # Splitting local ids into digits makes more quotients affine, so the walk is repeated with the
        # splits that were missing.  Each round adds one at least: a missing split is within a digit, so
        # it fits all earlier ones; only those found in one round may exclude each other.
        while True:
            self.affine = AffineAnalysis(program, self.uniformity, id_splits)
            self.events: list[Event] = []
            self.comparisons: dict[Value, Op] = {}
            self.kernels: list[Op] = []
            self._guards: tuple[Guard, ...] = ()
            self._lanes: dict[Symbol, Range] = {}
            self._loops: tuple[LoopCounter | None, ...] = ()
            self._block(program.body)
            if not self.affine.operands.missing_splits:
                break
            for axis, at in sorted(self.affine.operands.missing_splits):
                others = [other for name, other in id_splits if name == axis]
                if all(at % other == 0 or other % at == 0 for other in others):
                    id_splits |= {(axis, at)}

    def accesses(self, buffer: str) -> list[MemoryAccess]:
        """The accesses of one buffer, in program order."""
        return [e for e in self.events if isinstance(e, MemoryAccess) and e.buffer == buffer]

    # --- the walk ---------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.regions:
                self._structured(op)
                continue
            effects = op.definition.effects
            if not effects:
                self.affine.visit(op)
                if op.definition.format == "compare" or op.name in ("and", "or", "not"):
                    self.comparisons[op.results[0]] = op
            elif op.definition.kernel is not None:
                self.kernels.append(op)
            elif "buffer" in op.attrs:
                self._access(op)
                self.affine.visit(op)
            else:
                if op.name == "barrier":
                    self.events.append(Barrier(op, op.attrs["scope"]))
                elif op.name == "copy_wait":
                    self.events.append(CopyWait(op, op.attrs["pending"]))
                self.affine.visit(op)

    def _access(self, op: Op) -> None:
        effects = op.definition.effects
        buffer = self.program.buffers[op.attrs["buffer"]]
        index = self.index(op, self.affine.expr, self._guards)
        *outer, width = access_extents(op, buffer)
        rows = outer[-1] if outer else 1
        around = self._guards, self._lanes, self._loops, tuple(self.affine.loops), self.program.lanes
        key = buffer.name, "write" in effects, "atomic" in effects, index, width, rows, buffer.count
        self.events.append(MemoryAccess(op, *key, *around))

    def index(
        self, op: Op, form: Callable[[Value], AffineExpr | Unknown | None], guards: tuple[Guard, ...]
    ) -> AffineExpr | Unknown:
        """The expression of the element of an access; `form`: that of an index, `guards`: around the access."""
        if is_matrix_access(op) and not moved_type(op).is_matrix:
            return Unknown(
                "its rows are as far apart as a value says"
            )  # in a lowered program, see row_major.py
        if len(op.indices) == 1:
            return form(op.index) or Unknown("its value is not known")
        virtual = virtual_index(
            op, self.program.buffers[op.attrs["buffer"]], form, lambda expr: _range_under(expr, guards)
        )
        if isinstance(virtual, AffineExpr):
            return virtual
        if isinstance(virtual.unknown, Unknown):
            return Unknown(f"along dimension {virtual.dimension} {virtual.unknown.reason}")
        return Unknown(f"along dimension {virtual.dimension} it may wrap around its type")

    def data_source(self, access: MemoryAccess) -> str | None:
        """The buffer from which an index of the access was loaded, if one depends on loaded data."""
        sources = map(self.affine.data_source.get, access.op.indices)
        return next((source for source in sources if source is not None), None)

    def _structured(self, op: Op) -> None:
        if op.name in ("for", "while"):
            self._loop(op)
        elif op.name == "if":
            for number, block in enumerate(op.regions):
                self._branch(op, block, number)
        else:
            self._block(op.regions[0])
        for index, result in enumerate(op.results):
            self._result(op, index, result)

    def _result(self, op: Op, index: int, result: Value) -> None:
        if op.name == "region":
            end = op.regions[0].terminator
            expr = self.affine.expr(end.operands[index]) if end is not None else None
            # a VALUE symbol is an op of the region, whose value may not be used outside
            if isinstance(expr, AffineExpr) and not expr.terms_of(SymbolKind.VALUE).terms:
                self.affine.exprs[result] = expr
                return
        origin = "carried around a loop" if op.name in ("for", "while") else "chosen by a branch"
        self.affine.argument(result, self.uniformity.level(result), origin)

    def _loop(self, op: Op) -> None:
        counter = self.affine.enter(op)
        self.events.append(LoopStart(op, counter))
        outer, self._loops = self._loops, (*self._loops, counter)
        for block in op.regions:
            self._block(block)
        self._loops = outer
        self.events.append(LoopEnd(op, counter))
        self.affine.leave()

    def _branch(self, op: Op, block: Block, arm: int) -> None:
        guards, lanes = self._guards, self._lanes
        self.events.append(BranchStart(op, arm))
        for guard in self._conjuncts(op.operands[0], arm == 0):
            outer = self._narrow(guard)
            if outer is None:
                self._guards = (*self._guards, guard)
            else:
                self._lanes = {**self._lanes, **outer}
        self._block(block)
        self._guards, self._lanes = guards, lanes
        self.events.append(BranchEnd(op, arm, guards, lanes))

    # --- conditions -------------------------------------------------------------------

    def _conjuncts(self, value: Value, holds: bool) -> list[Guard]:
        """The conjuncts of "`value` is `holds`": taken apart by `and`, `or` and `not`."""
        guards: list[Guard] = []
        stack, seen = [(value, holds)], set()
        while stack:
            current, truth = stack.pop()
            if (current, truth) in seen:
                continue
            seen.add((current, truth))
            op = self.comparisons.get(current)
            if op is not None and op.name == "not":
                stack.append((op.operands[0], not truth))
            elif op is not None and op.name == ("and" if truth else "or"):
                stack += [(operand, truth) for operand in reversed(op.operands)]
            else:
                guards.append(self._guard(current, truth, op))
        return guards

    def _guard(self, value: Value, holds: bool, op: Op | None) -> Guard:
        level, form = self.uniformity.level(value), self.affine.exprs.get(value)
        expr = form if isinstance(form, AffineExpr) else None
        varies_in = expr.loops if expr is not None else frozenset(self.affine.loops)
        if op is None or op.definition.format != "compare" or not op.operands[0].type.is_int:
            return Guard(value, holds, level, loops=varies_in, expr=expr)
        left, right = (self.affine.exprs.get(operand) for operand in op.operands)
        if not (isinstance(left, AffineExpr) and isinstance(right, AffineExpr)):
            return Guard(value, holds, level, loops=varies_in, expr=expr)
        relation = op.name if holds else _NEGATED[op.name]
        varies_in = varies_in | left.loops | right.loops
        return Guard(value, holds, level, relation, left, right, op.operands[0].type, varies_in, expr)

    def _narrow(self, guard: Guard) -> dict[Symbol, Range] | None:
        """The guard as ranges of local ids, if it says exactly that; an empty range if no lane fulfils it."""
        op = self.comparisons.get(guard.value)
        if guard.left is None or guard.right is None or op is None:
            return None
        if any(self.affine.exact(operand) is None for operand in op.operands):
            return None  # a comparison of wrapped values is not one of their expressions
        difference = guard.left - guard.right
        symbols, coefficients = list(difference.terms), list(difference.terms.values())
        if not symbols or any(symbol.kind is not SymbolKind.LOCAL for symbol in symbols):
            return None
        ranges = [self._lanes.get(symbol, symbol.range) for symbol in symbols]
        holds = _HOLDS[guard.relation]
        # every lane is tried: ids have no more values together than the workgroup has lanes
        points = [
            point
            for point in product(*(range(lowest, highest + 1) for lowest, highest in ranges))
            if holds(difference.const + sum(map(mul, coefficients, point)))
        ]
        if not points:
            return {symbols[0]: (1, 0)}
        # lane pairs such as x + y < 8 are a triangle: the box around it holds lanes that do not get here, so
        # such a condition stays a guard
        box = [(min(values), max(values)) for values in zip(*points, strict=True)]
        is_full = math.prod(highest - lowest + 1 for lowest, highest in box) == len(points)
        return dict(zip(symbols, box, strict=True)) if is_full else None
