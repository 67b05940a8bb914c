"""Ops on buffers: loads and stores of every width, atomics."""

from __future__ import annotations

from collections.abc import Iterator

from vyre_opt.ir import OPS, DataType, OpDef
from vyre_opt.ir.ops import ORDERS

from .maker import INTS, LANES, SCALARS, WORDS, Maker, OpProgram

__all__ = ["accesses", "atomics"]


def _copies(element: DataType, lanes: int) -> OpProgram:
    """Two copies, the first of which is waited for while the second is under way; lanes read what their neighbours copied."""
    make = Maker(f"copy {lanes} x {element}", 64)
    b = make.b
    b.buffer("a", element, 128 * lanes, "read", 0)
    b.buffer("t", element, (2, 64 * lanes), "workgroup")
    b.buffer("out", element, 128 * lanes, "write", 1)
    own = b.mul(b.local_id("x"), b.const(lanes))
    other = b.mul(b.xor(b.local_id("x"), 33), b.const(lanes))
    for half in range(2):
        b.copy_async(b.load("a", b.add(own, 64 * lanes * half), lanes), "t", (half, own))
        if half == 0:
            b.copy_wait(1)
    for half in range(2):
        b.copy_wait(1 - half)
        b.barrier("workgroup")
        b.store(b.load("t", (half, other), lanes), "out", b.add(own, 64 * lanes * half))
    return make.finish()


def accesses() -> Iterator[OpProgram]:
    for element in (DataType.BOOL, *SCALARS):
        for lanes in (1, 2, 3, 4, 8):
            make = Maker(f"load and store {lanes} x {element}", 32)
            b = make.b
            index = b.mul(b.global_id("x"), b.const(lanes))
            b.buffer("a", element, 32 * lanes, "read", 0)
            b.buffer("t", element, 32 * lanes, "workgroup")
            b.buffer("out", element, 32 * lanes, "write", 1)
            b.store(b.load("a", index, lanes), "t", index)
            b.barrier("workgroup")
            b.store(b.load("t", index, lanes), "out", index)
            yield make.finish()
            yield _copies(element, lanes)
    for index_type in INTS:
        make = Maker(f"index of {index_type}", 32)
        b = make.b
        for name, access, binding in (("a", "read", 0), ("out", "write", 1)):
            b.buffer(name, DataType.U32, None, access, binding)
        make.bindings = 2
        index = b.cast(b.global_id("x"), index_type)
        b.store(b.load("a", index), "out", index)
        make.result(b.len("a"), 32)
        make.result(b.len("a", DataType.U64), 32)
        yield make.finish()
    make = Maker("workgroup memory above 48 KiB")
    b, a = make.b, make.source("a", DataType.U32)
    b.buffer("bytes", DataType.U8, 40_000, "workgroup")
    b.buffer("words", DataType.U32, 5_000, "workgroup")
    index = b.local_id("x")
    b.store(a, "words", b.add(index, b.const(4_900)))
    b.store(b.cast(a, DataType.U8), "bytes", b.add(index, b.const(39_000)))
    b.barrier("workgroup")
    make.result(b.load("words", b.sub(b.const(4_963), index)))
    make.result(b.load("bytes", b.sub(b.const(39_063), index)))
    yield make.finish()
    for dtype in (DataType.vec(DataType.F32, 4), DataType.vec(DataType.U8, 3), DataType.vec(DataType.F64, 2)):
        make = Maker(f"buffer of {dtype}")
        make.result(make.source("a", dtype))
        yield make.finish()


def atomics() -> Iterator[OpProgram]:
    for row in OPS.values():
        if row.format != "atomic":
            continue
        for number, dtype in enumerate(t for t in WORDS if row.accepts(t)):
            for space in ("read_write", "workgroup"):
                order = ORDERS[number % len(ORDERS)]
                yield _atomic(row, dtype, space, order)
                if row.name.removeprefix("atomic_") in ("add", "min", "max", "and", "or", "xor"):
                    yield _contended(row, dtype, space)
    for order in ORDERS:
        yield _atomic(OPS["atomic_compare_exchange"], DataType.U32, "read_write", order)


def _atomic(row: OpDef, dtype: DataType, space: str, order: str) -> OpProgram:
    """Each invocation on an element of its own: the old values are determined."""
    make = Maker(f"{row.name} {dtype} {space} {order}")
    b = make.b
    operands = [make.source(name, dtype) for name in ("a", "b")[: 1 + row.name.endswith("compare_exchange")]]
    start = make.source("start", dtype)
    index = b.local_id("x")
    if space == "workgroup":
        b.buffer("m", dtype, LANES, space)
        b.store(start, "m", index)
        b.barrier("workgroup")
    else:
        make.source("m", dtype, access=space)
    if len(operands) == 2:  # half of the comparisons succeed
        is_odd = b.eq(b.and_(index, b.const(1)), b.const(1))
        operands[0] = b.select(is_odd, start, operands[0])
    make.result(getattr(b, row.name)("m", index, *operands, order=order))
    b.barrier("workgroup")
    if space == "workgroup":
        make.result(b.load("m", index))
    return make.finish()


def _contended(row: OpDef, dtype: DataType, space: str) -> OpProgram:
    """All invocations on four elements; small whole numbers, whose float sums are exact."""
    make = Maker(f"{row.name} {dtype} {space} contended")
    b = make.b
    index = b.local_id("x")
    small = b.cast(b.and_(b.mul(index, b.const(37)), b.const(63)), dtype)
    b.buffer("m", dtype, 4, "workgroup" if space == "workgroup" else "read_write", None)
    if space != "workgroup":
        b.program.buffers["m"].binding = make.bindings
        b.program.buffers["m"].live_out = True
        make.bindings += 1
    with b.if_(b.lt(index, b.const(4))):
        b.store(b.const(40, dtype), "m", index)
    b.barrier("workgroup")
    getattr(b, row.name)("m", b.and_(index, b.const(3)), small)
    b.barrier("workgroup")
    if space == "workgroup":
        make.result(b.load("m", b.and_(index, b.const(3))))
    return make.finish()
