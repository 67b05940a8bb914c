"""Ops on values as MLIR: constants, ids, arithmetic, conversions, vectors, subgroups, barriers.

Two attributes keep what MLIR's types and ops do not say: `vyre.type`, our type of a result, and `vyre.op`, which of our
ops an arith.bitcast from a type to itself stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import arith
from ..ir.folding import lanes_of
from ..ir.program import Op
from ..ir.types import DataType
from ..lowering.common.guards import needs_guard
from .function_code import FunctionCode, type_hint
from .helper_key import HelperKey
from .helpers.conversions import direct_cast, has_same_lanes
from .op_map import COMPARISONS, GUARDED, direct_op, type_class
from .spelling import attributes, constant, is_finite, mlir_type, quoted

__all__ = ["VALUE_OPS", "call_helper"]


# --- constants and scalars of a launch


def _constant(f: FunctionCode, op: Op, value: Any, attributes: tuple[tuple[str, str], ...] = ()) -> None:
    dtype = op.result.type
    kind = mlir_type(dtype)
    if not is_finite(value, dtype):
        # to some readers of MLIR a bit pattern in a dense attribute is a number, and a NaN is just any
        bits_type = dtype.with_element(DataType.of(f"u{dtype.element.bits}"))
        lanes = tuple(arith.to_bits(lane, dtype.element) for lane in lanes_of(value, dtype))
        bits = constant(lanes if dtype.is_vec else lanes[0], bits_type)
        raw = f.code.emit(f"arith.constant {bits} : {mlir_type(bits_type)}")
        hint = type_hint(dtype, *attributes, ("vyre.op", '"const"'))
        f.set(op, f"arith.bitcast {raw}{hint} : {mlir_type(bits_type)} to {kind}")
        return
    hint = "" if dtype.element.is_float and not attributes else type_hint(dtype, *attributes)
    literal = constant(value, dtype)
    f.set(op, f"arith.constant{hint} {literal}" + ("" if kind == "i1" else f" : {kind}"))


def _const(f: FunctionCode, op: Op) -> None:
    _constant(f, op, op.attrs["value"])


def _spec(f: FunctionCode, op: Op) -> None:
    name = op.attrs["spec"]
    _constant(f, op, f.specs[name], (("vyre.spec", quoted(name)),))


def _same(f: FunctionCode, op: Op, name: str, value: str) -> None:
    """An op of ours that changes no bit: `name`."""
    kind = mlir_type(op.result.type)
    f.set(
        op, f"arith.bitcast {value}{type_hint(op.result.type, ('vyre.op', quoted(name)))} : {kind} to {kind}"
    )


def _param(f: FunctionCode, op: Op) -> None:
    _same(f, op, "param", f.params[op.attrs["param"]])


# --- ids and sizes

_DIMENSIONS = {
    "local_id": "thread_id", "workgroup_id": "block_id", "num_workgroups": "grid_dim", "workgroup_size": "block_dim",
}  # fmt: skip


def _id(f: FunctionCode, op: Op) -> None:
    axis = op.attrs.get("axis")
    if op.name not in _DIMENSIONS:
        key = HelperKey(op.name, (axis,) if axis else ())
        f.names[op.result] = f.code.call(key, [], "i32", name=op.result.name)
        return
    index = f.code.emit(f"gpu.{_DIMENSIONS[op.name]} {axis}")
    f.set(op, f"arith.index_castui {index} : index to i32")


def _len(f: FunctionCode, op: Op) -> None:
    memory = f.buffers[op.attrs["buffer"]]
    dimension = f.code.integer(op.attrs.get("dimension") or 0, "index")
    extent = f.code.emit(f"memref.dim {memory.name}, {dimension} : {memory.type}")
    f.set(
        op, f"arith.index_castui {extent}{type_hint(op.result.type)} : index to {mlir_type(op.result.type)}"
    )


# --- arithmetic


def _flags(op: Op) -> str:
    flags = op.attrs.get("fastmath")
    return f" fastmath<{','.join(flags)}>" if flags else ""


def _flags_hint(op: Op) -> str:
    """Flags of an op whose form in MLIR takes none, as an attribute that changes nothing."""
    flags = op.attrs.get("fastmath")
    return attributes([("vyre.fastmath", f"[{', '.join(map(quoted, flags))}]")]) if flags else ""


def _arithmetic(f: FunctionCode, op: Op) -> None:
    dtype = op.result.type
    kind, operands = mlir_type(dtype), ", ".join(map(f.get, op.operands))
    direct = direct_op(op.name, dtype)
    if direct is None or (op.name in GUARDED and dtype.element.is_int and _may_be_open(f, op)):
        flags = op.attrs.get("fastmath", ())
        modifiers = ("afn",) if "afn" in flags and op.definition.approximate_ulp else ()
        call_helper(f, op, HelperKey(op.name, modifiers, (dtype,)), _flags_hint(op))
    elif direct.form == "intrinsic":
        kinds = ", ".join([kind] * len(op.operands))
        name = f"{direct.name}.{f'v{dtype.lanes}' if dtype.is_vec else ''}{dtype.element.name}"
        f.set(op, f'llvm.call_intrinsic "{name}"({operands}) : ({kinds}) -> {kind}{_flags_hint(op)}')
    elif direct.form == "generic":
        f.set(op, f'"{direct.name}"({operands}) : ({kind}) -> {kind}')
    elif type_class(dtype) == "h":  # our own lowering ignores the flags of these types
        f.set(op, f"{direct.name} {operands}{_flags_hint(op)} : {kind}")
    else:
        f.set(op, f"{direct.name} {operands}{_flags(op) if direct.flags else ''} : {kind}")


def _may_be_open(f: FunctionCode, op: Op) -> bool:
    """Whether a division or shift may have operands for which MLIR leaves the result open."""
    dtype = op.result.type
    if not dtype.is_vec:
        return needs_guard(op, f.forms)
    owner = op.operands[1].owner
    if not isinstance(owner, Op) or owner.name != "const":
        return True
    lanes, bits = lanes_of(owner.attrs["value"], dtype), dtype.element.bits or 0
    return any(not 0 <= n < bits if op.name in ("shl", "shr") else n in (0, -1) for n in lanes)


def call_helper(f: FunctionCode, op: Op, key: HelperKey, attributes: str = "") -> None:
    """The op as a call of its helper, on its operands."""
    operands = [(f.get(value), mlir_type(value.type)) for value in op.operands]
    result = mlir_type(op.result.type) if op.results else ""
    name = f.code.call(key, operands, result, attributes, name=op.result.name if op.results else "")
    if op.results:
        f.names[op.result] = name


def _compare(f: FunctionCode, op: Op) -> None:
    a, b = op.operands
    dtype = a.type.element
    group = "f" if dtype.is_float else "s" if dtype.is_signed else "u"
    verb = "arith.cmpf" if dtype.is_float else "arith.cmpi"
    flags = _flags_hint(op)
    f.set(op, f"{verb} {COMPARISONS[group][op.name]}, {f.get(a)}, {f.get(b)}{flags} : {mlir_type(a.type)}")


def _select(f: FunctionCode, op: Op) -> None:
    condition, a, b = op.operands
    kind = mlir_type(op.result.type)
    kinds = f"{mlir_type(condition.type)}, {kind}" if condition.type.is_vec else kind
    f.set(op, f"arith.select {f.get(condition)}, {f.get(a)}, {f.get(b)}{_flags_hint(op)} : {kinds}")


# --- conversions


def _cast(f: FunctionCode, op: Op) -> None:
    (value,), target = op.operands, op.result.type
    source = value.type
    verb = direct_cast(source.element, target.element)
    if verb is None:
        call_helper(f, op, HelperKey("cast", (), (source, target)))
    elif not verb:
        _same(f, op, "cast", f.get(value))
    else:
        hint = type_hint(target) if target.element.is_int else ""
        f.set(op, f"{verb} {f.get(value)}{hint} : {mlir_type(source)} to {mlir_type(target)}")


def _bitcast(f: FunctionCode, op: Op) -> None:
    (value,), target = op.operands, op.result.type
    if not has_same_lanes(value.type, target):
        call_helper(f, op, HelperKey("bitcast", (), (value.type, target)))
        return
    hint = type_hint(target, ("vyre.op", '"bitcast"'))
    f.set(op, f"arith.bitcast {f.get(value)}{hint} : {mlir_type(value.type)} to {mlir_type(target)}")


# --- vectors


def _splat(f: FunctionCode, op: Op) -> None:
    f.set(op, f"vector.splat {f.get(op.operands[0])} : {mlir_type(op.result.type)}")


def _vector(f: FunctionCode, op: Op) -> None:
    call_helper(f, op, HelperKey("vector", (), (op.result.type,)))


def _lane(f: FunctionCode, op: Op) -> None:
    index = f.code.integer(op.attrs["index"], "index")
    *scalars, vector = op.operands
    verb = "vector.insertelement" if scalars else "vector.extractelement"
    operands = ", ".join(map(f.get, op.operands))
    f.set(op, f"{verb} {operands}[{index} : index] : {mlir_type(vector.type)}")


def _permute(f: FunctionCode, op: Op) -> None:
    call_helper(f, op, HelperKey("permute", (), tuple(value.type for value in op.operands)))


def _by_operand(f: FunctionCode, op: Op) -> None:
    """A helper that is told by the type of its operand."""
    call_helper(f, op, HelperKey(op.name, (), (op.operands[0].type,)))


# --- subgroups and barriers


def _subgroup(f: FunctionCode, op: Op) -> None:
    modifiers = tuple(op.attrs[attr.name] for attr in op.definition.attrs if attr.kind == "word")
    call_helper(f, op, HelperKey(op.name, modifiers, (op.result.type,)))


def _ballot(f: FunctionCode, op: Op) -> None:
    call_helper(f, op, HelperKey(op.name))


def _barrier(f: FunctionCode, op: Op) -> None:
    if op.attrs["scope"] == "workgroup":
        f.code.line("gpu.barrier")
    else:
        call_helper(f, op, HelperKey("barrier", ("subgroup",)))


VALUE_OPS: dict[str, Callable[[FunctionCode, Op], None]] = {
    "const": _const,
    "spec": _spec,
    "param": _param,
    "id": _id,
    "size": _id,
    "len": _len,
    **dict.fromkeys(("unary", "binary", "ternary"), _arithmetic),
    "compare": _compare,
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
    "splat": _splat,
    "vector": _vector,
    "extract": _lane,
    "insert": _lane,
    "permute": _permute,
    "movemask": _by_operand,
    "shuffle": _subgroup,
    "reduce": _subgroup,
    "scan": _subgroup,
    "ballot": _ballot,
    "barrier": _barrier,
}
"""Emitters keyed by the op's format in the op table, or by its name where a format has several."""
