"""Writes how a program runs in rows, see row_runs.py: workgroups beside each other along x, as one row after the other.

vyre.batches    takes workgroups with one id along y and z, as many as are next: where no invocation of theirs is at fault,
                they run in vyre.rows, else one after the other in vyre.groups
vyre.spans      for each row, which of its invocations have work, and whether none of these might be at fault, nor are too few
vyre.rows       the body for these: 32 at a time, and the last ones of a row with a mask; or several rows at a time, see
                row_blocks.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Dim3, Op, Value
from ..common.llvm_text import Writer
from .control import write_for
from .function_builder import WIDE, FunctionBuilder
from .memory import begin_totals, finish_totals
from .outline import write_block
from .row_blocks import RowBlocks, may_repeat, row_blocks
from .row_runs import FIRST_IDS, Condition, InBounds, RowRuns, is_pure_slice
from .signature import RANGE, Signature
from .subgroup_emitter import SubgroupEmitter

__all__ = ["BATCHES", "QUICK", "define_batches"]

BATCHES = "vyre.batches"
QUICK = "noinline optnone "
"""Attributes of what runs seldom, once for some rows or only before a fault: it takes a fraction of the time to compile."""


_ROWS = (("i64", "%x"), ("i64", "%y"), ("i64", "%z"), ("ptr", "%spans"))
"""The first ids along each axis; the spans of the rows, in memory."""

_SPAN = "{i64, i64}"
"""The first invocation of a row that has work, counted from its begin, and the one behind the last."""

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

MOST = 1 << 31
"""Up to which ids go in rows: those of more invocations wrap, or are negative as signed ones."""

Table = dict[str, Callable[[SubgroupEmitter, Op], None]]


def define_batches(
    runs: RowRuns,
    signature: Signature,
    workgroup: Dim3,
    new_builder: Callable[[], FunctionBuilder],
    table: Table,
) -> None:
    """Define the functions.  `new_builder`: makes a builder for the program of `runs`; `table`: table of the emitters."""
    module = new_builder().module
    name = runs.program.name
    module.define("vyre.spans", _spans(runs, signature, workgroup, new_builder(), table), name)
    module.define("vyre.rows", _rows(runs, signature, workgroup, new_builder(), table), name)
    module.define(BATCHES, _batches(signature, workgroup, new_builder()), name)


@contextmanager
def _each_row(builder: FunctionBuilder, workgroup: Dim3) -> Iterator[str]:
    """A loop over the rows of workgroups; yields the address of its span."""
    _, down, deep = workgroup
    with builder.counting("row", "i64", "0", str(down * deep), is_plain=True) as row:
        builder.params = _ids_of(builder, workgroup, row)
        yield _span_of(builder, row)


def _ids_of(builder: FunctionBuilder, workgroup: Dim3, row: str) -> Mapping[str, str]:
    """The params with the ids of a row, along x those of the first workgroup."""
    w, (_, down, _) = builder.w, workgroup
    y = w.emit(f"add i64 %y, {w.emit(f'urem i64 {row}, {down}')}")
    z = w.emit(f"add i64 %z, {w.emit(f'udiv i64 {row}, {down}')}")
    return {**builder.params, **dict(zip(FIRST_IDS, ("%x", y, z), strict=True))}


def _span_of(builder: FunctionBuilder, row: str) -> str:
    return builder.w.emit(f"getelementptr {_SPAN}, ptr %spans, i64 {row}")


def _ends_of(builder: FunctionBuilder, span: str) -> tuple[str, str]:
    """The first invocation of a span and the one behind its last."""
    end = builder.w.emit(f"getelementptr {_SPAN}, ptr {span}, i32 0, i32 1")
    return builder.load("i64", span), builder.load("i64", end)


# --- vyre.rows


def _rows(
    runs: RowRuns, signature: Signature, workgroup: Dim3, builder: FunctionBuilder, table: Table
) -> str:
    w, (_, down, deep) = builder.w, workgroup
    begin_totals(builder, runs.totals)
    blocks = row_blocks(runs.program, runs.facts, FIRST_IDS[1:], down, builder.features.register_bytes)
    if blocks is None:
        # a mask costs little where loops of tiles take the time, and the body is then compiled once
        with _each_row(builder, workgroup) as span:
            _write_row(runs, builder, table, workgroup, span, has_vectors=not runs.tiles)
    else:
        builder.has_plain_loops = True
        with builder.counting("block", "i64", "0", str(down * deep), blocks.rows, is_plain=True) as first:
            numbers = [w.emit(f"add i64 {first}, {number}") for number in range(blocks.rows)]
            _write_rows(runs, blocks, builder, table, workgroup, numbers)
    finish_totals(SubgroupEmitter(builder, None, table))
    w.branch("exit")
    lines = [*builder.slots, *w.lines, "exit:", "  ret void"]
    return signature.define("vyre.rows", (*_ROWS, ("ptr", "%status")), lines, attributes="noinline ")


def _overlaps(runs: RowRuns, workgroup: Dim3) -> bool:
    """Whether the last 32 invocations of a row run as a whole, some of them for the second time, so that no code has a mask.

    Shorter rows run by workgroups.  Where a launch has many rows, these may all be so.
    """
    return workgroup[1:] == (1, 1) and not runs.tiles and may_repeat([*runs.program.walk()])


def _write_row(
    runs: RowRuns, builder: FunctionBuilder, table: Table, workgroup: Dim3, span: str, *, has_vectors: bool
) -> None:
    """Write a row: 32 invocations at a time (`has_vectors`), and then with a mask, or the last ones once more as a whole."""
    w = builder.w

    def write(first: str, mask: str | None) -> None:
        builder.params = {**builder.params, FIRST_IDS[0]: w.emit(f"add i64 %x, {first}")}
        write_block(SubgroupEmitter(builder, mask, table), runs.program.body.ops)

    def write_lanes_to(end: str, first: str) -> None:
        count = w.emit(f"trunc i64 {w.emit(f'sub i64 {end}, {first}')} to i32")
        lanes = builder.lane_indices()
        write(first, w.emit(f"icmp ult {WIDE.of('i32')} {lanes}, {builder.splat('i32', count)}"))

    def write_overlapping() -> None:
        last = w.emit(f"sub i64 {end}, {SUBGROUP_SIZE}")
        behind = _behind_aligned(runs, builder, table, begin)
        count = w.emit(f"add i64 {w.emit(f'sub i64 {end}, {begin}')}, {behind}")
        with builder.counting("run", "i64", "0", count, SUBGROUP_SIZE, is_plain=True) as run:
            # the first 32 run as a whole, too, where those behind them begin at a multiple
            own = _clamped(w, "smax", w.emit(f"sub i64 {run}, {behind}"), "0")
            write(_clamped(w, "smin", w.emit(f"add i64 {begin}, {own}"), last), None)

    begin, end = _ends_of(builder, span)
    whole, last, done = begin, w.label("last"), w.label("done")
    if _overlaps(runs, workgroup):
        some = w.label("some")
        w.branch_if(w.emit(f"icmp ult i64 {begin}, {end}"), some, done)
        w.start(some)
        write_overlapping()
        w.fall_into(done)
        return
    if has_vectors and may_repeat([*runs.program.walk()]):
        some, rest = w.label("some"), w.label("rest")
        w.branch_if(w.emit(f"icmp sge i64 {w.emit(f'sub i64 {end}, {begin}')}, {SUBGROUP_SIZE}"), some, rest)
        w.start(some)
        write_overlapping()
        w.branch(done)
        w.start(rest)
    elif has_vectors:
        count = w.emit(f"and i64 {w.emit(f'sub i64 {end}, {begin}')}, {-SUBGROUP_SIZE}")
        whole = w.emit(f"add i64 {begin}, {count}")
        some, rest = w.label("some"), w.label("rest")
        w.branch_if(w.emit(f"icmp ult i64 {begin}, {whole}"), some, rest)
        w.start(some)
        with builder.counting("run", "i64", begin, whole, SUBGROUP_SIZE, is_plain=True) as first:
            write(first, None)
        w.fall_into(rest)
    w.branch_if(w.emit(f"icmp ult i64 {whole}, {end}"), last, done)
    w.start(last)
    with builder.counting("part", "i64", whole, end, SUBGROUP_SIZE, is_plain=True) as first:
        write_lanes_to(end, first)
    w.fall_into(done)


def _behind_aligned(runs: RowRuns, builder: FunctionBuilder, table: Table, begin: str) -> str:
    """Number of invocations between one that stores at a multiple of a register's bytes and the first one of a row (i64).

    Stores across lines of the cache take longer: 2x + 1 of 10^7 f32 took 4.1 ms at 16 bytes behind a line, 2.8 at one (AVX-512).
    """
    w, width = builder.w, builder.features.register_bytes
    stores = (op for op in runs.program.walk() if op.name == "store" and runs.facts.stride(op.index) == 1)
    store = next((op for op in stores if is_pure_slice(op.index)), None)
    size = None if store is None else store.operands[0].type.size_bytes
    if store is None or store.operands[0].type.is_vec or not size or width % size:
        return "0"
    emitter = SubgroupEmitter(builder, None, table)
    emitter.write_pure(store.index)
    index = emitter.scalar(store.index)
    if store.index.type.bits != 64:
        kind = "sext" if store.index.type.is_signed else "zext"
        index = w.emit(f"{kind} i{store.index.type.bits} {index} to i64")
    place = w.emit(f"mul i64 {w.emit(f'add i64 {index}, {begin}')}, {size}")
    base = w.emit(f"ptrtoint ptr {builder.pointers[store.attrs['buffer']]} to i64")
    within = w.emit(f"and i64 {w.emit(f'add i64 {base}, {place}')}, {width - 1}")
    return w.emit(f"udiv i64 {within}, {size}")


def _write_rows(
    runs: RowRuns,
    blocks: RowBlocks,
    builder: FunctionBuilder,
    table: Table,
    workgroup: Dim3,
    numbers: Sequence[str],
) -> None:
    """Write rows together where their spans are the same, of 32 invocations or more; else one after the other.

    The last 32 of a span may have run before, as far as they are not a multiple: they do the same again.
    """
    w = builder.w
    spans = [_ends_of(builder, _span_of(builder, number)) for number in numbers]
    (begin, end), *others = spans
    is_same = w.emit(f"icmp sge i64 {w.emit(f'sub i64 {end}, {begin}')}, {SUBGROUP_SIZE}")
    for span in others:
        for mine, other in zip((begin, end), span, strict=True):
            is_same = w.emit(f"and i1 {is_same}, {w.emit(f'icmp eq i64 {mine}, {other}')}")
    together, apart, done = (w.label(hint) for hint in ("together", "apart", "rowsdone"))
    w.branch_if(is_same, together, apart)
    w.start(together)
    ids = [_ids_of(builder, workgroup, number) for number in numbers]
    last = w.emit(f"sub i64 {end}, {SUBGROUP_SIZE}")
    with builder.counting("run", "i64", begin, end, SUBGROUP_SIZE, is_plain=True) as place:
        start = {FIRST_IDS[0]: w.emit(f"add i64 %x, {_clamped(w, 'smin', place, last)}")}
        rows = [(SubgroupEmitter(builder, None, table), {**each, **start}) for each in ids]
        _write_together(blocks, builder, rows, runs.program.body.ops)
    w.branch(done)
    w.start(apart)
    behind = w.emit(f"add i64 {numbers[0]}, {len(numbers)}")
    with builder.counting("row", "i64", numbers[0], behind, is_plain=True) as row:
        builder.params = _ids_of(builder, workgroup, row)
        _write_row(runs, builder, table, workgroup, _span_of(builder, row), has_vectors=False)
    w.fall_into(done)


def _write_together(
    blocks: RowBlocks,
    builder: FunctionBuilder,
    rows: Sequence[tuple[SubgroupEmitter, Mapping[str, str]]],
    ops: Sequence[Op],
) -> tuple[Value, ...]:
    """Write each op for all rows, each with its params, or once; returns the operands of the block's terminator."""
    emitters = [emitter for emitter, _ in rows]
    for op in ops:
        if op.definition.is_terminator:
            return op.operands
        if op.name == "for":
            write_for(emitters, op, lambda inner: _write_together(blocks, builder, rows, inner))
            continue
        is_shared = bool(op.results) and op.result not in blocks.varying
        for emitter, params in rows[:1] if is_shared else rows:
            builder.params = params
            emitter.op(op)
        if is_shared:
            for emitter in emitters:
                emitter.values[op.result] = emitters[0].values[op.result]
    return ()


# --- vyre.spans


def _spans(
    runs: RowRuns, signature: Signature, workgroup: Dim3, builder: FunctionBuilder, table: Table
) -> str:
    """The function that fills `%spans`; whether no invocation of the rows might be at fault."""
    w, safe = builder.w, builder.slot("i1")
    builder.store("i1", "true", safe)
    with _each_row(builder, workgroup) as span:
        intervals = _Intervals(runs, builder, SubgroupEmitter(builder, None, table))
        first, last, is_safe = "0", "%lanes", "true"
        for guard in runs.guards:
            low, high = intervals.of_condition(guard)
            first, last = _clamped(w, "smax", first, low), _clamped(w, "smin", last, high)
            is_safe = w.emit(f"and i1 {is_safe}, {intervals.is_exact(guard)}")
        builder.store("i64", first, span)
        end = w.emit(f"getelementptr {_SPAN}, ptr {span}, i32 0, i32 1")
        builder.store("i64", _clamped(w, "smax", first, last), end)
        is_empty = w.emit(f"icmp sge i64 {first}, {last}")
        if _overlaps(runs, workgroup):
            is_long = w.emit(f"icmp sge i64 {w.emit(f'sub i64 {last}, {first}')}, {SUBGROUP_SIZE}")
            is_safe = w.emit(f"and i1 {is_safe}, {w.emit(f'or i1 {is_empty}, {is_long}')}")
        for check in runs.checks:
            low, high = (
                intervals.of_condition(check) if isinstance(check, Condition) else intervals.of_access(check)
            )
            for inside in (f"icmp sle i64 {low}, {first}", f"icmp sge i64 {high}, {last}"):
                inside = w.emit(f"or i1 {is_empty}, {w.emit(inside)}")
                is_safe = w.emit(f"and i1 {is_safe}, {inside}")
        builder.store("i1", w.emit(f"and i1 {builder.load('i1', safe)}, {is_safe}"), safe)
    lines = [*builder.slots, *w.lines, f"  %safe = load i1, ptr {safe}", "  ret i1 %safe"]
    attributes = QUICK if workgroup[1:] == (1, 1) else "noinline "
    return signature.define("vyre.spans", (*_ROWS, ("i64", "%lanes")), lines, "i1", attributes)


def _clamped(w: Writer, side: str, a: str, b: str) -> str:
    return w.call(f"llvm.{side}.i64", "i64", [("i64", a), ("i64", b)])


class _Intervals:
    """The invocations of a row for which something holds, as those from one number up to another (i64, of any sign).

    The ids of a row go up from %x, and do not wrap; a value that grows by 1 with them may wrap once, at 0 or at the end of
    its type, and what is beyond counts as if it did not hold (but see `is_exact`).
    """

    def __init__(self, runs: RowRuns, builder: FunctionBuilder, emitter: SubgroupEmitter) -> None:
        self.facts, self.w, self.counts = runs.facts, builder.w, builder.counts
        self.emitter = emitter

    def of_condition(self, condition: Condition) -> tuple[str, str]:
        if self.facts.is_uniform(condition.value):
            self.emitter.write_pure(condition.value)
            return self._all_if(self.emitter.scalar(condition.value), condition.holds)
        relation, value, limit = self._comparison(condition)
        lowest, beyond = (-(1 << 31), 1 << 31) if value.type.is_signed else (0, 1 << 32)
        if relation == "lt":
            return self._between(value, str(lowest), limit)
        return self._between(value, limit, str(beyond))

    def is_exact(self, condition: Condition) -> str:
        """An i1: whether a condition holds nowhere else in the row, beyond where its value wraps."""
        if self.facts.is_uniform(condition.value):
            return "true"
        w, (relation, value, limit) = self.w, self._comparison(condition)
        first = self._wide(value, True)
        if value.type.is_signed:
            return w.emit(f"icmp sle i64 {w.emit(f'add i64 {first}, %lanes')}, {1 << 31}")
        is_ahead = w.emit(f"icmp sge i64 {first}, 0")
        if relation == "ge":
            return is_ahead
        # before 0 it is so large that it is not below the limit
        is_large = w.emit(f"icmp sge i64 {w.emit(f'add i64 {first}, {1 << 32}')}, {limit}")
        return w.emit(f"or i1 {is_ahead}, {is_large}")

    def _comparison(self, condition: Condition) -> tuple[str, Value, str]:
        """A condition as `lt` or `ge`, the growing value, and the bound that it is compared with (i64)."""
        op = condition.value.owner
        assert isinstance(op, Op)
        relation, (value, bound) = op.name, op.operands
        if not condition.holds:
            relation = _NEGATED[relation]
        if self.facts.is_uniform(value):
            relation, value, bound = _MIRRORED[relation], bound, value
        limit = self._wide(bound, bound.type.is_signed)
        if relation in ("le", "gt"):
            limit = self.w.emit(f"add i64 {limit}, 1")
        return ("lt" if relation in ("lt", "le") else "ge"), value, limit

    def of_access(self, check: InBounds) -> tuple[str, str]:
        count = self.counts[check.buffer]
        if self.facts.is_uniform(check.index):
            index = self._wide(check.index, check.index.type.is_signed)
            return self._all_if(self.w.emit(f"icmp ult i64 {index}, {count}"), True)
        if check.index.type.is_signed:
            count = _clamped(self.w, "umin", count, str(1 << 31))
        return self._between(check.index, "0", count)

    def _all_if(self, flag: str, holds: bool) -> tuple[str, str]:
        end = ("%lanes", "0") if holds else ("0", "%lanes")
        return "0", self.w.emit(f"select i1 {flag}, i64 {end[0]}, i64 {end[1]}")

    def _between(self, value: Value, low: str, high: str) -> tuple[str, str]:
        """Whether a growing value is at least `low` and less than `high`."""
        first = self._wide(value, True)
        return self.w.emit(f"sub i64 {low}, {first}"), self.w.emit(f"sub i64 {high}, {first}")

    def _wide(self, value: Value, is_signed: bool) -> str:
        """An integer in the first invocation, as an i64."""
        self.emitter.write_pure(value)
        part = self.emitter.scalar(value)
        if value.type.bits == 64:
            return part
        return self.w.emit(f"{'sext' if is_signed else 'zext'} i{value.type.bits} {part} to i64")


# --- vyre.batches


def _batches(signature: Signature, workgroup: Dim3, builder: FunctionBuilder) -> str:
    w, (across, down, deep) = builder.w, workgroup
    width, height = (w.emit(f"zext i32 {extent} to i64") for extent in builder.extents[:2])
    slot, spans = builder.slot("i64"), builder.slot(f"[{down * deep} x {_SPAN}]")
    builder.store("i64", "%first", slot)
    head, narrow, rows, groups, next_batch, done = (
        w.label(hint) for hint in ("batch", "narrow", "rows", "groups", "next", "done")
    )
    w.fall_into(head)
    first = builder.load("i64", slot)
    column, others = w.emit(f"urem i64 {first}, {width}"), w.emit(f"udiv i64 {first}, {width}")
    row_end = w.emit(f"add i64 {first}, {w.emit(f'sub i64 {width}, {column}')}")
    end = _clamped(w, "umin", row_end, "%last")
    lanes = w.emit(f"mul i64 {w.emit(f'sub i64 {end}, {first}')}, {across}")
    x = w.emit(f"mul i64 {column}, {across}")
    y = w.emit(f"mul i64 {w.emit(f'urem i64 {others}, {height}')}, {down}")
    z = w.emit(f"mul i64 {w.emit(f'udiv i64 {others}, {height}')}, {deep}")
    w.branch_if(w.emit(f"icmp ult i64 {w.emit(f'add i64 {x}, {lanes}')}, {MOST}"), narrow, groups)
    w.start(narrow)
    args = [("i64", x), ("i64", y), ("i64", z), ("ptr", spans)]
    is_safe = w.emit(f"call i1 @vyre.spans({signature.passed([*args, ('i64', lanes)])})")
    w.branch_if(is_safe, rows, groups)
    w.start(rows)
    w.line(f"call void @vyre.rows({signature.passed([*args, ('ptr', '%status')])})")
    w.branch(next_batch)
    w.start(groups)
    args = [("i64", first), ("i64", end), ("ptr", "%scratch"), ("ptr", "%status")]
    w.line(f"call void @vyre.groups({signature.passed(args)})")
    is_at_fault = w.emit(f"icmp ne i64 {builder.load('i64', '%status')}, 0")
    w.branch_if(is_at_fault, done, next_batch)
    w.start(next_batch)
    builder.store("i64", end, slot)
    w.branch_if(w.emit(f"icmp ult i64 {end}, %last"), head, done)
    w.start(done)
    return signature.define(BATCHES, RANGE, [*builder.slots, *w.lines, "  ret void"], attributes=QUICK)
