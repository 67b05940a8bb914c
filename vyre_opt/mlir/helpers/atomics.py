"""Bodies of helpers for atomics that memref.atomic_rmw is not: other ops than it has, and memory orders.

memref.atomic_rmw is sequentially consistent or relaxed, as who lowers it likes, so fences around it say the order.  They
are those of the GPU, as intrinsics: mlir-opt 19 cannot lower llvm.fence.

The hardware's addition of f32 in global memory flushes subnormals to zero, and MLIR's minima and maxima of floats are not
ours, so these are loops of compare-and-exchange here.
memref.generic_atomic_rmw is such a loop, but for integers only; so the float is exchanged as its bits, at its address.
"""

from __future__ import annotations

from ...ir.types import DataType
from ..code import Code
from ..helper_key import HelperKey
from ..spelling import WORKGROUP, memory_element, mlir_type
from .arithmetic import scalar_op

__all__ = ["ATOMIC_KINDS", "FENCES", "atomic", "direct_atomic", "memory_key", "memory_type"]

ATOMIC_KINDS = {
    ("add", "f"): "addf", ("add", "i"): "addi", ("min", "s"): "mins", ("min", "u"): "minu", ("max", "s"): "maxs",
    ("max", "u"): "maxu", ("and", "i"): "andi", ("or", "i"): "ori", ("exchange", "i"): "assign", ("exchange", "f"): "assign",
}  # fmt: skip
"""(Op without `atomic_`, class of types) -> the kind of memref.atomic_rmw."""

_EXTREMA = ("atomic_min", "atomic_max")

FENCES = {
    "relaxed": (False, False), "acquire": (False, True), "release": (True, False), "acq_rel": (True, True),
    "seq_cst": (True, True),
}  # fmt: skip
"""Memory order -> whether there is a fence before the atomic, and after it."""

_FENCE = 'llvm.call_intrinsic "llvm.nvvm.membar.{scope}"() : () -> ()'


def memory_key(memref: str) -> str:
    """Spelling of the extents and the memory space of a memref type in a helper's name."""
    shape = memref.removeprefix("memref<").partition(",")[0].removesuffix(">")
    extents = shape.split("x")[:-1]
    return "x".join(["w"] * (WORKGROUP in memref) + ["n" if e == "?" else e for e in extents])


def memory_type(memory: str, dtype: DataType, space: str) -> str:
    """The memref type that `memory_key` spelled.  `space`: memory space of storage."""
    parts = memory.split("x")
    is_workgroup = parts[0] == "w"
    shape = "x".join([*("?" if p == "n" else p for p in parts if p != "w"), memory_element(dtype)])
    space = WORKGROUP if is_workgroup else space
    return f"memref<{shape}, {space}>" if space else f"memref<{shape}>"


def direct_atomic(name: str, dtype: DataType, order: str, is_workgroup: bool) -> str | None:
    """The kind of the memref.atomic_rmw that an atomic is, or None."""
    if order != "relaxed" or (name == "atomic_add" and dtype is DataType.F32 and not is_workgroup):
        return None
    return _kind(name, dtype)


def _kind(name: str, dtype: DataType) -> str | None:
    verb = name.removeprefix("atomic_")
    classes = ("f",) if dtype.is_float else ("i", "s" if dtype.is_signed else "u")
    return next((ATOMIC_KINDS[verb, c] for c in classes if (verb, c) in ATOMIC_KINDS), None)


def atomic(code: Code, key: HelperKey, args: list[str]) -> str:
    (dtype,), (order,) = key.types, key.modifiers
    memref = memory_type(key.memory, dtype, code.helpers.space)
    is_workgroup = WORKGROUP in memref
    values = 2 if key.name == "atomic_compare_exchange" else 1
    memory, indices, operands = args[0], args[1:-values], args[-values:]
    fence = _FENCE.format(scope="cta" if is_workgroup else "gl")
    before, after = FENCES[order]
    if before:
        code.line(fence)
    old = _change(code, key.name, dtype, memref, memory, indices, operands)
    if after:
        code.line(fence)
    return old


def _change(
    code: Code, name: str, dtype: DataType, memref: str, memory: str, indices: list[str], operands: list[str]
) -> str:
    element = mlir_type(dtype)
    target = f"{memory}[{', '.join(indices)}]"
    if dtype.is_float and (
        name in _EXTREMA or (dtype is DataType.F32 and WORKGROUP not in memref and name == "atomic_add")
    ):
        return _float_loop(code, name.removeprefix("atomic_"), dtype, (memory, memref), indices, operands[0])
    kind = _kind(name, dtype)
    if kind is not None:
        return code.emit(
            f"memref.atomic_rmw {kind} {operands[0]}, {target} : ({element}, {memref}) -> {element}"
        )
    old, current = code.fresh(), code.fresh()
    code.open(f"{old} = memref.generic_atomic_rmw {target} : {memref}", f"^bb0({current}: {element})")
    if name == "atomic_xor":
        new = code.op("arith.xori", element, current, operands[0])
    else:
        is_equal = code.compare("eq", element, current, operands[0])
        new = code.select(is_equal, element, operands[1], current)
    code.line(f"memref.atomic_yield {new} : {element}")
    code.close()
    return old


def _float_loop(
    code: Code, name: str, dtype: DataType, memory_and_type: tuple[str, str], indices: list[str], value: str
) -> str:
    """The old value of a float to which an op with `value` is done by compare-and-exchange of its bits."""
    (memory, memref), kind, bits = memory_and_type, mlir_type(dtype), f"i{dtype.bits}"
    address = code.emit(f'"memref.extract_aligned_pointer_as_index"({memory}) : ({memref}) -> index')
    index = indices[0]
    for dimension, following in enumerate(indices[1:], 1):
        extent = code.emit(f"memref.dim {memory}, {code.integer(dimension, 'index')} : {memref}")
        index = code.op("arith.addi", "index", code.op("arith.muli", "index", index, extent), following)
    offset = code.op("arith.muli", "index", index, code.integer(dtype.size_bytes or 0, "index"))
    address = code.op("arith.addi", "index", address, offset)
    word = code.convert("arith.index_cast", "index", "i64", address)
    pointer = code.emit(f"llvm.inttoptr {word} : i64 to !llvm.ptr")
    # a stale value costs another round, no more
    first = code.emit(f"memref.load {memory}[{', '.join(indices)}] : {memref}")
    expected = code.convert("arith.bitcast", kind, bits, first)
    old, now = code.fresh(), code.fresh()
    code.open(f"{old} = scf.while ({now} = {expected}) : ({bits}) -> {bits}")
    updated = scalar_op(code, name, dtype, [code.convert("arith.bitcast", bits, kind, now), value])
    new = code.convert("arith.bitcast", kind, bits, updated)
    pair = code.emit(
        f'"llvm.cmpxchg"({pointer}, {now}, {new}) {{success_ordering = 2 : i64, failure_ordering = 2 : i64}} '
        f": (!llvm.ptr, {bits}, {bits}) -> !llvm.struct<({bits}, i1)>"
    )
    loaded = code.emit(
        f'"llvm.extractvalue"({pair}) {{position = array<i64: 0>}} : (!llvm.struct<({bits}, i1)>) -> {bits}'
    )
    is_done = code.emit(
        f'"llvm.extractvalue"({pair}) {{position = array<i64: 1>}} : (!llvm.struct<({bits}, i1)>) -> i1'
    )
    again = code.op("arith.xori", "i1", is_done, code.literal("true", "i1"))
    code.line(f"scf.condition({again}) {loaded} : {bits}")
    other = code.fresh()
    code.next_region("do", f"^bb0({other}: {bits})")
    code.line(f"scf.yield {other} : {bits}")
    code.close()
    return code.convert("arith.bitcast", bits, kind, old)
