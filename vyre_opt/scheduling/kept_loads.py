"""Loops over the same elements that keep what they load in registers, so that memory is read once.

    for %c = %l to %n step 256 iter(%a) {        if all of %l, %l + 256, ... but the last are below %n {
      %v = load @x[%c]                             %v0 = load @x[%l]   %v1 = load @x[%l + 256]   ...
      yield %a + %v                                %v9 = if %l + 2304 < %n { load @x[%l + 2304] } else { 0 }
    }                                              yield %a + %v0 + %v1 + ..., and %v0, %v1, ... for later
    for %c = %l to %n step 256 {             -->  } else { the loop as it was }
      %v = load @x[%c]                           if all but the last are {
      store %v / %s, @y[%c]                        store %v0 / %s, @y[%l]   ...
    }                                            } else { the loop as it was }

The loops are of one block and have the same bounds, and a launch has so few iterations that registers hold what is
kept: a load of a buffer that the program never writes, or what is computed of such loads alone.  Each iteration computes
what it did, in the order in which it did; only loads stand before it.
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
"""Registers that hold what a lane keeps, at most: with as many others, 512 lanes share the 65,536 of a multiprocessor."""
REGISTERS, OTHERS = 1 << 16, 64
"""Registers of a multiprocessor, and registers of a lane besides those of the kept elements."""
AHEAD = 8
"""Iterations whose loads stand before what is computed of the first of them, where they are not kept."""
MAX_OPS = 3072
"""Most ops that may replace the loops over one row."""

Key = int
"""Result of an op of a loop as a function of the counter and of outer values: one number means equal results."""


@dataclass(frozen=True)
class Row:
    """Loops over the same elements, in the order of the text.

    `keys`: of the ops of each loop that have one.  `taken`: what each loop takes from those before it; `given`: what it keeps
    for those after it.  `loads`: what is loaded, or computed of that.
    """

    loops: Sequence[Op]
    keys: Sequence[Mapping[Op, Key]]
    taken: Sequence[Mapping[Key, DataType]]
    given: Sequence[Collection[Key]]
    loads: Collection[Key]

    @cached_property
    def words(self) -> int:
        """Registers of an iteration that are in use between two loops, at most."""
        most, last = 0, {key: n for n, taken in enumerate(self.taken) for key in taken}
        types = {key: dtype for taken in self.taken for key, dtype in taken.items()}
        held: set[Key] = set()
        for number, given in enumerate(self.given):
            held = {key for key in (*held, *given) if last[key] > number}
            most = max(most, sum(-(-(types[key].size_bytes or 4) // 4) for key in held))
        return most

    @property
    def ops(self) -> int:
        """Ops of an iteration of all loops, and of the code that surrounds them."""
        return sum(4 + sum(1 for _ in loop.regions[0].walk()) for loop in self.loops)


def rows(program: Program) -> list[Row]:
    """The loops of a program that load the same elements, where nothing but their length is in the way."""
    written, effects = summarize(program.body)
    stable = {buffer.name for buffer in program.bound_buffers} - written.writes
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    return [row for block in blocks for row in _rows(block, effects, stable)]


def keep_loads(
    program: Program,
    sink: RemarkSink,
    found: Sequence[Row],
    steps: Sequence[int | None],
    numbers: Mapping[Op, int],
    waits: bool = False,
) -> int:
    """Rewrite the rows of a program, in place; how many changed.

    `steps`: see `trips`.  `numbers`: of the program's ops, see `op_numbers`.  `waits`: loops whose number of iterations
    depends on a length that is not known stay.
    """
    keeper = _Keeper(program, sink, numbers)
    for row, count in zip(found, steps, strict=True):
        keeper.add(row, count, waits)
    if keeper.planned:
        keeper.walk_block(program.body)
    return keeper.changes


def trips(
    program: Program, found: Sequence[Row], shapes: Mapping[str, Shape] | None = None
) -> tuple[int | None, ...]:
    """Number of iterations for which each row is written out in a launch; 0 where they are too many, and None where an
    unknown length says it.  `shapes`: see `known_shapes`."""
    known = known_shapes(program, shapes)
    return tuple([_steps(row, most_trips(row.loops[0], known, WORDS + 1), program.lanes) for row in found])


def _steps(row: Row, count: int | None, lanes: int) -> int | None:
    if count is None:
        return None
    registers = min(WORDS, REGISTERS // lanes - OTHERS)
    fits = 0 < count and count * row.words <= registers and count * row.ops <= MAX_OPS
    return count if fits else 0


# --- which loops load the same elements -----------------------------------------------------------


def _rows(block: Block, effects: Mapping[Op, Effects], stable: set[str]) -> Iterator[Row]:
    alike: dict[tuple[object, ...], list[Op]] = {}
    for op in block.ops:
        if is_inner(op) and _may_be_written_out(op, effects[op]):
            alike.setdefault(tuple(map(_bound, bounds(op))), []).append(op)
    for loops in alike.values():
        row = _Numbers(stable).row(loops) if len(loops) > 1 else None
        if row is not None:
            yield row


def _may_be_written_out(loop: Op, effects: Effects) -> bool:
    """Whether invocations go through it by themselves, and forward."""
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
    """A bound as a key: lengths of the same are equal."""
    if isinstance(value, Value) and isinstance(value.owner, Op) and value.owner.name == "len":
        return value.type, *sorted(value.owner.attrs.items())
    return value


class _Numbers:
    """Numbers what loops compute.  `stable`: the buffers that nothing writes."""

    def __init__(self, stable: set[str]) -> None:
        self.stable = stable
        self.numbers: dict[tuple[object, ...], Key] = {}
        self.loads: set[Key] = set()
        """Values that are loaded, or computed of loads."""

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
        """The loops that give or take something; None if there are none."""
        keys = [self.of(loop) for loop in loops]
        first: dict[Key, int] = {}
        taken: list[dict[Key, DataType]] = []
        for number, (loop, mine) in enumerate(zip(loops, keys, strict=True)):
            known = {op: key for op, key in mine.items() if key in first and key in self.loads}
            results = {op.result: key for op, key in known.items()}
            used = {v for op in loop.regions[0].walk() if op not in known for v in op.operands}
            taken.append({results[value]: value.type for value in used if value in results})
            for key in mine.values():
                first.setdefault(key, number)
        givers = {first[key] for wanted in taken for key in wanted}
        chosen = [k for k, wanted in enumerate(taken) if wanted or k in givers]
        if not chosen:
            return None
        given = [{key for wanted in taken for key in wanted if first[key] == k} for k in chosen]
        return Row(
            [loops[k] for k in chosen],
            [keys[k] for k in chosen],
            [taken[k] for k in chosen],
            given,
            self.loads,
        )


# --- loops written out ----------------------------------------------------------------------------


class _Keeper(Walker):
    def __init__(self, program: Program, sink: RemarkSink, numbers: Mapping[Op, int]) -> None:
        super().__init__()
        self.program, self.sink, self.numbers = program, sink, numbers
        self.planned: dict[Op, tuple[_WrittenOut, int]] = {}
        """Row that is written out, and the number of the loop in it, by the loop."""

    def add(self, row: Row, steps: int | None, waits: bool) -> None:
        if not steps:
            if steps is None:
                why = "registers hold it where a call has few iterations"
            else:
                why = f"registers do not hold {row.words} words of each of its iterations"
            if steps == 0 or waits:
                message = f"this loop loads again what one before it did: {why}"
                self.sink.remark("refused", message, row.loops[-1].loc)
            return
        written = _WrittenOut(row, steps)
        self.planned.update({loop: (written, number) for number, loop in enumerate(row.loops)})
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
        if op not in self.planned:
            super().visit_structured(op, out)
            return
        written, number = self.planned[op]
        self.replaced.update(zip(op.results, written.loop(number, self.replaced, out), strict=True))


class _WrittenOut:
    """Writes the loops of a row as `count` iterations each, where all but the last of them are there."""

    def __init__(self, row: Row, count: int) -> None:
        self.row, self.count = row, count
        self.is_exact = trip_count(row.loops[0]) is not None
        self.fits: Value | None = None
        self.kept: dict[Key, Sequence[Value]] = {}
        """Kept values of each iteration."""

    def loop(self, number: int, replaced: Mapping[Value, Value], out: list[Op]) -> Sequence[Value]:
        """Write a loop of the row; its results.  `replaced`: values that are gone."""
        loop = self.row.loops[number]
        if self.is_exact:
            carried, given = self.iterations(number, replaced, out)
            self.kept.update(given)
            return carried
        if self.fits is None:
            self.fits = self.fitting(OpEmitter(out, loop.loc))
        whole, other = Block(), Block((), clone([loop], dict(replaced)))
        carried, given = self.iterations(number, replaced, whole.ops)
        values = [*carried, *(value for kept in given.values() for value in kept)]
        zeros = [constant(0, value.type, value.name, loop) for value in values[len(carried) :]]
        others = [*other.ops[0].results, *(op.result for op in zeros)]
        other.ops += zeros
        results = _branch(self.fits, whole, values, other, others, loop, out)
        rest = iter(results[len(carried) :])
        self.kept.update((key, [next(rest) for _ in kept]) for key, kept in given.items())
        return results[: len(carried)]

    def fitting(self, emit: OpEmitter) -> Value:
        """Whether all iterations but the last are there; nearly all lanes have them, so that no branch is between their
        loads.  A distance says the same as the counter, and what follows for those before it."""
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
        """Write the iterations of a loop of the row; what they carry on, and what is kept of each."""
        row, loop = self.row, self.row.loops[number]
        counter, *arguments = loop.regions[0].args
        body, yielded = splittable(loop.regions[0])
        keys = row.keys[number]
        numbers = {op.result: key for op, key in keys.items()}
        taken = {op.result: key for op, key in keys.items() if key in row.taken[number]}
        given = {op.result: key for op, key in keys.items() if key in row.given[number]}
        loads = {op.result for op in keys if op.name == "load" and op.result not in taken}
        late = [op for op in body if op not in keys]
        wanted = [*yielded, *given, *(value for op in late for value in operands_within(op))]
        free = [op for op in needed_ops(body, wanted, loads | set(taken)) if op in keys]
        used = {*wanted, *(value for op in free for value in op.operands)}
        leaving = list({keys[op]: op.result for op in keys if op.result in loads & used}.values())
        early = needed_ops(body, leaving, taken)
        counters, last = self.counters(loop, out)
        maps: list[dict[Value, Value]] = []
        for k, value in enumerate(counters):
            kept = {result: self.kept[key][k] for result, key in taken.items()}
            maps.append({**replaced, counter: value, **kept})

        def load(k: int) -> None:
            within = dict(maps[k])
            block = Block((), clone(early, within))
            zeros = Block((), [constant(0, each.type, each.name, loop) for each in leaving])
            values, others = [within[each] for each in leaving], [op.result for op in zeros.ops]
            condition = last if k == self.count - 1 else None
            values = list(_branch(condition, block, values, zeros, others, loop, out))
            loaded = dict(zip([numbers[each] for each in leaving], values, strict=True))
            maps[k].update((result, loaded[key]) for result, key in numbers.items() if key in loaded)

        def compute(k: int, carried: Sequence[Value]) -> Sequence[Value]:
            mapping = maps[k]
            out.extend(clone(free, mapping))
            mapping.update(zip(arguments, carried, strict=True))
            block = Block((), clone(late, mapping))
            values = [mapping.get(value, value) for value in yielded]
            condition = last if k == self.count - 1 else None
            return _branch(condition, block, values, Block(), carried, loop, out)

        carried: Sequence[Value] = inits(loop)
        # what is not kept is loaded for some iterations at a time, so that it takes few registers
        ahead = self.count if any(value in given for value in leaving) else AHEAD
        for start in range(0, self.count, ahead):
            chunk = range(start, min(start + ahead, self.count))
            for k in chunk if leaving else ():
                load(k)
            for k in chunk:
                carried = compute(k, carried)
        return carried, {key: [mapping[result] for mapping in maps] for result, key in given.items()}

    def counters(self, loop: Op, out: list[Op]) -> tuple[list[Value], Value | None]:
        """Counters of all iterations, and whether the last one runs; None where that is sure.  No counter wraps around: there is a first
        iteration, and the upper bound is at most `count` steps."""
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
    other: Block,
    others: Sequence[Value],
    loop: Op,
    out: list[Op],
) -> Sequence[Value]:
    """The values of a block where a condition holds, the others elsewhere; those of the block where it is None."""
    if condition is None or (not block.ops and list(values) == list(others)):
        out += block.ops
        return values
    out.append(conditional(condition, block, values, other, others, loop))
    return out[-1].results
