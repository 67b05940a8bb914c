"""Every arithmetic op gives, on arrays, what ir.arith says of one value: bit for bit, for all types."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt.execution.arrays import constant, storage_type
from vyre_opt.ir import OPS, DataType, OpDef, arith
from vyre_opt.targets.ref.floats import FLOAT_OPS
from vyre_opt.targets.ref.table import TABLE, TERMINATORS

INTEGERS = [DataType.of(f"{sign}{bits}") for sign in "ui" for bits in (8, 16, 32, 64)]
FLOATS = [DataType.F16, DataType.BF16, DataType.F32, DataType.F64]
ELEMENTWISE = {"unary": 1, "binary": 2, "compare": 2}


def test_every_op_has_an_implementation() -> None:
    """A row added to the op table without an interpretation is noticed here."""
    assert set(TABLE) | set(TERMINATORS) == set(OPS)


def array(values: list[int], dtype: DataType) -> np.ndarray:
    return np.concatenate([constant(value, dtype) for value in values])


def encoded(stored: np.ndarray, dtype: DataType) -> list[int]:
    """The encoded constants that an array in storage form holds."""
    if dtype.is_float:
        return [int(bits) for bits in stored.view(f"u{stored.itemsize}")]
    return [int(value) for value in stored]


def all_ops(rows: list[OpDef], dtype: DataType) -> str:
    """A program that applies each op of `rows` to @a and @b, with an output for each."""
    outputs, body = [], []
    for number, row in enumerate(rows):
        result = DataType.BOOL if row.format == "compare" else dtype
        operands = ", ".join(("%a", "%b")[: ELEMENTWISE[row.format]])
        outputs.append(f"buffer @o{number} : {result}[?] write binding({number + 2}) live_out")
        body.append(
            f"%r{number} = {row.name} {operands} : {dtype}\n store %r{number}, @o{number}[%g] : {result}"
        )
    nl = "\n"
    return f"""
    program @ops workgroup(1) {{
      buffer @a : {dtype}[?] read binding(0)
      buffer @b : {dtype}[?] read binding(1)
      {nl.join(outputs)}
      %g = global_id x
      %a = load @a[%g] : {dtype}
      %b = load @b[%g] : {dtype}
      {nl.join(body)}
    }}"""


def apply_all(
    ref: Any, rows: list[OpDef], dtype: DataType, pairs: list[tuple[int, int]]
) -> Iterator[tuple[OpDef, list[int]]]:
    a, b = (array(list(side), dtype) for side in zip(*pairs, strict=True))
    results = [DataType.BOOL if row.format == "compare" else dtype for row in rows]
    space = [np.zeros(len(pairs), storage_type(result)) for result in results]
    outputs = ref(all_ops(rows, dtype), [a, b, *space], len(pairs))
    for row, result, output in zip(rows, results, outputs, strict=True):
        yield row, encoded(output, result)


def int_pairs(dtype: DataType) -> list[tuple[int, int]]:
    low, high = arith.int_range(dtype)
    bits = dtype.bits or 0
    edges = {
        arith.wrap(v, dtype)
        for v in (0, 1, 2, 3, -1, -2, low, low + 1, high, high - 1, bits, bits - 1, 1 << bits // 2)
    }
    rng = random.Random(bits)
    values = [rng.randint(low, high) for _ in range(60)]
    return [*itertools.product(sorted(edges), repeat=2), *itertools.pairwise(values)]


@pytest.mark.parametrize("dtype", [*INTEGERS, DataType.BOOL], ids=str)
def test_integer_ops(ref: Any, dtype: DataType) -> None:
    """Wrapping, x/0, INT_MIN/-1, shifts past the width, saturation: as the table's folds have them."""
    rows = [r for r in OPS.values() if r.format in ELEMENTWISE and r.fold_int and r.accepts(dtype)]
    assert len(rows) >= (6 if dtype.is_bool else 30)
    pairs = int_pairs(dtype) if dtype.is_int else list(itertools.product((0, 1), repeat=2))
    for row, actual in apply_all(ref, rows, dtype, pairs):
        fold: Callable[..., int] = row.fold_int  # type: ignore[assignment]
        arguments = [(a,) if row.format == "unary" else (a, b) for a, b in pairs]
        expected = [fold(*ab, dtype) for ab in arguments]
        expected = [int(w) if row.format == "compare" else arith.wrap(w, dtype) for w in expected]
        assert actual == expected, [
            (row.name, x) for x in zip(arguments, actual, expected, strict=True) if x[1] != x[2]
        ][:3]


def float_patterns(dtype: DataType, count: int = 40) -> list[int]:
    """Zeros, subnormals, one and its neighbours, the largest, infinities, NaN, and random bit patterns."""
    bits = dtype.bits or 0
    sign = 1 << (bits - 1)
    inf = arith.encode_float(math.inf, dtype)
    one = arith.encode_float(1.0, dtype)
    positive = [0, 1, 2, 3, one - 1, one, one + 1, one + 2, inf - 1, inf - 2, inf,
                *(arith.encode_float(v, dtype) for v in (0.5, 1.5, 2.5, 3.0, 1e-3, 100.5, 6.0e4))]  # fmt: skip
    rng = random.Random(bits)
    random_ones = [rng.getrandbits(bits) for _ in range(count)]
    near_one = [rng.randrange(one - (one >> 4), one + (one >> 4)) for _ in range(count)]
    patterns = [
        *positive,
        *(p | sign for p in positive),
        arith.CANONICAL_NAN[dtype.name],
        *random_ones,
        *near_one,
    ]
    return [
        p if not math.isnan(arith.decode_float(p, dtype)) else arith.CANONICAL_NAN[dtype.name]
        for p in patterns
    ]


def encode(value: float, dtype: DataType) -> int:
    """The bits of `value` in `dtype`; what rounds to zero keeps its sign, as IEEE says."""
    bits = arith.encode_float(value, dtype)
    return bits | (1 << (dtype.bits or 0) - 1) if bits == 0 and math.copysign(1.0, value) < 0 else bits


def same_float(actual: int, expected: int, dtype: DataType) -> bool:
    """Equal bits, or both NaN: which NaN is not said."""
    return actual == expected or (
        math.isnan(arith.decode_float(actual, dtype)) and math.isnan(arith.decode_float(expected, dtype))
    )


@pytest.mark.parametrize("count", quick([1, 24]))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_ops(ref: Any, dtype: DataType, count: int) -> None:
    """One rounding in each type, NaN ignored by min and max, -0 below +0: as the table's folds have them."""
    rows = [r for r in OPS.values() if r.format in ELEMENTWISE and r.fold_float and r.accepts(dtype)]
    assert len(rows) >= 20
    pairs = list(itertools.product(float_patterns(dtype, count), repeat=2))
    values = [tuple(arith.decode_float(p, dtype) for p in pair) for pair in pairs]
    for row, actual in apply_all(ref, rows, dtype, pairs):
        fold: Callable[..., float] = row.fold_float  # type: ignore[assignment]
        for ab, bits in zip(values, actual, strict=True):
            result = fold(*ab[: ELEMENTWISE[row.format]])
            if row.format == "compare":
                assert bits == int(result), (row.name, ab)
            else:
                assert same_float(bits, encode(result, dtype), dtype), (row.name, ab, bits)


@pytest.mark.parametrize("count", quick([400, 10_000]))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_once(ref: Any, dtype: DataType, count: int) -> None:
    """Against exact rationals, on products that nearly cancel with c, halves of an ulp, and subnormals."""
    rng = random.Random(3)
    patterns = float_patterns(dtype, 30)
    triples = [tuple(rng.choice(patterns) for _ in range(3)) for _ in range(count)]
    for _ in range(count):  # c cancels most of a * b, or is a little more than half an ulp of it
        a, b = rng.choice(patterns), rng.choice(patterns)
        product = arith.decode_float(a, dtype) * arith.decode_float(b, dtype)
        scale = rng.choice((-1.0, 1.0, -(2.0**-11), 2.0**-24, 2.0**-53))
        triples.append((a, b, arith.encode_float(product * scale, dtype)))
    text = f"""
    program @f workgroup(1) {{
      buffer @a : {dtype}[?] read binding(0)
      buffer @b : {dtype}[?] read binding(1)
      buffer @c : {dtype}[?] read binding(2)
      buffer @o : {dtype}[?] write binding(3) live_out
      %g = global_id x
      %a = load @a[%g] : {dtype}
      %b = load @b[%g] : {dtype}
      %c = load @c[%g] : {dtype}
      %r = fma %a, %b, %c : {dtype}
      store %r, @o[%g] : {dtype}
    }}"""
    sides = [array(list(side), dtype) for side in zip(*triples, strict=True)]
    (out,) = ref(text, [*sides, np.zeros_like(sides[0])], len(triples))
    for triple, actual in zip(triples, encoded(out, dtype), strict=True):
        values = [arith.decode_float(p, dtype) for p in triple]
        try:
            expected = arith.float_fma(*values, dtype)
        except OverflowError:  # beyond what a Python float holds
            expected = encode(math.copysign(math.inf, values[0]) * math.copysign(1.0, values[1]), dtype)
        assert same_float(actual, expected, dtype), (values, actual, expected)


@pytest.mark.parametrize(
    "dtype", [DataType.I16, DataType.U64, DataType.BOOL, DataType.F16, DataType.BF16, DataType.F64], ids=str
)
def test_ops_on_vectors_are_those_on_their_elements(ref: Any, dtype: DataType) -> None:
    """Every elementwise op, on vec<4 x T> and on T, gives the same bits."""
    rows = [r for r in OPS.values() if r.format in ELEMENTWISE and r.accepts(dtype)]
    patterns = (
        [0, 1] * 4
        if dtype.is_bool
        else float_patterns(dtype, 3)
        if dtype.is_float
        else [x for x, _ in int_pairs(dtype)]
    )
    patterns = patterns[: len(patterns) // 4 * 4]
    a, b = array(patterns, dtype), array(patterns[::-1], dtype)
    vector = DataType.vec(dtype, 4)

    def outputs(of: DataType, count: int) -> list[np.ndarray]:
        results = [DataType.BOOL if row.format == "compare" else dtype for row in rows]
        text = all_ops(rows, of).replace(": bool[?]", f": {of.with_element(DataType.BOOL)}[?]")
        text = text.replace(": bool\n", f": {of.with_element(DataType.BOOL)}\n")
        return ref(text, [a, b, *(np.zeros(len(a), storage_type(r)) for r in results)], count)

    for row, one, many in zip(rows, outputs(dtype, len(a)), outputs(vector, len(a) // 4), strict=True):
        assert many.shape == (len(a) // 4, 4)
        assert many.tobytes() == one.tobytes(), row.name


@pytest.mark.parametrize("count", [1, 8, 9, 16, 33])
@pytest.mark.parametrize(
    ("dtype", "pattern"), [("f16", 0x7C01), ("f32", 0xFF800001), ("f64", 0x7FF0000000000001)]
)
def test_min_and_max_ignore_a_signalling_nan(dtype: str, pattern: int, count: int) -> None:
    """NumPy's fmin does so or not by the length of the array."""
    kind = storage_type(DataType.of(dtype))
    bits = np.full(count, pattern, f"u{kind.itemsize}").view(kind)
    for name in ("min", "max"):
        for operands in ((np.ones(count, kind), bits), (bits, np.ones(count, kind))):
            with np.errstate(invalid="ignore"):
                result = FLOAT_OPS[name](*operands, DataType.of(dtype))
            assert result.tolist() == [1.0] * count
