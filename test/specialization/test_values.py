"""What a specialization value and a map take, what they refuse, and when two are equal."""

from __future__ import annotations

import copy
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vyre_opt import (
    DataType,
    DiagnosticError,
    SpecCacheKey,
    SpecMap,
    SpecValue,
    parse,
    vsa_specialization_key,
)
from vyre_opt.ir.types import UNKNOWN
from vyre_opt.specialization.values import dtype_tag

PROGRAM = parse("vyre 1\n\nprogram @p workgroup(64) {\n}\n").programs["p"]


def f32(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: SpecValue.u32(-1), ValueError, "-1 does not fit in u32"),
        (lambda: SpecValue.u32(1 << 32), ValueError, "does not fit in u32"),
        (lambda: SpecValue.u32(True), TypeError, "not the bool True"),
        (lambda: SpecValue.u32(np.True_), TypeError, "not the bool"),
        (lambda: SpecValue.u32(1.0), TypeError, "a u32 is an integer"),
        (lambda: SpecValue.u32("1"), TypeError, "a u32 is an integer"),
        (lambda: SpecValue.i32(1 << 31), ValueError, "does not fit in i32"),
        (lambda: SpecValue.i32(-(1 << 31) - 1), ValueError, "does not fit in i32"),
        (lambda: SpecValue.f32("1"), TypeError, "an f32 is a number"),
        (lambda: SpecValue.f32(None), TypeError, "an f32 is a number"),
        (lambda: SpecValue.f32(False), TypeError, "an f32 is a number"),
        (lambda: SpecValue.f32(1e39), ValueError, "beyond the range of f32"),
        (lambda: SpecValue.f32(10**400), ValueError, "beyond the range of f32"),
        (lambda: SpecValue.f32((1 << 128) - 1), ValueError, "beyond the range of f32"),
        (lambda: SpecValue.bool(1), TypeError, "a bool is True or False"),
        (lambda: SpecValue.bool("true"), TypeError, "a bool is True or False"),
        (lambda: SpecValue.dtype("f32"), TypeError, "not a DataType"),
        (lambda: SpecValue.dtype(UNKNOWN), ValueError, "no tag to hash it by"),
        (lambda: SpecValue.dtype(DataType.parameter("T", DataType.F32)), ValueError, "no tag"),
        (lambda: SpecValue("u33", 0), ValueError, "not 'u33'"),
        (lambda: SpecValue("bool", 2), ValueError, "not the payload"),
        (lambda: SpecValue("dtype", 1), TypeError, "needs a type"),
        (lambda: SpecValue("dtype", 1, DataType.F32), ValueError, "its tag, 0xb"),
        (lambda: SpecMap({1: SpecValue.u32(1)}), TypeError, "is a str, not 1"),
        (lambda: SpecMap({b"a": SpecValue.u32(1)}), TypeError, "is a str"),
        (lambda: SpecMap({"a": 1}), TypeError, "is a SpecValue"),
        (lambda: SpecMap({"\ud800": SpecValue.u32(1)}), ValueError, "surrogate"),
        (lambda: SpecMap([("a", SpecValue.u32(1)), ("a", SpecValue.u32(1))]), ValueError, "given twice"),
        (lambda: SpecCacheKey(-1, 0, (1, 1, 1), 0), ValueError, "shader_hash"),
        (lambda: SpecCacheKey(0, 0, (1, 1), 0), ValueError, "three sizes"),
        (lambda: SpecCacheKey(0, 0, (1, 1, 1 << 32), 0), ValueError, "workgroup_size"),
        (lambda: SpecCacheKey(0, 0, (1, 1, 1), "0"), TypeError, "spec_hash"),
        (lambda: vsa_specialization_key(PROGRAM, 1 << 64), ValueError, "spec_hash"),
    ],
)
def test_refused(make, error, says) -> None:
    """A value of another kind is never taken for one of this kind; what is out of range is not wrapped."""
    with pytest.raises(error, match=says):
        make()


def test_equal_by_bits() -> None:
    """0.0 is not -0.0 and a NaN is itself, whatever Python's == says of the floats."""
    nan = float("nan")
    assert SpecValue.f32(0.0) != SpecValue.f32(-0.0)
    assert SpecValue.f32(nan) == SpecValue.f32(nan)
    assert SpecMap({"a": SpecValue.f32(nan)}) == SpecMap({"a": SpecValue.f32(nan)})
    assert SpecValue.f32_bits(0x7FC00001) != SpecValue.f32_bits(0x7FC00002)
    assert SpecValue.u32(1) != SpecValue.i32(1) != SpecValue.bool(True)
    assert len({SpecValue.u32(1), SpecValue.i32(1), SpecValue.bool(True), SpecValue.f32_bits(1)}) == 4


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7FA00001, 0xFF800001, 0x7FFFFFFF])
def test_nan_keeps_its_payload(bits: int) -> None:
    """Of a NumPy float32 every bit; of a Python float what its 52 bits hold; never an infinity."""
    assert SpecValue.f32(np.uint32([bits]).view(np.float32)[0]).bits == bits
    assert SpecValue.f32_bits(bits).bits == bits
    double = struct.unpack("<d", struct.pack("<Q", bits >> 31 << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29))[
        0
    ]
    assert SpecValue.f32(double).bits == bits
    assert SpecValue.f32(struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000001))[0]).bits == 0x7FC00000


@pytest.mark.parametrize(
    ("number", "bits"),
    [
        (16777217, 0x4B800000),  # a tie goes to even
        ((1 << 60) + (1 << 36), 0x5D800000),
        ((1 << 60) + (1 << 36) + 1, 0x5D800001),  # as an f64 first, it would be that tie
        (-(1 << 60) - (1 << 36) - 1, 0xDD800001),
        (np.float64(0.1), 0x3DCCCCCD),
        (np.int64(-3), 0xC0400000),
        (3.4028235677973362e38, 0x7F7FFFFF),  # less than half a unit above the largest
    ],
)
def test_rounded_once(number, bits: int) -> None:
    assert SpecValue.f32(number).bits == bits


@given(st.integers(0, 0xFFFFFFFF))
@settings(max_examples=300, deadline=None)
def test_f32_of_its_own_value(bits: int) -> None:
    """Every f32 that is a number comes back bit for bit, also through as_pipeline_f64."""
    value = f32(bits)
    if value == value:
        assert SpecValue.f32(value).bits == bits
        assert SpecValue.f32(SpecValue.f32(value).as_pipeline_f64()).bits == bits


def test_values_survive_copies() -> None:
    """Through pickle and copy: workers and caches pass them around."""
    values = SpecMap({"a": SpecValue.f32(float("nan")), "b": SpecValue.dtype(DataType.vec(DataType.U8, 4))})
    for again in (pickle.loads(pickle.dumps(values)), copy.deepcopy(values), copy.copy(values)):
        assert again == values
        assert (again.cache_hash(), again.digest(), hash(again)) == (
            values.cache_hash(),
            values.digest(),
            hash(values),
        )
    assert values["b"].value is DataType.vec(DataType.U8, 4)
    assert eval(repr(values["a"])) == values["a"]


def test_known_collisions_have_digests_apart() -> None:
    """Two ways in which the 64-bit hash of a map says too little; the digest tells them apart."""
    one = SpecMap({"a": SpecValue.u32(0x41), "b": SpecValue.u32(1)})
    other = SpecMap({"a\0A\0\0\0\0\0\0b": SpecValue.u32(1)})
    assert one.cache_hash() == other.cache_hash()
    assert one.digest() != other.digest()
    pairs = [
        (DataType.vec(DataType.U32, 2), DataType.vec(DataType.U32, 4)),
        (DataType.of("array", 4), DataType.of("array", 9)),
        (DataType.of("opaque", 1), DataType.of("opaque", 2)),
    ]
    for first, second in pairs:
        a, b = (SpecMap({"T": SpecValue.dtype(t)}) for t in (first, second))
        assert a.cache_hash() == b.cache_hash()
        assert a != b
        assert a.digest() != b.digest()


def test_every_type_that_exists_has_a_tag() -> None:
    """So that a new type cannot be forgotten in the table of tags."""
    for name in DataType.all_names():
        if name in DataType._interned:
            dtype_tag(DataType.of(name))


def test_a_vector_of_one_lane_is_a_type_for_keys_alone() -> None:
    one = DataType.vec(DataType.U32, 1)
    assert SpecValue.dtype(one).cache_hash() == SpecValue.dtype(DataType.vec(DataType.U32, 2)).cache_hash()
    digests = {
        SpecMap({"T": SpecValue.dtype(t)}).digest()
        for t in (one, DataType.U32, DataType.vec(DataType.U32, 2))
    }
    assert len(digests) == 3
    with pytest.raises(DiagnosticError, match="a vector has 2 to 64 lanes, not 1"):
        parse("vyre 1\nprogram @p workgroup(1) {\n  %v = const 1 : vec<1 x u32>\n}\n")
    with pytest.raises(ValueError, match="lanes, not 0"):
        DataType.vec(DataType.U32, 0)


def test_insert_gives_a_new_map() -> None:
    one = SpecMap({"tile": SpecValue.u32(1)})
    two = one.insert("lanes", SpecValue.i32(-1))
    assert two == SpecMap({"lanes": SpecValue.i32(-1), "tile": SpecValue.u32(1)})
    assert two.insert("tile", SpecValue.u32(2))["tile"] == SpecValue.u32(2)
    assert one == SpecMap({"tile": SpecValue.u32(1)})
    with pytest.raises(TypeError, match="the value of 'tile' is a SpecValue"):
        one.insert("tile", 3)  # type: ignore[arg-type]
