"""Ops of MLIR on values as ops of ours: constants, arith, math, vector, ids and sizes, subgroups, barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import arith
from ..ir.ops import AXES, OPS
from ..ir.program import Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType, TypeNameError
from .op_map import COMPARISONS, EMITTED, READ
from .reader import Reader, attribute, fastmath, text_attribute
from .syntax import PREDICATES
from .typed_values import Byte, Index, NotReadable, Number, Plain, Rounds, Turn

__all__ = ["READ_OPS", "hint"]

I64, U32, U64, BOOL = DataType.I64, DataType.U32, DataType.U64, DataType.BOOL


def hint(op: Any, fitting: DataType) -> DataType | None:
    """Our type of an op's result as `vyre.type` says it, if it has the bits of `fitting`."""
    text = text_attribute(op, "vyre.type")
    if text is None:
        return None
    try:
        dtype = named_type(text)
    except TypeNameError:
        return None
    return dtype if dtype.bits == fitting.bits and dtype.lanes == fitting.lanes else None


def named_type(text: str) -> DataType:
    """A type by its name, as a text of ours has it.  Raises TypeNameError."""
    if not text.startswith("vec<"):
        return DataType.of(text)
    lanes, _, element = text.removeprefix("vec<").removesuffix(">").partition(" x ")
    if not lanes.isdigit():
        raise TypeNameError(text)
    return DataType.vec(DataType.of(element), int(lanes))


# --- constants


def _constant(r: Reader, op: Any) -> None:
    (result,) = op.results
    attr = attribute(op, "value")
    kind = str(result.type)
    if kind == "index" or (kind.startswith("i") and kind != "i1"):
        number, bits = int(attr.value.data), None if kind == "index" else int(kind[1:])
        declared = hint(op, r.type_of(result)) if bits is not None else None
        spec = _spec(r, op, declared, number)
        if spec is not None:
            r.set(result, spec)
        elif declared is None:  # a value of the type that its use needs
            r.set(result, Number(number, bits))
        else:
            r.set(result, r.constant(number, declared, speculative=False))
        return
    fitting = r.type_of(result)
    declared = hint(op, fitting)
    dtype = declared or fitting
    value = _encode(attr, dtype)
    spec = _spec(r, op, dtype, value)
    if spec is None:
        is_speculative = declared is None and not dtype.element.is_float
        spec = r.emit("const", (), dtype, {"value": value}, speculative=is_speculative)
    r.set(result, spec)


def _spec(r: Reader, op: Any, dtype: DataType | None, value: Any) -> Value | None:
    """The op `spec` that a constant stands for, if it still has the value of the specialization constant."""
    name = text_attribute(op, "vyre.spec")
    spec = r.program.specs.get(name) if name is not None else None
    if spec is None or spec.dtype is not dtype:
        return None
    same = value == spec.default if not dtype.is_int else arith.wrap(value, dtype) == spec.default
    return r.emit("spec", (), dtype, {"spec": spec.name}) if same else None


def _encode(attr: Any, dtype: DataType) -> Any:
    """The value of an attribute as a `const` of ours has it."""
    element = dtype.element
    if not dtype.is_vec:
        if element.is_float:
            return _float_bits(attr, element)
        number = int(attr.value.data)
        return int(number != 0) if element.is_bool else arith.wrap(number, element)
    if not hasattr(attr, "get_values"):
        raise NotReadable("a constant vector is read if it is dense")
    raw = list(attr.get_values())
    if element.is_float:
        lanes = [arith.encode_float(float(value), element) for value in raw]
    else:
        lanes = [int(v != 0) if element.is_bool else arith.wrap(int(v), element) for v in raw]
    lanes = lanes * dtype.lanes if len(lanes) == 1 else lanes
    return lanes[0] if len(set(lanes)) == 1 else tuple(lanes)


def _float_bits(attr: Any, dtype: DataType) -> int:
    """The bits of a float attribute; those of a NaN too."""
    number = float(attr.value.data)
    if number == number:
        return arith.encode_float(number, dtype)
    packed = attr.type.pack([number])
    return int.from_bytes(packed, "little")


# --- arithmetic


def _table() -> dict[str, list[tuple[str, str]]]:
    """MLIR's op -> our op and its classes of types, from the table of emitted ops."""
    table: dict[str, list[tuple[str, str]]] = {}
    for (ours, type_class), direct in EMITTED.items():
        table.setdefault(direct.name, []).append((ours, type_class))
    return table


_DIRECT = _table()


def _direct(r: Reader, op: Any) -> None:
    """An op of op_map."""
    rows = _DIRECT[op.name]
    (result,) = op.results
    if str(result.type) == "index":
        _index_arithmetic(r, op, rows[0][0])
        return
    classes = {c for _, c in rows}
    if classes <= {"s"} or classes <= {"u"}:
        dtype = r.type_of(result, "s" in classes)
    elif "w" in classes:
        dtype = r.type_of(result)
    else:
        dtype = hint(op, r.type_of(result)) or r.likely_type(*op.operands)
    _elementwise(r, op, rows[0][0], dtype)


def _read_only(r: Reader, op: Any) -> None:
    """An op that other people's kernels have and ours do not."""
    ours, type_class = READ[op.name]
    _elementwise(r, op, ours, r.type_of(op.results[0], type_class != "u"))


def _elementwise(r: Reader, op: Any, name: str, dtype: DataType) -> None:
    operands = [r.value(operand, dtype) for operand in op.operands]
    if not OPS[name].accepts(dtype):
        raise NotReadable(f"{op.name} of {op.results[0].type} is not read")
    r.set(op.results[0], r.emit(name, operands, dtype, fastmath(op)))


def _intrinsic(r: Reader, op: Any) -> None:
    """llvm.call_intrinsic of an intrinsic that op_map has."""
    name = text_attribute(op, "intrin") or ""
    stem, _, _ = name.rpartition(".")
    if stem not in _DIRECT or len(op.results) != 1:
        raise NotReadable(f"a call of the intrinsic {name} is not read")
    _elementwise(r, op, _DIRECT[stem][0][0], r.type_of(op.results[0]))


def _index_arithmetic(r: Reader, op: Any, name: str) -> None:
    """64-bit arithmetic; block_id * block_dim + thread_id is a global id, and constants are computed."""
    (result,) = op.results
    typed = [r.get(operand) for operand in op.operands]
    roles = {t.role for t in typed if isinstance(t, Index)} - {None}
    for axis in AXES:
        if name == "mul" and roles == {("block_id", axis), ("block_dim", axis)}:
            r.set(result, Index(_product(r, op), ("first", axis)))
            return
        if name == "add" and roles == {("first", axis), ("thread_id", axis)}:
            r.set(result, Index(r.emit("global_id", (), U32, {"axis": axis})))
            return
    numbers = [r.number(operand) for operand in op.operands]
    if all(n is not None for n in numbers) and name in _ON_NUMBERS:
        r.set(result, Number(_ON_NUMBERS[name](*numbers), None))
        return
    is_signed = op.name not in ("arith.divui", "arith.remui", "arith.minui", "arith.maxui", "arith.shrui")
    dtype = I64 if is_signed else U64
    operands = [r.value(operand, dtype) for operand in op.operands]
    r.set(result, Index(r.emit(name, operands, dtype, speculative=True)))


_ON_NUMBERS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


def _product(r: Reader, op: Any) -> Value:
    a, b = (r.value(operand, I64) for operand in op.operands)
    return r.emit("mul", (a, b), I64, speculative=True)


# --- arithmetic that is several ops of ours


def _extremum(name: str) -> Callable[[Reader, Any], None]:
    """arith.minimumf and maximumf, which give a NaN operand."""

    def read(r: Reader, op: Any) -> None:
        dtype = r.type_of(op.results[0])
        a, b = (r.value(operand, dtype) for operand in op.operands)
        flags = dtype.with_element(BOOL)
        chosen = r.emit(name, (a, b), dtype)
        chosen = r.emit("select", (r.emit("ne", (b, b), flags), b, chosen), dtype)
        r.set(op.results[0], r.emit("select", (r.emit("ne", (a, a), flags), a, chosen), dtype))

    return read


def _rounding_division(is_signed: bool, is_up: bool) -> Callable[[Reader, Any], None]:
    """arith.floordivsi, ceildivsi and ceildivui: the truncated quotient, and one more or less where it was cut."""

    def read(r: Reader, op: Any) -> None:
        (result,) = op.results
        dtype = r.type_of(result, is_signed)
        a, b = (r.value(operand, dtype) for operand in op.operands)
        flags = dtype.with_element(BOOL)
        zero, one = r.constant(0, dtype), r.constant(1, dtype)
        quotient = r.emit("div", (a, b), dtype)
        adjust = r.emit("ne", (r.emit("rem", (a, b), dtype), zero), flags)
        if is_signed:
            signs = r.emit("xor", (a, b), dtype)
            adjust = r.emit("and", (adjust, r.emit("ge" if is_up else "lt", (signs, zero), flags)), flags)
        moved = r.emit("add" if is_up else "sub", (quotient, one), dtype)
        value = r.emit("select", (adjust, moved, quotient), dtype)
        r.set(result, Index(value) if str(result.type) == "index" else value)

    return read


def _copysign(r: Reader, op: Any) -> None:
    dtype = r.type_of(op.results[0])
    bits = dtype.element.bits or 0
    bits_type = dtype.with_element(DataType.of(f"u{bits}"))
    a, b = (r.emit("bitcast", (r.value(operand, dtype),), bits_type) for operand in op.operands)
    sign = r.constant(1 << (bits - 1), bits_type)
    magnitude_mask = r.constant((1 << (bits - 1)) - 1, bits_type)
    merged = r.emit(
        "or", (r.emit("and", (a, magnitude_mask), bits_type), r.emit("and", (b, sign), bits_type)), bits_type
    )
    r.set(op.results[0], r.emit("bitcast", (merged,), dtype))


# --- comparisons and select


def _cmpi(r: Reader, op: Any) -> None:
    predicate = PREDICATES["arith.cmpi"][int(attribute(op, "predicate").value.data)]
    a, b = op.operands
    byte = next((v for v in map(r.get, op.operands) if isinstance(v, Byte)), None)
    if byte is not None and predicate == "ne" and any(_is_zero(r, v) for v in op.operands):
        r.set(op.results[0], byte.flag)
        return
    name = {"s": predicate[1:], "u": predicate[1:]}.get(predicate[0], predicate)
    if predicate in ("eq", "ne"):
        dtype = U32 if _are_narrow(r, op) else r.likely_type(a, b)
    else:
        is_signed = predicate[0] == "s"
        dtype = U32 if _are_narrow(r, op) else r.type_of(a, is_signed)
    operands = [r.element_index(v) if _are_narrow(r, op) else r.value(v, dtype) for v in (a, b)]
    if not OPS[name].accepts(dtype):
        raise NotReadable(f"arith.cmpi {predicate} of {a.type} is not read; eq and ne are")
    r.set(op.results[0], r.emit(name, operands, dtype.with_element(BOOL), fastmath(op)))


def _are_narrow(r: Reader, op: Any) -> bool:
    """Whether both operands are indices of 32 bits, which compare alike as those; one is a value, not a number."""
    return (
        str(op.operands[0].type) == "index"
        and all(map(r.is_narrow, op.operands))
        and not all(isinstance(r.get(v), Number) for v in op.operands)
    )


def _is_zero(r: Reader, operand: Any) -> bool:
    typed = r.get(operand)
    if isinstance(typed, Number):
        return typed.number == 0
    return isinstance(typed, Plain) and constant_value(typed.value) == 0


def _cmpf(r: Reader, op: Any) -> None:
    predicate = PREDICATES["arith.cmpf"][int(attribute(op, "predicate").value.data)]
    dtype = r.type_of(op.operands[0])
    a, b = (r.value(operand, dtype) for operand in op.operands)
    flags = dtype.with_element(BOOL)
    ours = {theirs: name for name, theirs in COMPARISONS["f"].items()}

    def test(name: str, x: Value = a, y: Value = b) -> Value:
        return r.emit(name, (x, y), flags, fastmath(op))

    def flip(value: Value) -> Value:
        return r.emit("not", (value,), flags)

    if predicate in ours:
        value = test(ours[predicate])
    elif predicate in ("true", "false"):
        value = r.emit("const", (), flags, {"value": int(predicate == "true")})
    elif predicate in ("uno", "ord"):
        value = r.emit("or", (test("ne", a, a), test("ne", b, b)), flags)
        value = flip(value) if predicate == "ord" else value
    elif predicate in ("one", "ueq"):
        value = r.emit("or", (test("lt"), test("gt")), flags)
        value = flip(value) if predicate == "ueq" else value
    else:  # not less is greater, equal or unordered
        value = flip(test({"ult": "ge", "ule": "gt", "ugt": "le", "uge": "lt"}[predicate]))
    r.set(op.results[0], value)


def _select(r: Reader, op: Any) -> None:
    condition, a, b = op.operands
    (result,) = op.results
    if str(result.type) == "index":
        value = r.emit("select", (r.value(condition), r.value(a, I64), r.value(b, I64)), I64)
        r.set(result, Index(value))
        return
    dtype = hint(op, r.type_of(result)) or r.likely_type(a, b)
    operands = (r.value(condition), r.value(a, dtype), r.value(b, dtype))
    r.set(result, r.emit("select", operands, dtype, fastmath(op)))


# --- conversions


def _cast(r: Reader, op: Any) -> None:
    """Between numbers: extensions, truncations, integers from floats and the other way."""
    (operand,), (result,) = op.operands, op.results
    verb = op.name.removeprefix("arith.")
    is_signed = verb not in ("extui", "uitofp", "fptoui")
    source = r.type_of(operand, is_signed)
    if verb == "trunci":
        source = r.likely_type(operand)
        is_signed = not source.element.is_int or source.element.is_signed
    target = r.type_of(result, is_signed)
    dtype = hint(op, target)
    if verb == "extui" and source.element.is_bool and target.element.bits == 8 and dtype is None:
        r.set(result, Byte(r.value(operand)))  # about to be stored
        return
    target = dtype or target
    value = r.value(operand, source)
    if source.element.is_bool and verb in ("extsi", "sitofp"):
        value = r.emit("cast", (value,), target)
        r.set(result, r.emit("neg", (value,), target))
    elif target.element.is_bool:  # trunci keeps the lowest bit
        low = r.emit("and", (value, r.constant(1, source)), source)
        r.set(result, r.emit("cast", (low,), target))
    else:
        r.set(result, r.emit("cast", (value,), target))


def _index_cast(r: Reader, op: Any) -> None:
    (operand,), (result,) = op.operands, op.results
    is_signed = op.name == "arith.index_cast"
    if isinstance(r.get(operand), Rounds | Turn):
        r.values[result] = r.get(operand)
        return
    if str(result.type) == "index":
        typed = r.get(operand)
        if isinstance(typed, Number):
            bits = typed.bits or 64
            r.set(result, Number(typed.number if is_signed else typed.number % (1 << bits), None))
            return
        value = r.signed(operand, is_signed)
        if value.type.is_bool:
            value = r.emit("cast", (value,), U32)
        r.set(result, Index(value))
        return
    target = r.type_of(result, is_signed)
    typed = r.get(operand)
    if isinstance(typed, Index):
        value = typed.value
        if value.type.bits == target.bits:
            r.set(result, r.with_type(value, hint(op, target) or value.type))
        else:
            r.set(result, r.emit("cast", (value,), hint(op, target) or target))
    elif isinstance(typed, Number):
        r.set(result, Number(typed.number, target.bits))
    else:
        raise NotReadable


def _bitcast(r: Reader, op: Any) -> None:
    operand, result = op.operands[0], op.results[0]
    ours = text_attribute(op, "vyre.op")
    fitting = r.type_of(result)
    target = hint(op, fitting)
    typed = r.get(operand)
    if ours == "param" and target is not None and isinstance(typed, Plain):
        name = r.params.get(typed.value)
        if name is not None and typed.value.type is target:
            r.set(result, r.emit("param", (), target, {"param": name}))
            return
    if ours == "const" and target is not None and isinstance(typed, Plain | Number):
        bits = typed.number if isinstance(typed, Number) else constant_value(typed.value)
        if bits is not None:
            lanes = bits if isinstance(bits, tuple) else (bits,) * target.lanes
            values = tuple(lane % (1 << (target.element.bits or 0)) for lane in lanes)
            value = values[0] if len(set(values)) == 1 else values
            spec = _spec(r, op, target, value)
            r.set(result, r.emit("const", (), target, {"value": value}) if spec is None else spec)
            return
    if str(operand.type) == str(result.type) and ours not in ("cast", "bitcast"):
        r.values[result] = typed
        return
    name = "cast" if ours == "cast" else "bitcast"
    r.set(result, r.emit(name, (r.value(operand),), target or fitting))


# --- vectors


def _splat(r: Reader, op: Any) -> None:
    (operand,), (result,) = op.operands, op.results
    if str(operand.type).startswith("vector<"):
        raise NotReadable("vector.broadcast is read of a scalar")
    element = r.likely_type(operand)
    dtype = r.type_of(result).with_element(element)
    r.set(result, r.emit("splat", (r.value(operand, element),), dtype))


def _extract(r: Reader, op: Any) -> None:
    vector = r.value(op.operands[0])
    index = _constant_index(r, op, op.operands[1:], vector.type.lanes)
    r.set(op.results[0], r.emit("extract", (vector,), vector.type.element, {"index": index}))


def _insert(r: Reader, op: Any) -> None:
    scalar, whole, *dynamic = op.operands
    vector = r.value(whole)
    index = _constant_index(r, op, dynamic, vector.type.lanes)
    value = r.value(scalar, vector.type.element)
    r.set(op.results[0], r.emit("insert", (value, vector), vector.type, {"index": index}))


def _constant_index(r: Reader, op: Any, dynamic: Any, lanes: int) -> int:
    """The lane that an op names, by an operand or by the attribute `static_position`."""
    static = attribute(op, "static_position")
    if dynamic:
        index = r.number(dynamic[0])
    else:
        indices = list(static.get_values()) if static is not None else []
        index = int(indices[0]) if len(indices) == 1 else None
    if index is None or not 0 <= index < lanes:
        raise NotReadable(f"{op.name} is read where its lane is a constant, of those that there are")
    return index


# --- ids and sizes

_IDS = {
    "thread_id": "local_id",
    "block_id": "workgroup_id",
    "block_dim": "workgroup_size",
    "grid_dim": "num_workgroups",
}


def _axis(op: Any) -> str:
    dimension = attribute(op, "dimension")
    return str(getattr(dimension.data, "value", dimension.data))


def _dimension(r: Reader, op: Any) -> None:
    name, axis = op.name.removeprefix("gpu."), _axis(op)
    value = r.emit(_IDS.get(name, name), (), U32, {"axis": axis}, speculative=not _becomes_u32(op))
    r.set(op.results[0], Index(value, (name, axis)))


def _becomes_u32(op: Any) -> bool:
    """Whether an index becomes a u32, as those do that ops of ours are written as."""
    uses = list(op.results[0].uses)
    return any(use.operation.name == "arith.index_castui" for use in uses)


def _size(r: Reader, op: Any) -> None:
    name = op.name.removeprefix("gpu.")
    r.set(op.results[0], Index(r.emit(name, (), U32)))


# --- subgroups and barriers


def _barrier(r: Reader, op: Any) -> None:
    r.add("barrier", attrs={"scope": "workgroup"})


def _shuffle(r: Reader, op: Any) -> None:
    mode = attribute(op, "mode")
    word = str(getattr(mode.data, "value", mode.data))
    value, offset, width = op.operands
    valid = op.results[1]
    if r.number(width) != 32 or list(valid.uses):
        raise NotReadable(
            "gpu.shuffle is read with a width of 32, if nothing asks whether its lane exists",
            "a lane without one keeps its own value",
        )
    moved = r.value(value)
    r.set(
        op.results[0],
        r.emit("subgroup_shuffle", (moved, r.value(offset, U32)), moved.type, {"mode": word}),
    )


_COMBINERS = {
    "add": ("add", True), "mul": ("mul", True), "minui": ("min", False), "minsi": ("min", True), "maxui": ("max", False),
    "maxsi": ("max", True), "minnumf": ("min", True), "maxnumf": ("max", True), "and": ("and", True), "or": ("or", True),
    "xor": ("xor", True),
}  # fmt: skip


def _reduce(name: str) -> Callable[[Reader, Any], None]:
    def read(r: Reader, op: Any) -> None:
        combine = attribute(op, "op")
        word = "by a region" if combine is None else str(getattr(combine.data, "value", combine.data))
        if word not in _COMBINERS:
            raise NotReadable(f"{op.name} {word} is not read; those of {', '.join(_COMBINERS)} are")
        combiner, is_signed = _COMBINERS[word]
        dtype = r.type_of(op.results[0], is_signed)
        r.set(op.results[0], r.emit(name, (r.value(op.operands[0], dtype),), dtype, {"combine": combiner}))

    return read


READ_OPS: dict[str, Callable[[Reader, Any], None]] = {
    **dict.fromkeys(READ, _read_only),
    **dict.fromkeys(_DIRECT, _direct),
    "arith.constant": _constant,
    "arith.minimumf": _extremum("min"),
    "arith.maximumf": _extremum("max"),
    "arith.floordivsi": _rounding_division(True, False),
    "arith.ceildivsi": _rounding_division(True, True),
    "arith.ceildivui": _rounding_division(False, True),
    "math.copysign": _copysign,
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    **dict.fromkeys(
        (f"arith.{n}" for n in "extui extsi trunci extf truncf sitofp uitofp fptosi fptoui".split()), _cast
    ),
    "arith.index_cast": _index_cast,
    "arith.index_castui": _index_cast,
    "arith.bitcast": _bitcast,
    "vector.bitcast": _bitcast,
    "vector.splat": _splat,
    "vector.broadcast": _splat,
    "vector.extractelement": _extract,
    "vector.extract": _extract,
    "vector.insertelement": _insert,
    "vector.insert": _insert,
    "llvm.call_intrinsic": _intrinsic,
    **dict.fromkeys(
        (f"gpu.{n}" for n in "thread_id block_id block_dim grid_dim global_id".split()), _dimension
    ),
    **dict.fromkeys((f"gpu.{n}" for n in "lane_id subgroup_id num_subgroups subgroup_size".split()), _size),
    "gpu.barrier": _barrier,
    "gpu.shuffle": _shuffle,
    "gpu.subgroup_reduce": _reduce("subgroup_reduce"),
    "gpu.all_reduce": _reduce("workgroup_reduce"),
}
"""Readers by the name of MLIR's op."""
