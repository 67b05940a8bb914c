"""Ops that lanes do together, and control flow: subgroups, barriers, loops, branches, calls."""

from __future__ import annotations

from collections.abc import Iterator

from vyre_opt.ir import DataType
from vyre_opt.ir.ops import COMBINERS

from .maker import INTS, LANES, SCALARS, Maker, OpProgram

__all__ = ["control", "subgroups"]

GROUPS = (64, 40, 20)  # whole subgroups, a short last one, a short only one


def subgroups() -> Iterator[OpProgram]:
    for lanes in GROUPS:
        for dtype in (DataType.BOOL, *SCALARS, DataType.vec(DataType.F64, 2)):
            for mode in ("idx", "up", "down", "xor"):
                yield _shuffle(dtype, mode, lanes)
        make = Maker(f"subgroup_ballot {lanes}", lanes)
        make.result(make.b.subgroup_ballot(make.source("a", DataType.BOOL, lanes)), lanes)
        yield make.finish()
        for dtype in (DataType.BOOL, *SCALARS):
            for combine in COMBINERS:
                bitwise = combine in ("and", "or", "xor")
                if (bitwise and dtype.is_float) or (not bitwise and dtype.is_bool):
                    continue
                yield _combined("subgroup", dtype, combine, lanes)
                yield _combined("workgroup", dtype, combine, lanes)


def _shuffle(dtype: DataType, mode: str, lanes: int) -> OpProgram:
    """By a constant, and by an amount that now and then is far out of range."""
    make = Maker(f"subgroup_shuffle {mode} {dtype} {lanes}", lanes)
    b, a = make.b, make.source("a", dtype, lanes)
    where = make.source("where", DataType.U32, lanes)
    near = b.and_(where, b.const(63))
    amount = b.select(b.lt(where, b.const(1 << 20)), near, where)
    make.result(b.subgroup_shuffle(a, b.const(3), mode=mode), lanes)
    make.result(b.subgroup_shuffle(a, amount, mode=mode), lanes)
    return make.finish()


def _combined(scope: str, dtype: DataType, combine: str, lanes: int) -> OpProgram:
    make = Maker(f"{scope} {combine} {dtype} {lanes}", lanes)
    b, a = make.b, make.source("a", dtype, lanes)
    make.result(getattr(b, f"{scope}_reduce")(a, combine=combine), lanes)
    for mode in ("inclusive", "exclusive"):
        make.result(getattr(b, f"{scope}_scan")(a, mode=mode, combine=combine), lanes)
    return make.finish()


# --- control flow


def control() -> Iterator[OpProgram]:
    for dtype in INTS:
        yield _loops(dtype)
    make = Maker("if, region, barriers")
    b, a = make.b, make.source("a", DataType.U32)
    b.buffer("t", DataType.U32, LANES, "workgroup")
    index = b.local_id("x")
    b.store(a, "t", index)
    b.barrier("subgroup")
    b.barrier("workgroup")
    b.assert_(b.lt(index, LANES), "a lane beyond the workgroup")
    b.check_bounds("load", "elsewhere", index, b.len("t"))
    with b.region("swap") as swap:
        swap.yield_(b.load("t", b.sub(b.const(LANES - 1), index)))
    with b.if_(b.lt(a, swap.result)) as branch:
        branch.yield_(a, b.mul(a, 3))
    with branch.else_():
        branch.yield_(swap.result, b.add(a, 1))
    make.result(branch.results[0])
    make.result(branch.results[1])
    yield make.finish()
    yield _calls()
    yield _grid_barrier()
    yield _prints()


def _prints() -> OpProgram:
    """Values of all types, in the lanes of a branch and in rounds of a loop."""
    make = Maker("debug_print")
    b = make.b
    values = [make.source(str(dtype), dtype) for dtype in SCALARS]
    with b.if_(b.lt(values[0], b.cast(b.const(100), values[0].type))):
        b.debug_print(" ".join(["%v"] * len(values)), *values)
    with b.for_(0, 3) as loop:
        pair = b.vector(b.local_id("x"), loop.index)
        b.debug_print("%4u of 3: %x %b", pair, b.cast(values[0], DataType.U32), b.lt(loop.index, 2))
    make.result(values[0])
    return make.finish()


def _loops(dtype: DataType) -> OpProgram:
    """Bounds near the type's ends, where a counter that wraps would run for ever."""
    make = Maker(f"for, while {dtype}")
    b = make.b
    a = b.cast(b.local_id("x"), dtype)
    high = b.const((1 << ((dtype.bits or 8) - dtype.is_signed)) - 1, dtype)
    start = b.sub(high, b.rem(a, b.const(9, dtype)))
    one = b.const(1, dtype)
    with b.for_(start, high, b.add(one, b.and_(a, b.const(3, dtype))), carry=[one], dtype=dtype) as up:
        up.yield_(b.add(b.mul(up.args[0], b.const(3, dtype)), up.index))
    make.result(up.result)
    with b.for_(0, 10, 3, carry=[a, one], dtype=dtype) as fixed:
        fixed.yield_(fixed.args[1], b.add(fixed.args[0], fixed.index))
    make.result(fixed.results[1])
    with b.while_([a, one]) as loop:
        loop.condition(b.gt(loop.args[0], b.const(0, dtype)))
        loop.yield_(b.shr(loop.args[0], one), b.add(loop.args[1], loop.args[0]))
    make.result(loop.results[1])
    return make.finish()


def _calls() -> OpProgram:
    make = Maker("call")
    b = make.b
    pair = DataType.vec(DataType.F32, 2)
    with b.func("inner", DataType.U32, pair) as inner:
        n, v = inner.args
        inner.yield_(b.mul(v, v), b.add(n, 1))
    with b.func("outer", DataType.U32, pair) as outer:
        v, n = b.call("inner", *outer.args)
        v, n = b.call("inner", n, v)
        outer.yield_(b.extract(v, 1), n)
    first = make.source("a", DataType.U32)
    x, n = b.call("outer", first, make.source("v", pair))
    make.result(x)
    make.result(n)
    return make.finish()


def _grid_barrier() -> OpProgram:
    """Each workgroup reads what the next one wrote, three times over."""
    make = Maker("barrier grid", 32)
    b, groups = make.b, 8
    total = 32 * groups
    b.buffer("t", DataType.U32, total, "read_write")
    value = make.source("a", DataType.U32, total)
    index = b.global_id("x")
    for step in range(3):
        b.store(value, "t", index)
        b.barrier("grid")
        value = b.add(b.load("t", b.rem(b.add(index, b.const(32)), b.const(total))), step)
        b.barrier("grid")
    make.result(value, total)
    return make.finish((groups, 1, 1))
