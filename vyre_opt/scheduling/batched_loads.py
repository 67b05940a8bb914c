"""Loops that load for several iterations at once, so that more bytes are on their way to each lane at a time.

    for %c = %l to %n step 256 iter(%a) {      for %c = %l to %n step 1024 iter(%a) {
      %v = load @x[%c]                           if all of %c, %c + 256, %c + 512, %c + 768 are below %n {
      yield %a + %v                                %v0 = load @x[%c]  ...  %v3 = load @x[%c + 768]
    }                                              yield %a + %v0 + %v1 + %v2 + %v3
                                                 } else {
                                                   %v0 = load @x[%c]
                                                   %v1 = load @x[%c + 256 < %n ? %c + 256 : %c]  ...
                                                   yield %a + %v0 + %v1 ..., as far as they are there
                                                 }
                                               }

Each iteration computes what it did, in the order in which it did; only loads of the next few iterations stand before it.
They are of buffers that the loop does not write, or whose elements no other iteration touches; and where invocations meet in
the loop, all of which go through it alike, of buffers that the program does not write.

Where each lane has a row of its own to go along, the loads are one of a vector, which lanes do together on a GPU:

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
"""Bytes that a lane has in flight where the loop is long enough."""
MOST = 8
"""Iterations that load at once, at most."""
ROW_BYTES, MOST_OF_ROWS = 256, 64
"""The same where each lane has a row of its own."""
FEWEST_OF_ROWS = 8
"""Elements of a row that are a vector."""
_PRODUCT = (
    "this loop makes an element of the product of @{} and @{}; blocks do it by tiles, and by matrix units where there are some: "
    "`total += a[i:i+64, k:k+32] @ b[k:k+32, j:j+64]` in Python, slice_dot in a text, or kernels.matmul(a, b)"
)
MAX_OPS = 512
"""Most ops that may replace one loop."""


def batch_loads(program: Program, sink: RemarkSink, trips: Sequence[int | None], waits: bool = False) -> int:
    """Rewrite the innermost loops of a program, in place; how many changed.

    `trips`: see `iterations`.  `waits`: loops whose number of iterations depends on a length that is not known stay.
    """
    if not trips:
        return 0
    batcher = _Batcher(program, sink, trips, waits)
    batcher.walk_block(program.body)
    return batcher.changes


def iterations(program: Program, shapes: Mapping[str, Shape] | None = None) -> tuple[int | None, ...]:
    """The most iterations of each of the innermost loops: up to MOST, or a power of two up to MOST_OF_ROWS where it may load
    along rows; the largest of them stands for any number.

    None where a length says how many, and is not known.  `shapes`: see `known_shapes`.
    """
    known = known_shapes(program, shapes)

    def most(loop: Op) -> int | None:
        limit = MOST_OF_ROWS if any(_is_along_row(loop, op) for op in loop.walk()) else MOST
        trips = most_trips(loop, known, limit)
        return trips if trips is None or trips <= MOST else 1 << (trips.bit_length() - 1)

    return tuple([most(op) for op in program.walk() if is_inner(op)])


@dataclass(frozen=True, slots=True)
class _Plan:
    """`early`: the ops of the body that go before those of earlier iterations: `loads`, and what their indices need.

    `rows`: the loads that are one of a vector for `row_by` iterations, where there are so many."""

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

    # --- what may go before -----------------------------------------------------------------

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
        early, loads, kept = self.early(loop, ops)
        size = sum(load.result.type.size_bytes or 0 for op in loads for load in _loads_in(op))
        if not loads:
            return Refusal("batch", kept)
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

        def as_many(most: int, most_bytes: int, copies: int) -> int:
            """Iterations at once; `copies` of each are written."""
            by = min(most, MAX_OPS // (copies * (count + 4)), most_bytes // max(1, size))
            by = min(by, most if trips is None else trips)
            return 1 << (by.bit_length() - 1) if by else 0

        by = as_many(MOST, BYTES, 2)
        counter = body.args[0].type
        lower = bounds(loop)[0]
        if by < 2:
            return Refusal("batch", f"it loads {size} bytes in each, and has {count} ops")
        if by * step > arith.int_range(counter)[1]:
            return Refusal("batch", f"{by} steps of {step} do not fit in {counter}")
        if counter.is_signed and not (isinstance(lower, int) and lower >= 0):
            return Refusal("batch", f"the distance between its bounds may not fit in {counter}")
        rows = frozenset(load for load in loads if self.has_own_rows(loop, load))
        row_by = as_many(MOST_OF_ROWS, ROW_BYTES, 1) if rows and step == 1 else 0
        if row_by < FEWEST_OF_ROWS or row_by * step > arith.int_range(counter)[1]:
            return _Plan(loop, early, loads, by)
        return _Plan(loop, early, loads, by, rows, row_by)

    def has_own_rows(self, loop: Op, load: Op) -> bool:
        """Whether it loads along a row, and neighbouring lanes along different ones, surely in bounds: a vector that is not
        is clamped, and is at fault, as a whole."""
        if not _is_along_row(loop, load) or self.program.workgroup[0] % SUBGROUP_SIZE:
            return False
        if load not in self.proofs.proven:
            return False
        terms = [term for index in load.indices[:-1] for term, _ in self.linear.of(index)[0]]
        return any(term in (("global_id", "x"), ("local_id", "x")) for term in terms)

    def early(self, loop: Op, ops: Sequence[Op]) -> tuple[list[Op], list[Op], str]:
        """The ops that may go before earlier iterations, the loads among them, and why a load does not, if one does not."""
        counter = loop.regions[0].args[0]
        late: set[Value] = set(loop.regions[0].args[1:])
        pure: list[Op] = []
        loads: list[Op] = []
        written: frozenset[str] = frozenset()
        kept = ""
        for op in ops:
            is_free = late.isdisjoint(operands_within(op))
            why = self.written(loop, op, counter, written) if is_free and _is_load(op) else ""
            if is_free and op.definition.is_pure and not op.regions:
                pure.append(op)
            elif is_free and _is_load(op) and not why:
                loads.append(op)
            else:
                kept = why or kept
                late.update(op.results)
            written |= (self.summary[1].get(op) or effects_of(op)).writes
        free = {*loads, *pure}
        early = needed_ops([op for op in ops if op in free], [v for load in loads for v in load.results])
        return early, loads, kept

    def is_uniform(self, loop: Op) -> bool:
        """Whether all invocations of a workgroup have the same iterations; those that come here do."""
        return all(self.uniformity.level(v) <= Level.WORKGROUP for v in bounds(loop) if isinstance(v, Value))

    def written(self, loop: Op, load: Op, counter: Value, before: Collection[str]) -> str:
        """Why a load may not go before earlier iterations: one of them may write its element, or its own iteration has,
        where `before` are the buffers that this has written by then."""
        names = {each.attrs["buffer"] for each in _loads_in(load)}
        name = next((name for name in sorted(names) if name in before), None)
        if name is not None:
            return f"it may have written the element of @{name} that it loads"
        name = next((name for name in sorted(names) if name in self.summary[1][loop].writes), None)
        if name is None:
            return ""
        why = f"an earlier iteration may write the element of @{name} that it loads"
        if load.regions:
            return why
        terms, const = self.linear.of(load.indices[-1])
        mine = dict(terms)
        if (counter.type.bits or 1) > (load.indices[-1].type.bits or 1):
            return why  # where the index wraps around, iterations share an element
        if mine.pop(counter, 0) != 1 or any(_is_inside(term, loop) for term in (*mine, *load.indices[:-1])):
            return why
        for op in loop.regions[0].walk():
            if op.attrs.get("buffer") != name or op.name == "len":
                continue
            if op.name not in ("load", "store") or op.indices[:-1] != load.indices[:-1]:
                return why
            index = op.indices[-1]
            if self.linear.of(index) != (terms, const) or index.type is not load.indices[-1].type:
                return why
            if (op.operands[0] if op.name == "store" else op.result).type is not load.result.type:
                return why  # one of a vector is of neighbours too
        return ""


def _is_load(op: Op) -> bool:
    """A load, or a branch in which there is nothing but loads and what is computed of them."""
    if op.name != "if":
        return op.name == "load"
    inside = (each.name in ("load", "yield", "if") or each.definition.is_pure for each in op.walk())
    return bool(op.results) and all(inside)


def _loads_in(op: Op) -> list[Op]:
    return [each for each in op.walk() if each.name == "load"]


def product_of_matrices(loop: Op) -> tuple[str, str] | None:
    """The buffers whose product an element is that this loop sums up: rows of the one by columns of the other."""
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
    along = [load for load in loads if load.indices[1] is counter and load.indices[0] is not counter]
    down = [load for load in loads if load.indices[0] is counter and load.indices[1] is not counter]
    return (along[0].attrs["buffer"], down[0].attrs["buffer"]) if along and down else None


def _is_along_row(loop: Op, op: Op) -> bool:
    """Whether each iteration loads the element of a row of a matrix that its counter says."""
    if op.name != "load" or len(op.indices) < 2 or op.result.type.is_vec:
        return False
    return op.indices[-1] is loop.regions[0].args[0] and not any(
        _is_inside(index, loop) for index in op.indices[:-1]
    )


def _is_inside(term: object, loop: Op) -> bool:
    """Whether a term may have another value in another iteration."""
    if isinstance(term, tuple):  # an id, or what is cast
        return bool(term[0] == "cast")
    inside = {value for op in loop.regions[0].walk() for value in op.results}
    return term in inside or term in loop.regions[0].args


class _Batch:
    """Writes a loop that has the loads of `by` iterations first."""

    def __init__(self, plan: _Plan) -> None:
        self.plan, self.loop, self.by = plan, plan.loop, plan.row_by or plan.by
        self.rest = [op for op in splittable(plan.loop.regions[0])[0] if op not in set(plan.loads)]

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
            ends = self.whole(counters, carried, body.ops)
        else:
            ends = self.split(counters, end, carried, emit)
        if ends:
            body.ops.append(Op(OPS["yield"], tuple(ends), loc=loop.loc))
        made = Op(OPS["for"], loop.operands, loop.results, loop.attrs, (body,), loop.loc)
        with_bounds(made, lower, upper, step * by)
        return [*out, made]

    def split(
        self, counters: Sequence[Value], end: Value, carried: Sequence[Value], emit: OpEmitter
    ) -> Sequence[Value]:
        """A branch for where all iterations are, beside one for where some may be missing."""
        first, dtype, step = counters[0], counters[0].type, bounds(self.loop)[2]
        assert isinstance(step, int)
        left = emit.op("sub", "left", end, first)

        def fits(k: int, emit: OpEmitter) -> Value:
            """Whether there is iteration k: the second comparison says the same as the first where nothing wraps, and what
            follows from it for an index."""
            room = emit.op("lt", "room", emit.const(k * step, dtype), left, dtype=DataType.BOOL)
            below = emit.op("lt", "below", counters[k], end, dtype=DataType.BOOL)
            return emit.op("and", "fits", room, below)

        last = fits(self.by - 1, emit)
        whole, some = Block(), Block()
        inner = OpEmitter(some.ops, self.loop.loc)
        if self.plan.rows:
            left_over = self.left_over(first, end, carried, some.ops)
        else:
            each = [*(fits(k, inner) for k in range(1, self.by - 1)), last]
            left_over = self.some(counters, each, carried, some.ops)
        for block, ends in ((whole, self.whole(counters, carried, whole.ops)), (some, left_over)):
            if ends:
                block.ops.append(Op(OPS["yield"], tuple(ends), loc=self.loop.loc))
        results = tuple([Value(value.name, value.type) for value in carried])
        emit.ops.append(Op(OPS["if"], (last,), results, regions=(whole, some), loc=self.loop.loc))
        return results

    def whole(self, counters: Sequence[Value], carried: Sequence[Value], out: list[Op]) -> Sequence[Value]:
        """All iterations; the values that they carry on."""
        loop = self.loop
        counter, *arguments = loop.regions[0].args
        maps: list[dict[Value, Value]] = [{counter: value} for value in counters]
        for load in self.plan.rows:
            self.load_row(load, maps, out)
        for mapping in maps:
            out += clone([op for op in self.plan.early if op not in self.plan.rows], mapping)
        done = set(self.plan.early)
        late = [op for op in self.rest if op not in done]
        _, yielded = splittable(loop.regions[0])
        for mapping in maps:
            mapping.update(zip(arguments, carried, strict=True))
            out += clone(late, mapping)
            carried = [mapping.get(value, value) for value in yielded]
        return carried

    def load_row(self, load: Op, maps: Sequence[dict[Value, Value]], out: list[Op]) -> None:
        """The elements of all iterations as one vector."""
        vector = Value(load.result.name, DataType.vec(load.result.type, len(maps)))
        mapping = {load.indices[-1]: maps[0][load.indices[-1]]}
        indices = tuple([mapping.get(index, index) for index in load.indices])
        out.append(Op(OPS["load"], indices, (vector,), load.attrs, (), load.loc))
        for lane, mapping in enumerate(maps):
            element = mapping[load.result] = Value(load.result.name, load.result.type)
            out.append(Op(OPS["extract"], (vector,), (element,), {"index": lane}, (), load.loc))

    def left_over(self, first: Value, end: Value, carried: Sequence[Value], out: list[Op]) -> Sequence[Value]:
        """The iterations from one on, which are fewer."""
        results = tuple([Value(value.name, value.type) for value in carried])
        loop = Op(OPS["for"], tuple(carried), results, self.loop.attrs, self.loop.regions, self.loop.loc)
        loop.attrs = {**loop.attrs, **dict.fromkeys(BOUND_NAMES, 0)}
        with_bounds(loop, first, end, bounds(self.loop)[2])
        out += _Batch(replace(self.plan, loop=loop, rows=frozenset(), row_by=0)).ops()
        return results

    def some(
        self, counters: Sequence[Value], fits: Sequence[Value], carried: Sequence[Value], out: list[Op]
    ) -> Sequence[Value]:
        """The first iteration, and those that fit: each of them only where the one before does.

        A load that is not there repeats the first iteration's, so that no branch stands between the loads; where all of the
        iteration is computed without effects, a `select` drops it, because LLVM moves a load into the only branch that uses
        it, and lanes would wait for each in turn.
        """
        loop, emit = self.loop, OpEmitter(out, self.loop.loc)
        counter, *arguments = loop.regions[0].args
        _, yielded = splittable(loop.regions[0])
        maps: list[dict[Value, Value]] = []
        for k, value in enumerate(counters):
            nearest = value if not k else emit.select(fits[k - 1], value, counters[0])
            loaded = {counter: nearest}
            out += clone(self.plan.early, loaded)
            maps.append({counter: value, **{v: loaded[v] for load in self.plan.loads for v in load.results}})

        def compute(k: int, carried: Sequence[Value], out: list[Op]) -> Sequence[Value]:
            mapping = maps[k]
            mapping.update(zip(arguments, carried, strict=True))
            out += clone(self.rest, mapping)
            return [mapping.get(value, value) for value in yielded]

        def from_iteration(k: int, carried: Sequence[Value], out: list[Op]) -> Sequence[Value]:
            ends = compute(k, carried, out)
            if k + 1 == self.by:
                return ends
            block = Block()
            values = from_iteration(k + 1, ends, block.ops)
            out.append(conditional(fits[k], block, values, Block(), ends, loop))
            return out[-1].results

        if not all(op.definition.is_pure and not op.regions for op in self.rest):
            return from_iteration(0, carried, out)
        carried = compute(0, carried, out)
        for k, fit in enumerate(fits, 1):
            ends = compute(k, carried, out)
            carried = [emit.select(fit, *pair) for pair in zip(ends, carried, strict=True)]
        return carried
