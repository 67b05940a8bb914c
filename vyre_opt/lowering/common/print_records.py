"""`debug_print` as ordinary ops, so that every compiled target prints alike: each print stores a record in a buffer of
the program's own, which the host reads after the launch.

    @debug_print.records    (see `records_of`)  word 0: how many prints there were      then records, of equal lengths
    a record                which print, which invocation, and a word for each operand, or each lane of a vector

    debug_print "v=%f" %v   =>   %slot = atomic_add @records[0], 1
                                 if %slot < capacity { stores of a record at 1 + %slot * length }

All words are u64.  A lane takes its slots in the order of its prints, which a sort by invocation and slot keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.builder import Builder
from ...ir.ops import AXES
from ...ir.program import AccessMode, Block, Buffer, Op, Program, Value
from ...ir.rewrite import clone, fresh_name
from ...ir.types import DataType
from ...rewriting.walker import Walker

__all__ = ["MAX_RECORDS", "capacity", "prints_of", "record_words", "records_of", "with_print_records"]

HEAD_WORDS = 2
"""Words at the head of a record: the number of the print and the linear id of the invocation."""

MAX_RECORDS, MAX_RECORD_BYTES = 4096, 1 << 22

_U32, _U64 = DataType.U32, DataType.U64


def prints_of(program: Program) -> list[Op]:
    """The prints of a program, in the order by which records number them."""
    return [op for op in program.walk() if op.name == "debug_print"]


def records_of(program: Program) -> str | None:
    """The name of the buffer that the records of a program get, which no buffer of its own has; None without prints."""
    if not prints_of(program):
        return None
    return fresh_name("debug_print.records", program.buffers)


def record_words(prints: list[Op]) -> int:
    """Words of a record, which has room for the operands of any of these prints."""
    return HEAD_WORDS + max((sum(value.type.lanes for value in op.operands) for op in prints), default=0)


def capacity(prints: list[Op]) -> int:
    """Number of records that a launch keeps; later prints are only counted."""
    return min(MAX_RECORDS, MAX_RECORD_BYTES // (8 * record_words(prints))) if prints else 0


def with_print_records(program: Program) -> Program:
    """The program, or a copy of it without breakpoints whose prints store records in a transient buffer, see `records_of`."""
    name, prints = records_of(program), prints_of(program)
    if name is None and not any(op.name == "breakpoint" for op in program.walk()):
        return program
    copy = replace(program, body=Block((), clone(program.body.ops, {})), buffers=dict(program.buffers))
    length = record_words(prints)
    if name is not None:
        copy.buffers[name] = Buffer(name, _U64, 1 + capacity(prints) * length, AccessMode.READ_WRITE)
    recorder = _Recorder(copy, name or "", length, capacity(prints))
    recorder.walk_block(copy.body)
    return copy


class _Recorder(Walker):
    def __init__(self, program: Program, records: str, length: int, capacity: int) -> None:
        super().__init__()
        self.b = Builder(program.name, program.workgroup, program.grid)
        self.b.program.buffers = program.buffers
        self.records, self.length, self.capacity = records, length, capacity

    def visit(self, op: Op, out: list[Op]) -> None:
        if op.name == "breakpoint":
            return
        if op.name != "debug_print":
            out.append(op)
            return
        b, block = self.b, Block()
        b.loc = op.loc
        with b.at(block):
            slot = b.atomic_add(self.records, b.const(0, _U64), b.const(1, _U64))
            with b.if_(b.lt(slot, self.capacity)):
                self.store_record(op, b.add(b.mul(slot, self.length), 1))
        out += block.ops
        self.changes += 1

    def store_record(self, op: Op, start: Value) -> None:
        b = self.b
        words = [b.const(self.changes, _U64), self.invocation()]
        words += [self.word(lane) for value in op.operands for lane in self.lanes(value)]
        for index, word in enumerate(words):
            b.store(word, self.records, b.add(start, index) if index else start)

    def invocation(self) -> Value:
        """The linear id of the workgroup times the invocations of one, plus the linear local id."""
        b = self.b
        gx, gy, gz = (b.cast(b.workgroup_id(axis), _U64) for axis in AXES)
        width, height = (b.cast(b.num_workgroups(axis), _U64) for axis in AXES[:2])
        group = b.add(gx, b.mul(width, b.add(gy, b.mul(height, gz))))
        x, y, z = (b.local_id(axis) for axis in AXES)
        width_inside, height_inside, _ = b.program.workgroup
        local = b.add(x, b.mul(b.add(y, b.mul(z, height_inside)), width_inside))
        return b.add(b.mul(group, b.program.lanes), b.cast(local, _U64))

    def lanes(self, value: Value) -> Iterator[Value]:
        if not value.type.is_vec:
            yield value
            return
        for lane in range(value.type.lanes):
            yield self.b.extract(value, lane)

    def word(self, value: Value) -> Value:
        """The bits of a scalar, lowest first; those above its own are of its sign."""
        b, dtype = self.b, value.type
        if dtype.is_float:
            value = b.bitcast(value, DataType.of(f"u{dtype.bits}"))
        return value if value.type is _U64 else b.cast(value, _U64)
