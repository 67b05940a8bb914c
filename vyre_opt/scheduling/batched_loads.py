"""Loops that load for several iterations at once, so that each lane has more bytes in flight.

    for %c = %l to %n step 256 iter(%a) {      for %c = %l to %n step 1024 iter(%a) {
      %v = load @x[%c]                           if all of %c, %c + 256, %c + 512, %c + 768 are below %n {
      yield %a + %v                                %v0 = load @x[%c]  ...  %v3 = load @x[%c + 768]
    }                                              yield %a + %v0 + %v1 + %v2 + %v3
                                                 } else {
                                                   %v0 = load @x[%c]
                                                   %v1 = load @x[%c + 256 < %n ? %c + 256 : %c]  ...
                                                   yield %a + %v0 + %v1 ..., for iterations that exist
                                                 }
                                               }

Each iteration computes the same values in the same order; only loads of the next few iterations precede it.  They are of
buffers that the loop does not write, or whose elements no other iteration touches.  If invocations meet in the loop, all
must have the same iterations, and the loads must be of buffers that the program does not write.

Where each lane reads a row of its own, the loads become one vector load:

    for %c = 0 to %n iter(%a) {                for %c = 0 to %n step 64 iter(%a) {
      %v = load @x[%row, %c]                     if %c + 63 is below %n {
      yield %a + %v                                %v = load @x[%row, %c] : vec<64 x f32>
    }                                              yield %a + %v[0] + %v[1] + ..., %v[63]
                                                 } else {
                                                   as above, from %c on
                                                 }
                                               }
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ..analysis.alignment import Alignment
from ..analysis.bounds import BoundsProofs
from ..analysis.effects import Effects, effects_of, summarize
from ..analysis.linear import LinearAnalysis
from ..analysis.refusal import Refusal
from ..fusion.halo_recompute import OpEmitter
from ..fusion.remark_sink import RemarkSink
from ..ir import arith
from ..ir.loops import BOUND_NAMES, bounds, trip_count, with_bounds
from ..ir.ops import OPS, SUBGROUP_SIZE
from ..ir.program import Block, Op, Program, Shape, Value
from ..ir.rewrite import clone, conditional, needed_ops, operands_within, splittable
from ..ir.types import DataType
from ..ir.uniformity import Level, Uniformity
from ..records import dataclass
from ..rewriting.walker import Walker
from .loop_facts import invocations_meet, is_inner, known_shapes, most_trips, op_numbers

__all__ = ["batch_loads", "iterations"]

BYTES = 32
"""Bytes that a lane has in flight if the loop is long enough."""
MAX_BATCH = 8
"""The most iterations that load at once."""
ROW_BYTES, MAX_ROW_BATCH = 256, 64
"""The same for loops in which each lane reads a row of its own."""
MIN_ROW_BATCH = 8
"""The fewest elements of a row that are loaded as one vector."""
_PRODUCT = (
    "this loop makes an element of the product of @{} and @{}; blocks do it by tiles, and by matrix units where there are some: "
    "`total += a[i:i+64, k:k+32] @ b[k:k+32, j:j+64]` in Python, slice_dot in a text, or kernels.matmul(a, b)"
)
MAX_OPS = 512
"""Most ops that may replace one loop."""


def batch_loads(program: Program, sink: RemarkSink, trips: Sequence[int | None], waits: bool = False) -> int:
    """Rewrite the innermost loops of a program, in place; return how many changed.

    `trips`: see `iterations`.  `waits`: leave loops whose trip count depends on an unknown length.
    """
    if not trips:
        return 0
    batcher = _Batcher(program, sink, trips, waits)
    batcher.walk_block(program.body)
    return batcher.changes


def iterations(program: Program, shapes: Mapping[str, Shape] | None = None) -> tuple[int | None, ...]:
    """The most iterations of each innermost loop, capped at MAX_BATCH, or at MAX_ROW_BATCH for loads along rows.

    Numbers above MAX_BATCH are rounded down to a power of two.  None if the trip count depends on an unknown length.
    `shapes`: see `known_shapes`.
    """
    all_shapes = known_shapes(program, shapes)

    def most_iterations(loop: Op) -> int | None:
        limit = MAX_ROW_BATCH if any(_is_along_row(loop, op) for op in loop.walk()) else MAX_BATCH
        trips = most_trips(loop, all_shapes, limit)
        return trips if trips is None or trips <= MAX_BATCH else 1 << (trips.bit_length() - 1)

    return tuple([most_iterations(op) for op in program.walk() if is_inner(op)])


@dataclass(frozen=True, slots=True)
class _Plan:
    """`early`: ops of the body that move before earlier iterations: `loads`, and the ops that their indices need.

    `rows`: loads that become one vector load for `row_by` iterations, where there are so many."""

    loop: Op
    early: Sequence[Op]
    loads: Sequence[Op]
    by: int
    rows: frozenset[Op] = frozenset()
    row_by: int = 0

    def __str__(self) -> str:
        return f"{self.row_by or self.by} iterations at a time{', along rows' if self.rows else ''}"


class _Batcher(Walker):
    def __init__(self, program: Program, sink: RemarkSink, trips: Sequence[int | None], waits: bool) -> None:
        super().__init__()
        self.program, self.sink, self.trips, self.waits = program, sink, iter(trips), waits
        self.numbers = op_numbers(program)

    @cached_property
    def summary(self) -> tuple[Effects, dict[Op, Effects]]:
        """The effects of the program, and of its structured ops."""
        return summarize(self.program.body)

    @cached_property
    def uniformity(self) -> Uniformity:
        return Uniformity(self.program)

    @cached_property
    def linear(self) -> LinearAnalysis:
        return LinearAnalysis(self.program, Alignment(self.program))

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        if not is_inner(op):
            super().visit_structured(op, out)
            return
        if factors := product_of_matrices(op):
            self.sink.remark("note", _PRODUCT.format(*factors), op.loc)
        plan = self.plan(op, next(self.trips))
        if isinstance(plan, Refusal):
            if plan.message:
                self.sink.remark(
                    "refused", f"this loop loads for one iteration at a time: {plan.message}", op.loc
                )
            out.append(op)
            return
        self.changes += 1
        self.sink.remark(
            "applied",
            f"this loop loads for {plan}",
            op.loc,
            claim="batch",
            program=self.program.name,
            loops=[self.numbers[op]],
        )
        out += _Batch(plan).ops()

    @cached_property
    def proofs(self) -> BoundsProofs:
        return BoundsProofs(self.program)

    # --- loads that may move before earlier iterations ---------------------------------------

    def plan(self, loop: Op, trips: int | None) -> _Plan | Refusal:
        (body,) = loop.regions
        ops, _ = splittable(body)
        step = bounds(loop)[2]
        has_load = any(op.name == "load" for op in body.walk())
        if not has_load or (trips is not None and trips < 2):
            return Refusal("batch", "")
        if trips is None and self.waits:
            return Refusal("batch", "how many it has is known when it is called")
        effects = self.summary[1][loop]
        early, loads, reason = self.hoistable_ops(loop, ops)
        size = sum(load.result.type.size_bytes or 0 for op in loads for load in _loads_in(op))
        if not loads:
            return Refusal("batch", reason)
        meets = invocations_meet(loop, effects)
        if meets and not self.is_uniform(loop):
            return Refusal("batch", "invocations meet in it, of which some may have fewer iterations")
        if meets and any(
            load.attrs["buffer"] in self.summary[0].writes for op in loads for load in _loads_in(op)
        ):
            return Refusal("batch", "invocations meet in it, before which others may write what it loads")
        if effects.stops or effects.prints:
            return Refusal("batch", "it may stop, or print, before it loads again")
        if any(value.type.is_vec for load in loads for value in load.results):
            return Refusal("batch", "it loads vectors")
        if not isinstance(step, int):
            return Refusal("batch", "its step is not constant")
        count = sum(1 for _ in body.walk())

        def batch_size(most: int, most_bytes: int, copies: int) -> int:
            """Iterations at once, a power of two or 0; `copies`: copies of the body for each."""
            by = min(most, MAX_OPS // (copies * (count + 4)), most_bytes // max(1, size))
            by = min(by, most if trips is None else trips)
            return 1 << (by.bit_length() - 1) if by else 0

        by = batch_size(MAX_BATCH, BYTES, 2)
        counter = body.args[0].type
        lower = bounds(loop)[0]
        if by < 2:
            return Refusal("batch", f"it loads {size} bytes in each, and has {count} ops")
        if by * step > arith.int_range(counter)[1]:
            return Refusal("batch", f"{by} steps of {step} do not fit in {counter}")
        if counter.is_signed and not (isinstance(lower, int) and lower >= 0):
            return Refusal("batch", f"the distance between its bounds may not fit in {counter}")
        rows = frozenset(load for load in loads if self.has_own_rows(loop, load))
        row_by = batch_size(MAX_ROW_BATCH, ROW_BYTES, 1) if rows and step == 1 else 0
        if row_by < MIN_ROW_BATCH or row_by * step > arith.int_range(counter)[1]:
            return _Plan(loop, early, loads, by)
        return _Plan(loop, early, loads, by, rows, row_by)

    def has_own_rows(self, loop: Op, load: Op) -> bool:
        """Whether lanes load along rows of their own, surely in bounds: a vector load is clamped, and faults, as a whole."""
        if not _is_along_row(loop, load) or self.program.workgroup[0] % SUBGROUP_SIZE:
            return False
        if load not in self.proofs.proven:
            return False
        terms = [term for index in load.indices[:-1] for term, _ in self.linear.of(index)[0]]
        return any(term in (("global_id", "x"), ("local_id", "x")) for term in terms)

    def hoistable_ops(self, loop: Op, ops: Sequence[Op]) -> tuple[list[Op], list[Op], str]:
        """The ops that may move before earlier iterations, the loads among them, and why another load may not."""
        counter = loop.regions[0].args[0]
        late: set[Value] = set(loop.regions[0].args[1:])
        pure: list[Op] = []
        loads: list[Op] = []
        written_buffers: frozenset[str] = frozenset()
        reason = ""
        for op in ops:
            is_free = late.isdisjoint(operands_within(op))
            conflict = (
                self.alias_conflict(loop, op, counter, written_buffers) if is_free and _is_load(op) else ""
            )
            if is_free and op.definition.is_pure and not op.regions:
                pure.append(op)
            elif is_free and _is_load(op) and not conflict:
                loads.append(op)
            else:
                reason = conflict or reason
                late.update(op.results)
            written_buffers |= (self.summary[1].get(op) or effects_of(op)).writes
        free = {*loads, *pure}
        hoistable = needed_ops([op for op in ops if op in free], [v for load in loads for v in load.results])
        return hoistable, loads, reason

    def is_uniform(self, loop: Op) -> bool:
        """Whether all invocations of a workgroup that reach the loop have the same iterations."""
        return all(self.uniformity.level(v) <= Level.WORKGROUP for v in bounds(loop) if isinstance(v, Value))

    def alias_conflict(self, loop: Op, load: Op, counter: Value, written_before: Collection[str]) -> str:
        """Why a load may not move before earlier iterations: one of them, or its own before the load, may write its element.

        `written_before`: buffers that its own iteration writes before the load.  Empty if it may move."""
        names = {each.attrs["buffer"] for each in _loads_in(load)}
        name = next((name for name in sorted(names) if name in written_before), None)
        if name is not None:
            return f"it may have written the element of @{name} that it loads"
        name = next((name for name in sorted(names) if name in self.summary[1][loop].writes), None)
        if name is None:
            return ""
        conflict = f"an earlier iteration may write the element of @{name} that it loads"
        if load.regions:
            return conflict
        terms, const = self.linear.of(load.indices[-1])
        own_terms = dict(terms)
        if (counter.type.bits or 1) > (load.indices[-1].type.bits or 1):
            return conflict  # the index may wrap around, and then iterations share an element
        if own_terms.pop(counter, 0) != 1 or any(
            _is_inside(term, loop) for term in (*own_terms, *load.indices[:-1])
        ):
            return conflict
        for op in loop.regions[0].walk():
            if op.attrs.get("buffer") != name or op.name == "len":
                continue
            if op.name not in ("load", "store") or op.indices[:-1] != load.indices[:-1]:
                return conflict
            index = op.indices[-1]
            if self.linear.of(index) != (terms, const) or index.type is not load.indices[-1].type:
                return conflict
            if (op.operands[0] if op.name == "store" else op.result).type is not load.result.type:
                return conflict  # an access of a vector also touches neighbours
        return ""


def _is_load(op: Op) -> bool:
    """Whether this is a load, or a branch that contains only loads and pure ops."""
    if op.name != "if":
        return op.name == "load"
    inside = (each.name in ("load", "yield", "if") or each.definition.is_pure for each in op.walk())
    return bool(op.results) and all(inside)


def _loads_in(op: Op) -> list[Op]:
    return [each for each in op.walk() if each.name == "load"]


def product_of_matrices(loop: Op) -> tuple[str, str] | None:
    """Names of two matrices if the loop sums an element of their product; None otherwise."""
    counter, *carried = loop.regions[0].args
    _, yielded = splittable(loop.regions[0])
    if len(carried) != 1 or not isinstance(total := yielded[0].owner, Op):
        return None
    factors = total.operands[:2] if total.name == "fma" and total.operands[2] is carried[0] else ()
    if total.name == "add" and carried[0] in total.operands:
        product = next((value.owner for value in total.operands if value is not carried[0]), None)
        factors = product.operands if isinstance(product, Op) and product.name == "mul" else ()
    loads = [value.owner for value in factors if isinstance(value.owner, Op) and value.owner.name == "load"]
    if len(loads) != 2 or any(len(load.indices) != 2 for load in loads):
        return None
    row_loads = [load for load in loads if load.indices[1] is counter and load.indices[0] is not counter]
    column_loads = [load for load in loads if load.indices[0] is counter and load.indices[1] is not counter]
    return (
        (row_loads[0].attrs["buffer"], column_loads[0].attrs["buffer"])
        if row_loads and column_loads
        else None
    )


def _is_along_row(loop: Op, op: Op) -> bool:
    """Whether each iteration loads the element of a row of a matrix at its counter."""
    if op.name != "load" or len(op.indices) < 2 or op.result.type.is_vec:
        return False
    return op.indices[-1] is loop.regions[0].args[0] and not any(
        _is_inside(index, loop) for index in op.indices[:-1]
    )


def _is_inside(term: object, loop: Op) -> bool:
    """Whether a term may have another value in another iteration."""
    if isinstance(term, tuple):  # an id, or a cast, whose operand may vary
        return bool(term[0] == "cast")
    inside = {value for op in loop.regions[0].walk() for value in op.results}
    return term in inside or term in loop.regions[0].args


class _Batch:
    """Writes a loop with the loads of `by` iterations first."""

    def __init__(self, plan: _Plan) -> None:
        self.plan, self.loop, self.by = plan, plan.loop, plan.row_by or plan.by
        self.remaining = [op for op in splittable(plan.loop.regions[0])[0] if op not in set(plan.loads)]

    def ops(self) -> list[Op]:
        loop, by = self.loop, self.by
        lower, upper, step = bounds(loop)
        assert isinstance(step, int)
        counter, *arguments = loop.regions[0].args
        out: list[Op] = []
        end = upper if isinstance(upper, Value) else OpEmitter(out, loop.loc).const(upper, counter.type)
        first = Value(counter.name, counter.type)
        carried = tuple([Value(a.name, a.type) for a in arguments])
        body = Block((first, *carried))
        emit = OpEmitter(body.ops, loop.loc)
        steps = (emit.const(k * step, counter.type) for k in range(1, by))
        counters = [first, *(emit.op("add", counter.name, first, each) for each in steps)]
        trips = trip_count(loop)
        if trips is not None and trips % by == 0:
            ends = self.all_iterations(counters, carried, body.ops)
        else:
            ends = self.split(counters, end, carried, emit)
        if ends:
            body.ops.append(Op(OPS["yield"], tuple(ends), loc=loop.loc))
        new_loop = Op(OPS["for"], loop.operands, loop.results, loop.attrs, (body,), loop.loc)
        with_bounds(new_loop, lower, upper, step * by)
        return [*out, new_loop]

    def split(
        self, counters: Sequence[Value], end: Value, carried: Sequence[Value], emit: OpEmitter
    ) -> Sequence[Value]:
        """A branch: one side if all iterations exist, the other if some may be missing."""
        first, dtype, step = counters[0], counters[0].type, bounds(self.loop)[2]
        assert isinstance(step, int)
        left = emit.op("sub", "left", end, first)

        def fits(k: int, emit: OpEmitter) -> Value:
            """Whether iteration k exists.  The second comparison is implied, but bounds proofs can use it for an index."""
            room = emit.op("lt", "room", emit.const(k * step, dtype), left, dtype=DataType.BOOL)
            below = emit.op("lt", "below", counters[k], end, dtype=DataType.BOOL)
            return emit.op("and", "fits", room, below)

        last = fits(self.by - 1, emit)
        full, partial = Block(), Block()
        inner = OpEmitter(partial.ops, self.loop.loc)
        if self.plan.rows:
            partial_ends = self.remainder_loop(first, end, carried, partial.ops)
        else:
            each = [*(fits(k, inner) for k in range(1, self.by - 1)), last]
            partial_ends = self.guarded_iterations(counters, each, carried, partial.ops)
        for block, ends in (
            (full, self.all_iterations(counters, carried, full.ops)),
            (partial, partial_ends),
        ):
            if ends:
                block.ops.append(Op(OPS["yield"], tuple(ends), loc=self.loop.loc))
        results = tuple([Value(value.name, value.type) for value in carried])
        emit.ops.append(Op(OPS["if"], (last,), results, regions=(full, partial), loc=self.loop.loc))
        return results

    def all_iterations(
        self, counters: Sequence[Value], carried: Sequence[Value], out: list[Op]
    ) -> Sequence[Value]:
        """Write all iterations, unguarded; return the values that they carry on."""
        loop = self.loop
        counter, *arguments = loop.regions[0].args
        maps: list[dict[Value, Value]] = [{counter: value} for value in counters]
        for load in self.plan.rows:
            self.load_row(load, maps, out)
        for mapping in maps:
            out += clone([op for op in self.plan.early if op not in self.plan.rows], mapping)
        early = set(self.plan.early)
        late = [op for op in self.remaining if op not in early]
        _, yielded = splittable(loop.regions[0])
        for mapping in maps:
            mapping.update(zip(arguments, carried, strict=True))
            out += clone(late, mapping)
            carried = [mapping.get(value, value) for value in yielded]
        return carried

    def load_row(self, load: Op, maps: Sequence[dict[Value, Value]], out: list[Op]) -> None:
        """Load the elements of all iterations as one vector."""
        vector = Value(load.result.name, DataType.vec(load.result.type, len(maps)))
        mapping = {load.indices[-1]: maps[0][load.indices[-1]]}
        indices = tuple([mapping.get(index, index) for index in load.indices])
        out.append(Op(OPS["load"], indices, (vector,), load.attrs, (), load.loc))
        for lane, mapping in enumerate(maps):
            element = mapping[load.result] = Value(load.result.name, load.result.type)
            out.append(Op(OPS["extract"], (vector,), (element,), {"index": lane}, (), load.loc))

    def remainder_loop(
        self, first: Value, end: Value, carried: Sequence[Value], out: list[Op]
    ) -> Sequence[Value]:
        """Write a loop for the remaining iterations from `first` on; return the values that it carries on."""
        results = tuple([Value(value.name, value.type) for value in carried])
        loop = Op(OPS["for"], tuple(carried), results, self.loop.attrs, self.loop.regions, self.loop.loc)
        loop.attrs = {**loop.attrs, **dict.fromkeys(BOUND_NAMES, 0)}
        with_bounds(loop, first, end, bounds(self.loop)[2])
        out += _Batch(replace(self.plan, loop=loop, rows=frozenset(), row_by=0)).ops()
        return results

    def guarded_iterations(
        self, counters: Sequence[Value], fits: Sequence[Value], carried: Sequence[Value], out: list[Op]
    ) -> Sequence[Value]:
        """Write the first iteration, and each later one under the condition that it exists.

        The load of a missing iteration repeats that of the first, so that no branch stands between the loads.  If an
        iteration has no effects, a `select` drops its results, not a branch: LLVM would sink a load into the only branch
        that uses it, and lanes would wait for each load in turn.
        """
        loop, emit = self.loop, OpEmitter(out, self.loop.loc)
        counter, *arguments = loop.regions[0].args
        _, yielded = splittable(loop.regions[0])
        maps: list[dict[Value, Value]] = []
        for k, value in enumerate(counters):
            nearest = value if not k else emit.select(fits[k - 1], value, counters[0])
            load_map = {counter: nearest}
            out += clone(self.plan.early, load_map)
            maps.append(
                {counter: value, **{v: load_map[v] for load in self.plan.loads for v in load.results}}
            )

        def compute(k: int, carried: Sequence[Value], out: list[Op]) -> Sequence[Value]:
            mapping = maps[k]
            mapping.update(zip(arguments, carried, strict=True))
            out += clone(self.remaining, mapping)
            return [mapping.get(value, value) for value in yielded]

        def from_iteration(k: int, carried: Sequence[Value], out: list[Op]) -> Sequence[Value]:
            ends = compute(k, carried, out)
            if k + 1 == self.by:
                return ends
            block = Block()
            values = from_iteration(k + 1, ends, block.ops)
            out.append(conditional(fits[k], block, values, Block(), ends, loop))
            return out[-1].results

        if not all(op.definition.is_pure and not op.regions for op in self.remaining):
            return from_iteration(0, carried, out)
        carried = compute(0, carried, out)
        for k, fit in enumerate(fits, 1):
            ends = compute(k, carried, out)
            carried = [emit.select(fit, *pair) for pair in zip(ends, carried, strict=True)]
        return carried
