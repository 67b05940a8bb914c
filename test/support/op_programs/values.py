"""Ops on values: arithmetic, select, conversions, vectors, constants, ids."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vyre_opt.ir import OPS, Builder, DataType, OpDef, Value
from vyre_opt.ir.program import Dim3

from .maker import SCALARS, Maker, OpProgram

__all__ = ["byte_shuffles", "constants", "converts", "elementwise", "ids", "selects", "vectors"]


def elementwise(row: OpDef) -> Iterator[OpProgram]:
    count = {"unary": 1, "ternary": 3}.get(row.format, 2)
    scalars = [t for t in (DataType.BOOL, *SCALARS) if row.accepts(t)]
    vectors = [DataType.vec(t, n) for t, n in ((DataType.I32, 4), (DataType.F16, 3)) if row.accepts(t)]
    for dtype in (*scalars, *vectors):
        make = Maker(f"{row.name} {dtype}")
        operands = [make.source(name, dtype) for name in "abc"[:count]]
        make.result(getattr(make.b, row.name)(*operands))
        yield make.finish()


def selects() -> Iterator[OpProgram]:
    for dtype in (DataType.BOOL, *SCALARS, DataType.vec(DataType.U16, 4)):
        make = Maker(f"select {dtype}")
        p = make.source("p", DataType.BOOL)
        make.result(make.b.select(p, make.source("a", dtype), make.source("b", dtype)))
        yield make.finish()
    dtype = DataType.vec(DataType.F32, 4)
    make = Maker("select by a vector")
    a, b = make.source("a", dtype), make.source("b", dtype)
    make.result(make.b.select(make.b.lt(a, b), a, b))
    yield make.finish()


def converts() -> Iterator[OpProgram]:
    for source in (DataType.BOOL, *SCALARS):
        for target in (DataType.BOOL, *SCALARS):
            make = Maker(f"cast {source} to {target}")
            make.result(make.b.cast(make.source("a", source), target))
            yield make.finish()
    shapes = [(t, n) for t in SCALARS for n in (1, 2, 4)]
    types = [t if n == 1 else DataType.vec(t, n) for t, n in shapes]
    for source in types:
        for target in types:
            if source.bits == target.bits and source is not target:
                make = Maker(f"bitcast {source} to {target}")
                value = make.source("a", source)
                if source.element.is_float:  # which NaN an op gives is not said
                    is_nan = make.b.ne(value, value)
                    value = make.b.select(is_nan, make.b.const(1.0, source), value)
                make.result(make.b.bitcast(value, target))
                yield make.finish()


def vectors() -> Iterator[OpProgram]:
    for element, lanes in ((DataType.F32, 4), (DataType.U8, 16), (DataType.BOOL, 2), (DataType.BF16, 5)):
        dtype = DataType.vec(element, lanes)
        make = Maker(f"splat, vector, extract, insert {dtype}")
        b, a = make.b, make.source("a", element)
        whole = make.source("v", dtype)
        parts = [b.extract(whole, lanes - 1 - k) for k in range(lanes)]
        mixed = b.insert(a, b.vector(*parts), lanes // 2)
        make.result(b.select(b.const(True, DataType.BOOL), mixed, b.splat(a, lanes)))
        make.result(b.splat(a, lanes))
        yield make.finish()


def byte_shuffles() -> Iterator[OpProgram]:
    """Tables of each number of registers and fractions of one, of each lane and of all; with what is computed around."""
    u8 = DataType.U8
    shapes = [
        (16, 16),
        (32, 32),
        (64, 64),
        (16, 64),
        (64, 48),
        (64, 12),
        (16, 12),
        (3, 5),
        (33, 31),
        (8, 64),
        (2, 2),
    ]
    for entries, lanes in shapes:
        for is_shared in (False, True):
            make = Maker(f"permute of {'one table of' if is_shared else ''} {entries} by {lanes}")
            b = make.b
            table = make.source("t", DataType.vec(u8, entries))
            if is_shared:
                table = b.const([(37 * k + 11) % 256 for k in range(entries)], table.type)
            index = make.source("i", DataType.vec(u8, lanes))
            near = b.and_(index, 63)
            make.result(b.permute(table, index))
            make.result(b.permute(table, near))
            make.result(b.permute(table, b.shr(index, 4)))
            make.result(
                b.permute(table, b.const([(5 * k + 3) % (entries + 2) for k in range(lanes)], index.type))
            )
            make.result(b.permute(b.not_(table), b.xor(near, b.splat(b.cast(b.local_id("x"), u8), lanes))))
            yield make.finish()
    for lanes in (8, 16, 32, 64):
        make = Maker(f"movemask of {lanes}")
        b, v = make.b, make.source("v", DataType.vec(u8, lanes))
        flags = b.lt(v, 100)
        make.result(b.movemask(flags))
        make.result(b.movemask(b.const([k % 3 == 1 for k in range(lanes)], flags.type)))
        make.result(b.movemask(make.source("p", flags.type)))
        yield make.finish()
    yield _mixed_with_elements()


def _mixed_with_elements() -> OpProgram:
    """Between vectors that a permute works on, and scalars, elements, wider types and branches."""
    u8, u32 = DataType.U8, DataType.U32
    make = Maker("permute among other ops")
    b, v = make.b, make.source("v", DataType.vec(u8, 16))
    n = make.source("n", DataType.U64)
    small = b.bitcast(n, DataType.vec(u8, 8))
    moved = b.permute(v, b.and_(small, 31))
    make.result(b.bitcast(moved, DataType.U64))
    words = b.bitcast(b.permute(v, b.and_(v, 15)), DataType.vec(u32, 4))
    sums = b.add(b.shl(words, 6), b.shr(words, 8))
    make.result(sums)
    make.result(b.add(b.extract(sums, 3), b.cast(b.extract(moved, 5), u32)))
    wide = b.cast(moved, DataType.vec(DataType.I16, 8))
    clamped = b.min(b.max(b.sub(b.mul(wide, 3), 200), 0), 255)
    make.result(b.cast(clamped, moved.type))
    is_low = b.lt(b.extract(moved, 0), 128)
    make.result(b.select(is_low, moved, b.insert(b.extract(v, 9), moved, 2)))
    make.result(b.select(b.lt(moved, small), moved, b.splat(b.extract(v, 1), 8)))
    with b.if_(is_low) as branch:
        branch.yield_(b.permute(v, moved), b.movemask(b.gt(moved, 7)))
    with branch.else_():
        branch.yield_(b.not_(moved), b.const(1, u8))
    make.result(b.permute(v, branch.results[0]))
    make.result(branch.results[1])
    with b.for_(0, b.and_(b.cast(n, u32), 7), carry=[moved]) as loop:
        loop.yield_(b.permute(v, b.add(loop.args[0], b.splat(b.cast(loop.index, u8), 8))))
    make.result(loop.result)
    return make.finish()


def constants() -> Iterator[OpProgram]:
    for dtype in (DataType.BOOL, *SCALARS, DataType.vec(DataType.F16, 3)):
        make = Maker(f"const, spec and param {dtype}")
        make.result(make.b.const(True if dtype.is_bool else 3, dtype))
        if not dtype.is_vec:
            make.result(make.b.spec("s", dtype, True if dtype.is_bool else 5))
            make.result(make.b.param("n", dtype, True if dtype.is_bool else 7))
        yield make.finish()


def ids() -> Iterator[OpProgram]:
    for row in OPS.values():
        if row.format not in ("id", "size"):
            continue
        for axis in "xyz" if row.format == "id" else "x":
            for workgroup, grid in (((5, 3, 2), (2, 3, 2)), ((64, 1, 1), (3, 1, 1)), ((8, 8, 1), (2, 2, 1))):
                make = Maker(f"{row.name} {axis} {workgroup} {grid}", workgroup)
                total = int(np.prod(workgroup) * np.prod(grid))
                value = getattr(make.b, row.name)(*([axis] if row.format == "id" else []))
                make.result(value, total, _linear(make.b, workgroup))
                yield make.finish(grid)


def _linear(b: Builder, workgroup: Dim3) -> Value:
    """A number of this invocation that no other has."""
    x, y, z = (b.global_id(axis) for axis in "xyz")
    return b.add(x, b.mul(b.global_size("x"), b.add(y, b.mul(b.global_size("y"), z))))
