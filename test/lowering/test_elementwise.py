"""Elementwise lowering, compiled for this machine, against the op table's own semantics.

Every op, every scalar type, edge values in all pairs and random ones, as scalars and as
vectors of lanes.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.pairs import pairs
from support.quick import quick

from vyre_opt.ir import OPS, DataType, OpDef, arith
from vyre_opt.lowering.common import conversions, elementwise
from vyre_opt.lowering.common.lane_shape import SCALAR, LaneShape
from vyre_opt.lowering.common.llvm_text import ModuleText, Writer
from vyre_opt.targets.ref.elementwise import compute

INTS = [DataType.of(name) for name in ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64")]
FLOATS = [DataType.F16, DataType.BF16, DataType.F32, DataType.F64]
SHAPES = [SCALAR, LaneShape(8)]
RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def jit() -> Callable[[str], int]:
    """Compiles a module with one function `f`; its address."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    alive: list[Any] = []

    def compile_(text: str) -> int:
        module = llvm.parse_assembly(text)
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
        )
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        alive.append(engine)
        return int(engine.get_function_address("f"))

    return compile_


def kernel(
    shape: LaneShape, sources: list[DataType], target: DataType, body: Callable[[Writer, list[str]], str]
) -> str:
    """A loop over packed bit patterns: reads each source, writes the result."""
    import llvmlite.binding as llvm

    module = ModuleText(llvm.get_default_triple(), "")
    w = Writer(module)
    count = shape.lanes
    args = []
    for number, dtype in enumerate(sources):
        raw_type = shape.of(f"i{dtype.bits}")
        at = w.emit(f"getelementptr i{dtype.bits}, ptr %in{number}, i64 %i")
        raw = w.emit(f"load {raw_type}, ptr {at}, align 1")
        args.append(conversions.from_bits(w, shape, dtype, raw))
    result = conversions.bits_of(w, shape, target, body(w, args))
    out = w.emit(f"getelementptr i{target.bits}, ptr %out, i64 %i")
    w.line(f"store {shape.of(f'i{target.bits}')} {result}, ptr {out}, align 1")
    params = ", ".join(f"ptr %in{n}" for n in range(len(sources)))
    loop = "\n".join(w.lines)
    module.define(
        "f",
        f"""define void @f({params}, ptr %out, i64 %n) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %body, label %end
body:
{loop}
  %j = add i64 %i, {count}
  br label %head
end:
  ret void
}}""",
    )
    return module.text().replace('target datalayout = ""\n', "")


def run(
    jit: Any, shape: LaneShape, sources: list[DataType], target: DataType, body: Any, columns: list[list[int]]
) -> list[int]:
    """The encoded results of a body on columns of encoded inputs."""
    address = jit(kernel(shape, sources, target, body))
    count = len(columns[0])
    padded = -(-count // 32) * 32  # a multiple of every shape
    arrays = []
    for dtype, column in zip(sources, columns, strict=True):
        bits = [arith.to_bits(v, dtype) for v in column] + [0] * (padded - count)
        arrays.append(np.array(bits, dtype=f"u{(dtype.bits or 8) // 8}"))
    out = np.zeros(padded, dtype=f"u{(target.bits or 8) // 8}")
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, out)]
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)(address)
    function(*pointers, padded)
    return [arith.from_bits(int(b), target) if not target.is_bool else int(b) & 1 for b in out[:count]]


def edges(dtype: DataType) -> list[int]:
    """Encoded values where things go wrong, and random ones."""
    if dtype.is_bool:
        return [0, 1]
    if dtype.is_float:
        least = {"f16": 5.96e-8, "bf16": 9.2e-41, "f32": 1.4e-45, "f64": 5e-324}[dtype.name]
        most = {"f16": 65504.0, "bf16": 3.39e38, "f32": 3.4028235e38, "f64": 1.797e308}[dtype.name]
        plain = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 7.0, 0.1, -0.3, 1e-3, 1000.0, 127.5, 255.0, 65535.0,
                 2.0**31, -(2.0**31), 2.0**32, 2.0**63, 2.0**64, least, -least, 3 * least, most, -most,
                 math.inf, -math.inf, math.nan]  # fmt: skip
        random = [float(v) for v in RNG.normal(size=12) * 10.0 ** RNG.integers(-6, 6, 12)]
        return [arith.encode_float(v, dtype) for v in (*plain, *random)]
    low, high = arith.int_range(dtype)
    bits = dtype.bits or 0
    plain_ints = [
        0,
        1,
        2,
        3,
        5,
        7,
        bits - 1,
        bits,
        bits + 1,
        100,
        high,
        high - 1,
        low,
        low + 1,
        high // 2,
        high // 2 + 1,
    ]
    if dtype.is_signed:
        plain_ints += [-1, -2, -7, -100]
    random_ints = [arith.wrap(int.from_bytes(RNG.bytes(8), "little"), dtype) for _ in range(12)]
    return [arith.wrap(v, dtype) for v in plain_ints] + random_ints


def same(got: int, expected: int, dtype: DataType) -> bool:
    if dtype.is_float:
        a, b = arith.decode_float(got, dtype), arith.decode_float(expected, dtype)
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
    return got == expected


def fold(row: OpDef, dtype: DataType, args: list[int]) -> int:
    """The op table's own answer."""
    if row.name == "fma":
        a, b, c = (arith.decode_float(v, dtype) for v in args)
        return arith.float_fma(a, b, c, dtype)
    if dtype.is_float:
        assert row.fold_float is not None
        value = row.fold_float(*[arith.decode_float(v, dtype) for v in args])
        return int(value) if row.format == "compare" else arith.encode_float(value, dtype)
    assert row.fold_int is not None
    value = row.fold_int(*args, dtype)
    return int(value) if row.format == "compare" else arith.wrap(int(value), dtype)


def way_of(dtype: DataType) -> str:
    """The types of one way are lowered by the same lines, so that the quick suite needs one of each."""
    if dtype.is_float:
        return dtype.name if dtype.bits == 16 else "wide float"
    return "bool" if dtype.is_bool else "signed" if dtype.is_signed else "unsigned"


ALL = [*INTS, *FLOATS, DataType.BOOL]
ARITY = {"unary": 1, "binary": 2, "ternary": 3, "compare": 2}


@pytest.mark.parametrize("shape", quick(SHAPES[::-1], ids=["vector", "scalar"]))
@pytest.mark.parametrize("dtype", quick(ALL, way_of), ids=str)
def test_exact_ops(jit: Any, dtype: DataType, shape: LaneShape) -> None:
    rows = [row for row in OPS.values() if row.format in ARITY and not row.ulp and row.accepts(dtype)]
    each(rows, lambda row: check_op(jit, row, dtype, shape), lambda row: row.name)


def check_op(jit: Any, row: OpDef, dtype: DataType, shape: LaneShape) -> None:
    values = edges(dtype)
    arity = ARITY[row.format]
    if arity == 1:
        columns = [values]
    elif arity == 2:
        columns = [[a for a in values for _ in values], [b for _ in values for b in values]]
    else:
        columns = [[values[i] for i in RNG.integers(0, len(values), 2000)] for _ in range(3)]
    if row.format == "compare":
        got = run(jit, shape, [dtype] * 2, DataType.BOOL,
                  lambda w, a: elementwise.compare(w, shape, row.name, dtype, *a), columns)  # fmt: skip
        result = DataType.BOOL
    else:
        got = run(jit, shape, [dtype] * arity, dtype,
                  lambda w, a: elementwise.apply(w, shape, row.name, dtype, a), columns)  # fmt: skip
        result = dtype
    for number, value in enumerate(got):
        args = [column[number] for column in columns]
        expected = fold(row, dtype, args)
        assert same(value, expected, result), (row.name, dtype.name, args, value, expected)


PRECISIONS = (8, 11, 24, 53)
"""Bits of the significands of bf16, f16, f32 and f64."""


def near_ties(dtype: DataType) -> list[int]:
    """Encoded values at ties of every precision and next to them, where a second rounding would show."""
    if dtype.name == "f64":
        ties = [1 + 2.0**-p + d for p in PRECISIONS[:2] for d in (0.0, 2.0**-40, -(2.0**-40))]
        return [arith.encode_float(sign * tie, dtype) for tie in ties for sign in (1, -1)]
    if dtype.is_float or (dtype.bits or 0) < 32:
        return []
    near = (-1, 0, 1, 1 << 10)  # bit 10 is the highest that a double of a large u64 lacks
    return [
        arith.wrap(sign * ((1 << k) + (1 << k - p) + d), dtype)
        for k in range(8, dtype.bits or 0)
        for p in PRECISIONS
        if p <= k
        for d in near
        for sign in (1, -1)
    ]


@pytest.mark.parametrize("shape", quick(SHAPES[::-1], ids=["vector", "scalar"]))
@pytest.mark.parametrize("target", quick(ALL, way_of), ids=str)
def test_cast(jit: Any, target: DataType, shape: LaneShape) -> None:
    each(ALL, lambda source: check_cast(jit, source, target, shape))


def check_cast(jit: Any, source: DataType, target: DataType, shape: LaneShape) -> None:
    values = edges(source) + near_ties(source)
    got = run(
        jit,
        shape,
        [source],
        target,
        lambda w, a: conversions.convert(w, shape, source, target, a[0]),
        [values],
    )
    for value, result in zip(values, got, strict=True):
        expected = arith.convert(value, source, target)
        assert same(result, expected, target), (value, result, expected)


def has_avx512() -> bool:
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get("avx512f"))


WAYS = {
    "scalar": (SCALAR, "host"),
    "vector": (LaneShape(8), "host"),
    "scalar-avx512": (SCALAR, "avx512"),
    "vector-avx512": (LaneShape(32), "avx512"),
}


FUNCTIONS = [row.name for row in OPS.values() if row.ulp]
HOST_WAYS, WIDE_WAYS = (
    [name for name, way in WAYS.items() if (way[1] == "avx512") is wide] for wide in (False, True)
)


# apart, so that each function has a way on a CPU without AVX-512
@pytest.mark.parametrize(("name", "way"), [*pairs(FUNCTIONS, HOST_WAYS), *pairs(FUNCTIONS, WIDE_WAYS)])
@pytest.mark.parametrize(
    "dtype", quick(FLOATS[::-1], keep=2), ids=str
)  # half precision is f32 and a rounding
def test_mathematical_functions(jit: Any, name: str, dtype: DataType, way: str) -> None:
    """The interpreter's bits, in every shape and by each target's instructions; test/math_functions has their errors."""
    row, (shape, target) = OPS[name], WAYS[way]
    if target == "avx512" and not has_avx512():
        pytest.skip("this CPU has no AVX-512")
    arity = 2 if row.format == "binary" else 1
    words = f"u{(dtype.bits or 8) // 8}"
    random = RNG.integers(0, (1 << (dtype.bits or 8)) - 1, 800, np.uint64, endpoint=True)
    near = [*RNG.normal(size=400), *(RNG.normal(size=400) * 30), *(1 + RNG.normal(size=200) * 1e-3)]
    encoded = [*edges(dtype), *map(int, random), *(arith.encode_float(float(v), dtype) for v in near)]
    columns = [[int(v) for v in RNG.permutation(np.array(encoded, np.uint64))] for _ in range(arity)]
    got = run(
        jit, shape, [dtype] * arity, dtype,
        lambda w, a: elementwise.apply(w, shape, row.name, dtype, a, target), columns,
    )  # fmt: skip
    stored = [np.array(column, np.uint64).astype(words) for column in columns]
    if dtype is DataType.BF16:
        operands = [(column.astype(np.uint32) << 16).view(np.float32) for column in stored]
    else:
        operands = [column.view(words.replace("u", "f")) for column in stored]
    with np.errstate(all="ignore"):
        expected = compute(row.name, operands, dtype)
    for place, (bits, value) in enumerate(zip(got, expected, strict=True)):
        arguments = [arith.decode_float(column[place], dtype) for column in columns]
        assert same(bits, arith.encode_float(float(value), dtype), dtype), (row.name, arguments, bits, value)


@pytest.mark.parametrize("shape", SHAPES, ids=["scalar", "vector"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["min", "max"])
def test_a_zero_of_either_sign_is_all_that_nsz_allows(
    jit: Any, name: str, dtype: DataType, shape: LaneShape
) -> None:
    """Guards against a shortcut that takes a NaN for a number, or the wrong one of two numbers."""
    values = edges(dtype)
    left, right = [a for a in values for _ in values], [b for _ in values for b in values]
    got = run(
        jit,
        shape,
        [dtype, dtype],
        dtype,
        lambda w, a: elementwise.Elementwise(w, shape, dtype, "host", fastmath=("nsz",)).apply(name, a),
        [left, right],
    )
    for a, b, result in zip(left, right, got, strict=True):
        expected = fold(OPS[name], dtype, [a, b])
        both_zero = {arith.decode_float(v, dtype) for v in (result, expected)} == {0.0}
        assert both_zero or same(result, expected, dtype), (a, b, result, expected)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_memory_and_bits_round_trip(jit: Any, dtype: DataType) -> None:
    """To memory and back changes nothing but the bits of a NaN."""
    shape = LaneShape(8)

    def body(w: Writer, args: list[str]) -> str:
        raw = conversions.store_value(w, shape, dtype, args[0])
        return conversions.load_value(w, shape, dtype, raw)

    values = edges(dtype)
    got = run(jit, shape, [dtype], dtype, body, [values])
    assert all(same(a, b, dtype) for a, b in zip(got, values, strict=True))
    assert struct.calcsize("P") == 8
