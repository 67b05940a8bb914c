"""Loops over the same elements that keep loaded values in registers, so that memory is read once.

    for %c = %l to %n step 256 iter(%a) {        if all of %l, %l + 256, ... but the last are below %n {
      %v = load @x[%c]                             %v0 = load @x[%l]   %v1 = load @x[%l + 256]   ...
      yield %a + %v                                %v9 = if %l + 2304 < %n { load @x[%l + 2304] } else { 0 }
    }                                              yield %a + %v0 + %v1 + ..., and %v0, %v1, ... for later
    for %c = %l to %n step 256 {             -->  } else { the loop as it was }
      %v = load @x[%c]                           if all but the last are {
      store %v / %s, @y[%c]                        store %v0 / %s, @y[%l]   ...
    }                                            } else { the loop as it was }

The loops are in one block and have equal bounds, and a launch has so few iterations that registers hold the values: loads
of buffers that the program never writes, or pure functions of such loads.  Each iteration computes the same values in the
same order; only loads precede it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from ..analysis.effects import Effects, summarize
from ..fusion.halo_recompute import OpEmitter
from ..fusion.remark_sink import RemarkSink
from ..ir import arith
from ..ir.loops import bounds, inits, trip_count
from ..ir.program import Block, Op, Program, Shape, Value
from ..ir.rewrite import clone, conditional, constant, needed_ops, operands_within, splittable
from ..ir.types import DataType
from ..records import dataclass
from ..rewriting.walker import Walker
from .loop_facts import invocations_meet, is_inner, known_shapes, most_trips

__all__ = ["Row", "keep_loads", "rows", "trips"]

WORDS = 64
"""The most registers of a lane for kept values: with 64 others, 512 lanes share the 65,536 of a multiprocessor."""
REGISTERS, OTHERS = 1 << 16, 64
"""Registers of a multiprocessor, and registers of a lane besides those of the kept values."""
AHEAD = 8
"""Iterations whose loads precede the first iteration, for values that are not kept."""
MAX_OPS = 3072
"""The most ops that may replace the loops over one row."""

Key = int
"""Value number of an op in a loop, as a function of the counter and of outer values: equal numbers are equal results."""


@dataclass(frozen=True)
class Row:
    """Loops over the same elements, in the order of the text.

    `keys`: value numbers of the ops of each loop that have one.  `live_in`: values that each loop reuses from earlier
    loops; `live_out`: values that it keeps for later ones.  `loads`: values that are loaded, or computed from loads.
    """

    loops: Sequence[Op]
    keys: Sequence[Mapping[Op, Key]]
    live_in: Sequence[Mapping[Key, DataType]]
    live_out: Sequence[Collection[Key]]
    loads: Collection[Key]

    @cached_property
    def words(self) -> int:
        """The most registers of an iteration that are live between two loops."""
        peak, last = 0, {key: n for n, live_in in enumerate(self.live_in) for key in live_in}
        types = {key: dtype for live_in in self.live_in for key, dtype in live_in.items()}
        live: set[Key] = set()
        for number, live_out in enumerate(self.live_out):
            live = {key for key in (*live, *live_out) if last[key] > number}
            peak = max(peak, sum(-(-(types[key].size_bytes or 4) // 4) for key in live))
        return peak

    @property
    def ops(self) -> int:
        """Ops of an iteration of all loops, and of the code around them."""
        return sum(4 + sum(1 for _ in loop.regions[0].walk()) for loop in self.loops)


def rows(program: Program) -> list[Row]:
    """Loops of a program that load the same elements and may be unrolled if their length allows."""
    effects_of_program, effects = summarize(program.body)
    stable = {buffer.name for buffer in program.bound_buffers} - effects_of_program.writes
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    return [row for block in blocks for row in _rows(block, effects, stable)]


def keep_loads(
    program: Program,
    sink: RemarkSink,
    candidates: Sequence[Row],
    steps: Sequence[int | None],
    numbers: Mapping[Op, int],
    waits: bool = False,
) -> int:
    """Rewrite the rows of a program, in place; return how many changed.

    `steps`: see `trips`.  `numbers`: numbers of the program's ops, see `op_numbers`.  `waits`: leave loops whose trip
    count depends on an unknown length.
    """
    keeper = _Keeper(program, sink, numbers)
    for row, count in zip(candidates, steps, strict=True):
        keeper.add(row, count, waits)
    if keeper.plans:
        keeper.walk_block(program.body)
    return keeper.changes


def trips(
    program: Program, candidates: Sequence[Row], shapes: Mapping[str, Shape] | None = None
) -> tuple[int | None, ...]:
    """Number of iterations to which each row is unrolled; 0 if registers do not hold so many, None if that depends on an
    unknown length.  `shapes`: see `known_shapes`."""
    all_shapes = known_shapes(program, shapes)
    return tuple(
        [_steps(row, most_trips(row.loops[0], all_shapes, WORDS + 1), program.lanes) for row in candidates]
    )


def _steps(row: Row, count: int | None, lanes: int) -> int | None:
    if count is None:
        return None
    registers = min(WORDS, REGISTERS // lanes - OTHERS)
    fits = 0 < count and count * row.words <= registers and count * row.ops <= MAX_OPS
    return count if fits else 0


# --- which loops load the same elements -----------------------------------------------------------


def _rows(block: Block, effects: Mapping[Op, Effects], stable: set[str]) -> Iterator[Row]:
    by_bounds: dict[tuple[object, ...], list[Op]] = {}
    for op in block.ops:
        if is_inner(op) and _is_unrollable(op, effects[op]):
            by_bounds.setdefault(tuple(map(_bound, bounds(op))), []).append(op)
    for loops in by_bounds.values():
        row = _Numbers(stable).row(loops) if len(loops) > 1 else None
        if row is not None:
            yield row


def _is_unrollable(loop: Op, effects: Effects) -> bool:
    """Whether invocations run the loop independently, upwards, and without faults or output."""
    lower, _, step = bounds(loop)
    if (
        invocations_meet(loop, effects)
        or effects.stops
        or effects.prints
        or not isinstance(step, int)
        or step <= 0
    ):
        return False
    counter = loop.regions[0].args[0].type
    first = 0 if isinstance(lower, Value) and not counter.is_signed else lower
    return isinstance(first, int) and first >= 0 and 2 * WORDS * step <= arith.int_range(counter)[1]


def _bound(value: int | Value) -> object:
    """A bound as a key: two `len` ops of one buffer have equal keys."""
    if isinstance(value, Value) and isinstance(value.owner, Op) and value.owner.name == "len":
        return value.type, *sorted(value.owner.attrs.items())
    return value


class _Numbers:
    """Value numbering of loops.  `stable`: buffers that nothing writes."""

    def __init__(self, stable: set[str]) -> None:
        self.stable = stable
        self.numbers: dict[tuple[object, ...], Key] = {}
        self.loads: set[Key] = set()
        """Values that are loaded, or computed from loads."""

    def of(self, loop: Op) -> dict[Op, Key]:
        counter, *carried = loop.regions[0].args
        values: dict[Value, object] = {counter: "counter"}
        unknown, keys = set(carried), {}
        for op in loop.regions[0].ops:
            is_load = op.name == "load" and op.attrs["buffer"] in self.stable
            may_go = (is_load or op.definition.is_pure) and not op.regions and len(op.results) == 1
            if not may_go or op.result.type.is_vec or not unknown.isdisjoint(op.operands):
                unknown.update(op.results)
                continue
            operands = [values.get(v, v) for v in op.operands]
            term = op.name, op.result.type, repr(sorted(op.attrs.items())), *operands
            key = keys[op] = self.numbers.setdefault(term, len(self.numbers))
            values[op.result] = key
            if is_load or any(operand in self.loads for operand in operands):
                self.loads.add(key)
        return keys

    def row(self, loops: Sequence[Op]) -> Row | None:
        """The row of the loops that share values; None if none do."""
        keys = [self.of(loop) for loop in loops]
        first_loop: dict[Key, int] = {}
        live_ins: list[dict[Key, DataType]] = []
        for number, (loop, own_keys) in enumerate(zip(loops, keys, strict=True)):
            repeated = {op: key for op, key in own_keys.items() if key in first_loop and key in self.loads}
            results = {op.result: key for op, key in repeated.items()}
            used_values = {v for op in loop.regions[0].walk() if op not in repeated for v in op.operands}
            live_ins.append({results[value]: value.type for value in used_values if value in results})
            for key in own_keys.values():
                first_loop.setdefault(key, number)
        producers = {first_loop[key] for live_in in live_ins for key in live_in}
        members = [k for k, live_in in enumerate(live_ins) if live_in or k in producers]
        if not members:
            return None
        live_outs = [
            {key for live_in in live_ins for key in live_in if first_loop[key] == k} for k in members
        ]
        return Row(
            [loops[k] for k in members],
            [keys[k] for k in members],
            [live_ins[k] for k in members],
            live_outs,
            self.loads,
        )


# --- unrolling -------------------------------------------------------------------------------------


class _Keeper(Walker):
    def __init__(self, program: Program, sink: RemarkSink, numbers: Mapping[Op, int]) -> None:
        super().__init__()
        self.program, self.sink, self.numbers = program, sink, numbers
        self.plans: dict[Op, tuple[_Unroller, int]] = {}
        """Loop -> the unroller of its row, and its number in the row."""

    def add(self, row: Row, steps: int | None, waits: bool) -> None:
        if not steps:
            if steps is None:
                reason = "registers hold it where a call has few iterations"
            else:
                reason = f"registers do not hold {row.words} words of each of its iterations"
            if steps == 0 or waits:
                message = f"this loop loads again what one before it did: {reason}"
                self.sink.remark("refused", message, row.loops[-1].loc)
            return
        unroller = _Unroller(row, steps)
        self.plans.update({loop: (unroller, number) for number, loop in enumerate(row.loops)})
        self.changes += 1
        self.sink.remark(
            "applied",
            f"{len(row.loops)} loops load {steps} elements once, and keep them in registers",
            row.loops[0].loc,
            claim="keep_loads",
            program=self.program.name,
            loops=[self.numbers[loop] for loop in row.loops],
            by=steps,
        )

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        if op not in self.plans:
            super().visit_structured(op, out)
            return
        unroller, number = self.plans[op]
        self.replaced.update(zip(op.results, unroller.loop(number, self.replaced, out), strict=True))


class _Unroller:
    """Writes the loops of a row as `count` iterations each, under the condition that all but the last exist."""

    def __init__(self, row: Row, count: int) -> None:
        self.row, self.count = row, count
        self.is_exact = trip_count(row.loops[0]) is not None
        self.fits: Value | None = None
        self.kept: dict[Key, Sequence[Value]] = {}
        """Kept values of each iteration."""

    def loop(self, number: int, replaced: Mapping[Value, Value], out: list[Op]) -> Sequence[Value]:
        """Write a loop of the row; return its results.  `replaced`: replacements of values."""
        loop = self.row.loops[number]
        if self.is_exact:
            carried, live_out = self.iterations(number, replaced, out)
            self.kept.update(live_out)
            return carried
        if self.fits is None:
            self.fits = self.fits_condition(OpEmitter(out, loop.loc))
        unrolled, fallback = Block(), Block((), clone([loop], dict(replaced)))
        carried, live_out = self.iterations(number, replaced, unrolled.ops)
        values = [*carried, *(value for kept in live_out.values() for value in kept)]
        zeros = [constant(0, value.type, value.name, loop) for value in values[len(carried) :]]
        fallback_values = [*fallback.ops[0].results, *(op.result for op in zeros)]
        fallback.ops += zeros
        results = _branch(self.fits, unrolled, values, fallback, fallback_values, loop, out)
        remaining = iter(results[len(carried) :])
        self.kept.update((key, [next(remaining) for _ in kept]) for key, kept in live_out.items())
        return results[: len(carried)]

    def fits_condition(self, emit: OpEmitter) -> Value:
        """A condition that all iterations but the last exist.  Nearly all lanes have them, so no branch separates their loads.

        It compares a distance, not the last counter: then all earlier iterations follow."""
        loop = self.row.loops[0]
        lower, upper, step = bounds(loop)
        assert isinstance(step, int)
        dtype = loop.regions[0].args[0].type
        first, end = (each if isinstance(each, Value) else emit.const(each, dtype) for each in (lower, upper))
        begins = emit.op("lt", "begins", first, end, dtype=DataType.BOOL)
        if self.count < 3:
            return begins
        left = emit.op("sub", "left", end, first)
        distance = emit.const((self.count - 2) * step, dtype)
        room = emit.op("lt", "room", distance, left, dtype=DataType.BOOL)
        return emit.op("and", "fits", begins, room)

    def iterations(
        self, number: int, replaced: Mapping[Value, Value], out: list[Op]
    ) -> tuple[Sequence[Value], dict[Key, Sequence[Value]]]:
        """Write the iterations of a loop; return the values that they carry on, and the kept values of each iteration."""
        row, loop = self.row, self.row.loops[number]
        counter, *arguments = loop.regions[0].args
        body, yielded = splittable(loop.regions[0])
        keys = row.keys[number]
        numbers = {op.result: key for op, key in keys.items()}
        live_in = {op.result: key for op, key in keys.items() if key in row.live_in[number]}
        live_out = {op.result: key for op, key in keys.items() if key in row.live_out[number]}
        loads = {op.result for op in keys if op.name == "load" and op.result not in live_in}
        late = [op for op in body if op not in keys]
        roots = [*yielded, *live_out, *(value for op in late for value in operands_within(op))]
        pure = [op for op in needed_ops(body, roots, loads | set(live_in)) if op in keys]
        used_values = {*roots, *(value for op in pure for value in op.operands)}
        loads_to_emit = list(
            {keys[op]: op.result for op in keys if op.result in loads & used_values}.values()
        )
        early = needed_ops(body, loads_to_emit, live_in)
        counters, last = self.counters(loop, out)
        maps: list[dict[Value, Value]] = []
        for k, value in enumerate(counters):
            inputs = {result: self.kept[key][k] for result, key in live_in.items()}
            maps.append({**replaced, counter: value, **inputs})

        def load(k: int) -> None:
            within = dict(maps[k])
            block = Block((), clone(early, within))
            zeros = Block((), [constant(0, each.type, each.name, loop) for each in loads_to_emit])
            values, zero_values = [within[each] for each in loads_to_emit], [op.result for op in zeros.ops]
            condition = last if k == self.count - 1 else None
            values = list(_branch(condition, block, values, zeros, zero_values, loop, out))
            loaded = dict(zip([numbers[each] for each in loads_to_emit], values, strict=True))
            maps[k].update((result, loaded[key]) for result, key in numbers.items() if key in loaded)

        def compute(k: int, carried: Sequence[Value]) -> Sequence[Value]:
            mapping = maps[k]
            out.extend(clone(pure, mapping))
            mapping.update(zip(arguments, carried, strict=True))
            block = Block((), clone(late, mapping))
            values = [mapping.get(value, value) for value in yielded]
            condition = last if k == self.count - 1 else None
            return _branch(condition, block, values, Block(), carried, loop, out)

        carried: Sequence[Value] = inits(loop)
        # values that are not kept are loaded for AHEAD iterations at a time, to take few registers
        ahead = self.count if any(value in live_out for value in loads_to_emit) else AHEAD
        for start in range(0, self.count, ahead):
            chunk = range(start, min(start + ahead, self.count))
            for k in chunk if loads_to_emit else ():
                load(k)
            for k in chunk:
                carried = compute(k, carried)
        return carried, {key: [mapping[result] for mapping in maps] for result, key in live_out.items()}

    def counters(self, loop: Op, out: list[Op]) -> tuple[list[Value], Value | None]:
        """Counters of all iterations, and a condition that the last one runs; None if it surely does.

        No counter wraps around: there is a first iteration, and the upper bound is at most `count` steps away."""
        lower, upper, step = bounds(loop)
        assert isinstance(step, int)
        dtype, emit = loop.regions[0].args[0].type, OpEmitter(out, loop.loc)
        if isinstance(lower, int):
            counters = [emit.const(lower + k * step, dtype) for k in range(self.count)]
        else:
            later = [emit.const(k * step, dtype) for k in range(1, self.count)]
            counters = [lower, *(emit.op("add", "next", lower, each) for each in later)]
        if self.is_exact or self.count == 1:
            return counters, None
        end = upper if isinstance(upper, Value) else emit.const(upper, dtype)
        return counters, emit.op("lt", "last", counters[-1], end, dtype=DataType.BOOL)


def _branch(
    condition: Value | None,
    block: Block,
    values: Sequence[Value],
    fallback: Block,
    fallback_values: Sequence[Value],
    loop: Op,
    out: list[Op],
) -> Sequence[Value]:
    """Write a branch that yields `values` of `block` or `fallback_values`; without a condition, `block` alone."""
    if condition is None or (not block.ops and list(values) == list(fallback_values)):
        out += block.ops
        return values
    out.append(conditional(condition, block, values, fallback, fallback_values, loop))
    return out[-1].results
