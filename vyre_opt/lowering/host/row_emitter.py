"""Writes how a program runs in rows, see row_runs.py: workgroups beside each other along x, as one row after the other.

    vyre.batches    takes workgroups with one id along y and z, as many as are next: where no invocation of theirs is at fault,
                    each of their rows is a call of vyre.row, else they run one after the other, in vyre.groups
    vyre.row.span   the invocations of a row that have work, and whether one of these might be at fault
    vyre.row        the body for these: 32 at a time, and the last ones with a mask
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op, Value
from ...ir.types import DataType
from ..common.llvm_text import Writer
from .function_builder import WIDE, FunctionBuilder
from .outline import write_block
from .row_runs import Condition, InBounds, RowRuns
from .signature import RANGE, Signature
from .subgroup_emitter import SubgroupEmitter

__all__ = ["BATCHES", "define_batches"]

BATCHES = "vyre.batches"
_ROW = (("i32", "%x"), ("i32", "%y"), ("i32", "%z"), ("i64", "%lanes"))
_SPAN = "{i64, i64, i1}"

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

MOST = 1 << 31
"""The invocations of a row, and what their ids are less than."""

NewEmitter = Callable[[str | None], SubgroupEmitter]
"""An emitter of a row's function for the lanes of a mask."""


def define_batches(
    runs: RowRuns,
    signature: Signature,
    workgroup: tuple[int, int, int],
    new_builder: Callable[[], FunctionBuilder],
    table: dict[str, Callable[[SubgroupEmitter, Op], None]],
) -> None:
    """Define the functions; `new_builder` makes one for the program of `runs`, `table` is that of the emitters."""
    module = new_builder().module
    module.define("vyre.row.span", _span(runs, signature, new_builder(), table))
    module.define("vyre.row", _row(runs, signature, new_builder(), table))
    module.define(BATCHES, _batches(signature, workgroup, new_builder()))


# --- vyre.row


def _row(
    runs: RowRuns,
    signature: Signature,
    builder: FunctionBuilder,
    table: dict[str, Callable[[SubgroupEmitter, Op], None]],
) -> str:
    w = builder.w

    def write(first: str, mask: str | None) -> None:
        builder.origin = (w.emit(f"add i32 %x, {w.emit(f'trunc i64 {first} to i32')}"), "%y", "%z")
        write_block(SubgroupEmitter(builder, mask, table), runs.program.body.ops)

    whole = w.emit(f"and i64 %lanes, {-SUBGROUP_SIZE}")
    some, rest, last, end = (w.label(hint) for hint in ("some", "rest", "last", "end"))
    w.branch_if(w.emit(f"icmp ne i64 {whole}, 0"), some, rest)
    w.start(some)
    with builder.counting("run", "i64", "0", whole, SUBGROUP_SIZE) as first:
        write(first, None)
    w.fall_into(rest)
    count = w.emit(f"trunc i64 {w.emit(f'sub i64 %lanes, {whole}')} to i32")
    w.branch_if(w.emit(f"icmp ne i32 {count}, 0"), last, end)
    w.start(last)
    kind = WIDE.of("i32")
    write(whole, w.emit(f"icmp ult {kind} {builder.lane_indices()}, {builder.splat('i32', count)}"))
    w.fall_into(end)
    w.branch("exit")
    lines = [*builder.slots, *w.lines, "exit:", "  ret void"]
    return signature.define("vyre.row", (*_ROW, ("ptr", "%status")), lines)


# --- vyre.row.span


def _span(
    runs: RowRuns,
    signature: Signature,
    builder: FunctionBuilder,
    table: dict[str, Callable[[SubgroupEmitter, Op], None]],
) -> str:
    w = builder.w
    builder.origin = ("%x", "%y", "%z")
    intervals = _Intervals(runs, builder, SubgroupEmitter(builder, None, table))
    first, last = "0", "%lanes"
    for guard in runs.guards:
        low, high = intervals.of_condition(guard)
        first, last = _clamped(w, "smax", first, low), _clamped(w, "smin", last, high)
    none = w.emit(f"icmp sge i64 {first}, {last}")
    is_safe = "true"
    for check in runs.checks:
        low, high = (
            intervals.of_condition(check) if isinstance(check, Condition) else intervals.of_access(check)
        )
        for inside in (f"icmp sle i64 {low}, {first}", f"icmp sge i64 {high}, {last}"):
            is_safe = w.emit(f"and i1 {is_safe}, {w.emit(inside)}")
    is_safe = w.emit(f"or i1 {is_safe}, {none}")
    last = w.emit(f"select i1 {none}, i64 {first}, i64 {last}")
    span = "poison"
    for number, (kind, part) in enumerate((("i64", first), ("i64", last), ("i1", is_safe))):
        span = w.emit(f"insertvalue {_SPAN} {span}, {kind} {part}, {number}")
    return signature.define("vyre.row.span", _ROW, [*builder.slots, *w.lines, f"  ret {_SPAN} {span}"], _SPAN)


def _clamped(w: Writer, side: str, a: str, b: str) -> str:
    return w.call(f"llvm.{side}.i64", "i64", [("i64", a), ("i64", b)])


class _Intervals:
    """The invocations of a row for which something holds, as those from one number up to another (i64, of any sign).

    The ids of a row go up from %x, and do not wrap; a value that grows by 1 with them may wrap once, at 0 or at the end of
    its type, and what is beyond counts as if it did not hold.
    """

    def __init__(self, runs: RowRuns, builder: FunctionBuilder, emitter: SubgroupEmitter) -> None:
        self.facts, self.w, self.counts = runs.facts, builder.w, builder.counts
        self.emitter = emitter

    def of_condition(self, condition: Condition) -> tuple[str, str]:
        op = condition.value.owner
        if self.facts.is_uniform(condition.value):
            self._write(condition.value)
            return self._all_if(self.emitter.scalar(condition.value), condition.holds)
        assert isinstance(op, Op)
        relation, (value, bound) = op.name, op.operands
        if not condition.holds:
            relation = _NEGATED[relation]
        if self.facts.is_uniform(value):
            relation, value, bound = _MIRRORED[relation], bound, value
        limit = self._wide(bound, bound.type.is_signed)
        if relation in ("le", "gt"):
            limit = self.w.emit(f"add i64 {limit}, 1")
        lowest, beyond = (-(1 << 31), 1 << 31) if value.type.is_signed else (0, 1 << 32)
        if relation in ("lt", "le"):
            return self._between(value, str(lowest), limit)
        return self._between(value, limit, str(beyond))

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
        """Where a value that grows is at least `low` and less than `high`."""
        first = self._wide(value, True)
        return self.w.emit(f"sub i64 {low}, {first}"), self.w.emit(f"sub i64 {high}, {first}")

    def _wide(self, value: Value, is_signed: bool) -> str:
        """An integer in the first invocation, as an i64."""
        self._write(value)
        part = self.emitter.scalar(value)
        if value.type.bits == 64:
            return part
        return self.w.emit(f"{'sext' if is_signed else 'zext'} i{value.type.bits} {part} to i64")

    def _write(self, value: Value) -> None:
        """Write the ops that a value follows from."""
        if value not in self.emitter.values:
            assert isinstance(value.owner, Op)
            for operand in value.owner.operands:
                self._write(operand)
            self.emitter.op(value.owner)


# --- vyre.batches


def _batches(signature: Signature, workgroup: tuple[int, int, int], builder: FunctionBuilder) -> str:
    w, (across, down, deep) = builder.w, workgroup
    width, height = (w.emit(f"zext i32 {extent} to i64") for extent in builder.extents[:2])
    slot, safe = builder.slot("i64"), builder.slot("i1")
    builder.store("i64", "%first", slot)
    head, rows, groups, next_batch, done = (
        w.label(hint) for hint in ("batch", "rows", "groups", "next", "done")
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
    narrow = [w.emit(f"trunc i64 {start} to i32") for start in (x, y, z)]
    # the last rows of a grid of 2^32 invocations or more have ids that wrap
    builder.store("i1", w.emit(f"icmp ult i64 {w.emit(f'add i64 {x}, {lanes}')}, {MOST}"), safe)

    def span(row: str) -> tuple[list[tuple[str, str]], list[str]]:
        """The row of a number among those of the workgroups, and its span."""
        at_y = w.emit(f"add i32 {narrow[1]}, {w.emit(f'urem i32 {row}, {down}')}")
        at_z = w.emit(f"add i32 {narrow[2]}, {w.emit(f'udiv i32 {row}, {down}')}")
        args = [("i32", narrow[0]), ("i32", at_y), ("i32", at_z), ("i64", lanes)]
        whole = w.emit(f"call {_SPAN} @vyre.row.span({signature.passed(args)})")
        return args, [w.emit(f"extractvalue {_SPAN} {whole}, {number}") for number in range(3)]

    with builder.counting("check", "i32", "0", str(down * deep)) as row:
        is_safe = w.emit(f"and i1 {builder.load('i1', safe)}, {span(row)[1][2]}")
        builder.store("i1", is_safe, safe)
    w.branch_if(builder.load("i1", safe), rows, groups)
    w.start(rows)
    with builder.counting("row", "i32", "0", str(down * deep)) as row:
        args, (begin, last, _) = span(row)
        start = w.emit(f"add i32 {narrow[0]}, {w.emit(f'trunc i64 {begin} to i32')}")
        moved = [("i32", start), *args[1:3], ("i64", w.emit(f"sub i64 {last}, {begin}")), ("ptr", "%status")]
        w.line(f"call void @vyre.row({signature.passed(moved)})")
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
    return signature.define(BATCHES, RANGE, [*builder.slots, *w.lines, "  ret void"])
