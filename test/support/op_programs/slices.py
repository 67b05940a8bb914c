"""Slices of every type, length and combiner: sums of floats have one order on every target."""

from __future__ import annotations

from collections.abc import Iterator

from vyre_opt.ir import OPS, DataType
from vyre_opt.ir.formats import sum_type

from .maker import SCALARS, Maker, OpProgram

__all__ = ["slices"]

U32, BOOL = DataType.U32, DataType.BOOL
COMBINERS = ("add", "mul", "min", "max", "and", "or", "xor")
LENGTHS = (1, 31, 130, 1000, 4097)


def slices() -> Iterator[OpProgram]:
    for number, dtype in enumerate(SCALARS):
        for combine in COMBINERS:
            if OPS["and" if combine in ("and", "or", "xor") else "add"].accepts(dtype):
                yield _reduced(dtype, combine, LENGTHS[number % len(LENGTHS)], is_open=number % 2 == 0)
    yield _any()
    for length in LENGTHS:
        yield _blocks(length)
        yield _in_place(length)
    yield _overlapping()
    for dtype in (DataType.F32, DataType.BF16, DataType.I8, DataType.U64):
        yield _matrices(dtype)
        yield _scans(dtype)
    yield _gathers()


def _reduced(dtype: DataType, combine: str, length: int, is_open: bool) -> OpProgram:
    """Of rows, each of which is part of another one; and the differences to that."""
    make = Maker(f"slice_reduce<{combine}> {dtype} {length}", 1)
    b, columns = make.b, None if is_open else length
    b.buffer("x", dtype, (3, length), "read", 0)
    b.buffer("y", dtype, (3, length), "write", 1)
    b.buffer("z", dtype, 3, "write", 2)
    row = b.workgroup_id("x")
    values = b.slice_load("x", (row, 0), (columns,))
    total = b.slice_reduce(values, combine)
    b.store(total, "z", row)
    less = b.sub(values, b.slice_broadcast(total, values))
    b.slice_store(less, "y", (row, 0))
    return make.finish((3, 1, 1))


def _any() -> OpProgram:
    """Comparisons, selections and flags, from the second element on."""
    make = Maker("slice_reduce of bools", 1)
    b = make.b
    b.buffer("x", DataType.I32, 500, "read", 0)
    b.buffer("y", DataType.F32, 500, "write", 1)
    b.buffer("z", U32, 2, "write", 2)
    values = b.slice_load("x", 1, (None,))
    is_odd = b.ne(
        b.and_(values, b.slice_broadcast(b.const(1, DataType.I32), values)),
        b.slice_broadcast(b.const(0, DataType.I32), values),
    )
    b.store(b.cast(b.slice_reduce(is_odd, "or"), U32), "z", 0)
    b.store(b.slice_len(values), "z", 1)
    floats = b.cast(values, DataType.slice((None,), DataType.F32))
    half = b.slice_broadcast(b.const(0.5, DataType.F32), floats)
    b.slice_store(b.select(is_odd, b.mul(floats, half), b.neg(floats)), "y", 1)
    return make.finish((1, 1, 1))


def _blocks(length: int) -> OpProgram:
    """Blocks of 64 of which the last one reaches beyond the edge."""
    make = Maker(f"blocks of {length}", 1)
    b = make.b
    b.buffer("x", DataType.F32, length, "read", 0)
    b.buffer("y", DataType.F32, length, "write", 1)
    b.buffer("z", DataType.F32, -(-length // 64), "write", 2)
    group = b.workgroup_id("x")
    block = b.slice_load("x", b.mul(group, 64), (64,), 2.0)
    b.store(b.slice_reduce(block, "mul"), "z", group)
    b.slice_store(b.add(block, block), "y", b.mul(group, 64), "clipped")
    return make.finish((-(-length // 64), 1, 1))


def _in_place(length: int) -> OpProgram:
    """A row that is overwritten, over and over, by values of a loop; then read again."""
    make = Maker(f"rows of {length} in place", 1)
    b = make.b
    b.buffer("x", DataType.F32, (2, length), "read_write", 0, live_in=True, live_out=True)
    b.buffer("z", DataType.F32, 2, "write", 1)
    row = b.workgroup_id("x")
    with b.for_(0, 3, carry=[b.const(0.0, DataType.F32)]) as loop:
        values = b.slice_load("x", (row, 0), (None,))
        most = b.slice_reduce(values, "max")
        b.slice_store(b.sub(values, b.slice_broadcast(b.mul(most, 0.25), values)), "x", (row, 0))
        again = b.slice_load("x", (row, 0), (None,))
        loop.yield_(b.add(loop.args[0], b.slice_reduce(again, "add")))
    with b.if_(b.gt(loop.result, 0.0)):
        b.store(loop.result, "z", row)
    with b.if_(b.le(loop.result, 0.0)):
        b.store(1.0, "z", row)
    return make.finish((2, 1, 1))


def _overlapping() -> OpProgram:
    """Rows, blocks and elements that are written over one another, in order; nothing of them is read."""
    make = Maker("slice_store over others", 1)
    b = make.b
    b.buffer("y", DataType.F32, (2, 9000), "write", 0)
    row = b.workgroup_id("x")
    b.slice_store(b.slice_broadcast(b.const(2.0, DataType.F32), (9000,)), "y", (row, 0))
    b.store(1.0, "y", (row, 500))
    b.store(4.0, "y", (row, 501))
    with b.for_(0, 20, dtype=U32) as loop:
        value = b.cast(loop.index, DataType.F32)
        b.slice_store(b.slice_broadcast(value, (64,)), "y", (row, b.add(497, b.mul(loop.index, 3))))
        b.store(7.0, "y", (row, b.add(500, loop.index)))
    return make.finish((2, 1, 1))


def _matrices(dtype: DataType) -> OpProgram:
    """Products and transposes of blocks with edges, and sums that a loop carries."""
    make = Maker(f"slice_dot {dtype}", 1)
    b = make.b
    b.buffer("x", dtype, (30, 50), "read", 0)
    b.buffer("y", dtype, (50, 20), "read", 1)
    b.buffer("z", sum_type(dtype), (30, 20), "write", 2)
    b.buffer("t", dtype, (50, 30), "write", 3)
    row = b.mul(b.workgroup_id("x"), 16)
    zero = b.slice_broadcast(b.const(0, sum_type(dtype)), (16, 24))
    with b.for_(0, 50, 8, carry=[zero]) as loop:
        left = b.slice_load("x", (row, loop.index), (16, 8), 0)
        right = b.slice_load("y", (loop.index, 0), (8, 24), 0)
        b.slice_store(b.slice_transpose(left), "t", (loop.index, row), "clipped")
        loop.yield_(b.slice_dot(left, right, b.add(loop.args[0], b.slice_dot(left, right))))
    b.slice_store(loop.result, "z", (row, 0), "clipped")
    return make.finish((2, 1, 1))


def _scans(dtype: DataType) -> OpProgram:
    make = Maker(f"slice_scan {dtype}", 1)
    b = make.b
    b.buffer("x", dtype, (3, 4500), "read", 0)
    b.buffer("y", dtype, (3, 4500), "write", 1)
    b.buffer("z", dtype, (3, 40), "write", 2)
    row = b.workgroup_id("x")
    b.slice_store(b.slice_scan(b.slice_load("x", (row, 0), (None,))), "y", (row, 0))
    block = b.slice_load("x", (0, row), (3, 40))
    with b.if_(b.eq(row, 1)):
        most = b.slice_scan(b.slice_scan(block, "exclusive", "max", 0), "inclusive", "add", 1)
        b.slice_store(most, "z", (0, 0))
    return make.finish((3, 1, 1))


def _gathers() -> OpProgram:
    """Rows of a table, from an index that counts down."""
    make = Maker("slice_gather", 1)
    b = make.b
    b.buffer("x", DataType.I32, (9, 70), "read", 0)
    b.buffer("y", DataType.I32, (9, 70), "write", 1)
    row = b.workgroup_id("x")
    counted = b.slice_iota(b.len("x", dimension=1))
    last = b.slice_broadcast(b.const(69), counted)
    b.slice_store(b.slice_gather("x", (row, b.sub(last, counted))), "y", (row, 0))
    return make.finish((9, 1, 1))
