"""A small program for each row of the op table, by its format, for tests that go over the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

from vyre_opt.ir import Builder, DataType, Module, OpDef, Value
from vyre_opt.ir.ops import KernelDef, Role

__all__ = ["kernel_counts", "op_samples"]

U32, F32, BOOL = DataType.U32, DataType.F32, DataType.BOOL


def op_samples(row: OpDef) -> Iterator[Module]:
    """A module with an op of `row`, for each choice of a word it takes."""
    if row.kernel is not None:
        yield _kernel(row)
        return
    choices = next((attr.choices for attr in row.attrs if attr.choices), None) or (None,)
    for choice in choices:
        workgroup = {"matrix": (8, 4), "slice": (1,)}.get(row.format.partition("_")[0], (8, 2))
        b = Builder("p", workgroup, 2, cluster=2 if choice == "cluster" else None)
        b.buffer("in", _operand_type(row), 64, "read_write", 0, live_in=True, live_out=True)
        _build(b, row, choice)
        b.finish()
        yield b.module


def _operand_type(row: OpDef) -> DataType:
    return F32 if row.types == "float" else U32


def _kernel(row: OpDef) -> Module:
    assert row.kernel is not None
    b = Builder("p", 8)
    params = {key: 4 if default is None else default for key, default in row.kernel.params.items()}
    for number, (role, count) in enumerate(kernel_counts(row.kernel, params)):
        b.buffer(role.name, role.types[0], count, role.access, number)
    b.kernel(row.name, *[role.name for role in row.kernel.roles], **params)
    b.finish()
    return b.module


def kernel_counts(kernel: KernelDef, params: Mapping[str, int]) -> list[tuple[Role, int]]:
    """The elements of each operand of a kernel, where sizes that only buffers say are 64."""
    sizes = kernel.semantic_params(params)
    free = {size for role in kernel.roles for size in role.shape} - kernel.sizes.keys()
    sizes = dict.fromkeys((size for size in free if not size.isdecimal()), 64) | sizes
    for name, rule in kernel.sizes.items():
        sizes[name] = rule(sizes)

    def count(role: Role) -> int:
        return prod(int(size) if size.isdecimal() else sizes[size] for size in role.shape or ("64",))

    return [(role, count(role)) for role in kernel.roles]


def _build(b: Builder, row: OpDef, choice: str | None) -> None:
    """One op of `row`, and what it needs around it."""
    format = row.format
    method: Any = getattr(b, row.name, None)
    x: Value = b.const(3, _operand_type(row))
    truth = b.const(True, BOOL)
    if format in ("unary", "binary", "ternary", "compare"):
        method(*[x] * {"unary": 1, "binary": 2, "ternary": 3, "compare": 2}[format])
    elif format in ("id", "barrier"):
        method(choice)
    elif format == "size":
        method()
    elif format == "select":
        b.select(truth, x, x)
    elif format == "convert":
        method(x, F32)
    elif format == "atomic":
        values = [x, x] if row.name == "atomic_compare_exchange" else [x]
        method("in", 0, *values, order=choice)
    elif format == "shuffle":
        b.subgroup_shuffle(x, 1, choice or "")
    elif format == "reduce":
        method(x, choice or "")
    elif format.startswith("matrix"):
        _matrix(b, row.name, choice or "")
    elif format.startswith("slice"):
        _slice(b, row.name, choice or "")
    elif format == "check_bounds":
        b.check_bounds(choice or "", "in", x, 8)
    elif format == "scan":
        method(x, choice or "", "max")
    else:
        _SINGLE[row.name](b, x, truth)


def _matrix(b: Builder, name: str, layout: str) -> None:
    b.buffer("m", F32, (32, 16), "read_write", 1, live_in=True, live_out=True)
    total = DataType.matrix(16, 8, F32, "acc")
    if name == "matrix_store":
        b.matrix_store(b.splat(b.const(0.5, F32), total), "m", (3, b.subgroup_id()), layout)
    elif name in ("matrix_unpack", "matrix_pack"):
        lanes = b.matrix_unpack(b.splat(b.const(0.5, F32), total))
        if name == "matrix_pack":
            b.matrix_pack(lanes, total)
    elif name == "matrix_load":
        b.matrix_load("m", (b.workgroup_id("x"), 4), DataType.matrix(8, 8, DataType.TF32, "b"), layout)
    else:
        x = b.const(2.0, DataType.matrix(16, 16, DataType.BF16, "a"))
        b.matrix_mul_add(x, b.const(1.0, DataType.matrix(16, 8, DataType.BF16, "b")), b.const(0.0, total))


def _slice(b: Builder, name: str, choice: str) -> None:
    b.buffer("s", F32, (None, 16), "read_write", 1, live_in=True, live_out=True)
    row = b.slice_load("s", (1, 0), (None,))
    if name == "slice_load" and choice == "filled":
        b.slice_load("s", (2, 3), (4, 20), 0.5)
    elif name == "slice_store":
        b.slice_store(row, "s", (3, 0), choice)
    elif name == "slice_broadcast":
        b.slice_broadcast(b.slice_broadcast(b.const(1.5, F32), row), row)
        b.slice_broadcast(b.const(1.5, F32), (3, 8))
    elif name == "slice_reduce":
        both = b.slice_load("s", (0, 0), (None, None))
        b.slice_reduce(
            b.slice_reduce(both, "max", 1), choice if choice in ("add", "mul", "min", "max") else "add"
        )
    elif name == "slice_gather":
        b.slice_gather("s", (1, b.slice_iota(8)))
    elif name == "slice_iota":
        b.slice_iota(b.const(9), DataType.I32)
        b.slice_iota((8, 1))
    elif name == "slice_scan":
        b.slice_scan(b.slice_load("s", (0, 0), (4, 8)), choice, "max", 1)
    elif name == "slice_transpose":
        b.slice_transpose(b.slice_load("s", (0, 0), (4, 8)))
    elif name == "slice_dot":
        block = b.slice_load("s", (0, 0), (4, 8))
        b.slice_dot(block, b.slice_transpose(block), b.slice_dot(block, b.slice_transpose(block)))
    elif name == "slice_len":
        b.slice_len(row)


def _splat(b: Builder, x: Value, truth: Value) -> None:
    b.insert(7, b.splat(x, 4), 1)


def _vector(b: Builder, x: Value, truth: Value) -> None:
    b.extract(b.vector(x, x, 9), 2)


def _permute(b: Builder, x: Value, truth: Value) -> None:
    u8 = DataType.U8
    b.permute(b.splat(b.cast(x, u8), 16), b.const([3, 200, 0], DataType.vec(u8, 3)))


def _copy(b: Builder, x: Value, truth: Value) -> None:
    b.buffer("tile", U32, 64, "workgroup")
    b.copy_async(b.load("in", 4, 2), "tile", 6)
    b.copy_wait(1)
    b.copy_wait()


def _for(b: Builder, x: Value, truth: Value) -> None:
    with b.for_(0, x, 2, carry=[x, truth]) as loop:
        loop.yield_(b.add(loop.args[0], loop.index), loop.args[1])
    with b.for_(-4, 4, dtype=DataType.I16):
        b.lane_id()


def _while(b: Builder, x: Value, truth: Value) -> None:
    with b.while_([x]) as loop:
        loop.condition(b.lt(loop.args[0], 9))
        loop.yield_(b.add(loop.args[0], 1))


def _if(b: Builder, x: Value, truth: Value) -> None:
    with b.if_(truth) as branch:
        branch.yield_(x)
    with branch.else_():
        branch.yield_(b.const(4))
    with b.if_(truth):
        b.lane_id()


def _region(b: Builder, x: Value, truth: Value) -> None:
    with b.region("phase") as nest:
        nest.yield_(b.add(x, 1))


def _call(b: Builder, x: Value, truth: Value) -> None:
    with b.func("twice", U32) as func:
        func.yield_(b.add(func.args[0], func.args[0]), b.const(1.5, F32))
    b.call("twice", x)


_SINGLE: dict[str, Callable[[Builder, Value, Value], object]] = {
    "const": lambda b, x, truth: b.const([1, 2, 2**32 - 1], DataType.vec(U32, 3)),
    "spec": lambda b, x, truth: b.spec("k", F32, 0.1),
    "param": lambda b, x, truth: b.param("n", F32, 0.1),
    "len": lambda b, x, truth: b.len("in", DataType.U64),
    "splat": _splat,
    "vector": _vector,
    "extract": _vector,
    "insert": _splat,
    "permute": _permute,
    "movemask": lambda b, x, truth: b.movemask(b.splat(truth, 32)),
    "load": lambda b, x, truth: b.load("in", 4, 2),
    "store": lambda b, x, truth: b.store(x, "in", 5),
    "copy_async": _copy,
    "copy_wait": _copy,
    "subgroup_ballot": lambda b, x, truth: b.subgroup_ballot(truth),
    "for": _for,
    "while": _while,
    "condition": _while,
    "if": _if,
    "region": _region,
    "yield": _region,
    "call": _call,
    "debug_print": lambda b, x, truth: b.debug_print('x="%08x"\tp=%b\\', x, truth),
    "breakpoint": lambda b, x, truth: b.breakpoint(),
    "assert": lambda b, x, truth: b.assert_(truth, 'a "quoted" message'),
    "trap": lambda b, x, truth: b.trap('a "quoted" back\\slash\n\tand a tab'),
}
