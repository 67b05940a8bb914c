"""The contract of specialization values and keys, each hash worked out here from its definition."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from blake3 import blake3

from vyre_opt import (
    DataType,
    SpecCacheKey,
    SpecMap,
    SpecValue,
    fingerprint,
    parse,
    versioned_specialization_artifact_key,
    vsa_specialization_key,
)

CHECKS = [case["check"] for case in json.loads((Path(__file__).parent / "specialization.json").read_text())]

TYPES = {
    DataType.U32: 1,
    DataType.I32: 2,
    DataType.U64: 3,
    DataType.VEC2_U32: 4,
    DataType.VEC4_U32: 5,
    DataType.BOOL: 6,
    DataType.BYTES: 7,
    DataType.of("array", 4): 8,
    DataType.F16: 9,
    DataType.BF16: 0xA,
    DataType.F32: 0xB,
    DataType.F64: 0xC,
    DataType.TENSOR: 0xD,
    DataType.U8: 0xE,
    DataType.U16: 0xF,
    DataType.I8: 0x10,
    DataType.I16: 0x11,
    DataType.I64: 0x12,
    DataType.of("handle", 7): 0x13,
    DataType.vec(DataType.F32, 4): 0x14,
    DataType.of("tensor_shaped", DataType.F32, 2, 3): 0x15,
    DataType.of("sparse_csr", DataType.F32): 0x16,
    DataType.of("sparse_coo", DataType.F32): 0x17,
    DataType.of("sparse_bsr", DataType.F32, 4, 4): 0x18,
    DataType.F8E4M3: 0x19,
    DataType.F8E5M2: 0x1A,
    DataType.I4: 0x1B,
    DataType.FP4: 0x1C,
    DataType.NF4: 0x1D,
    DataType.of("device_mesh", 2, 4): 0x1E,
    DataType.of("opaque", 9): 0x80,
}
PROGRAM = parse("vyre 1\n\nprogram @p workgroup(64) {\n}\n").programs["p"]


def insertion_order() -> None:
    values = {"tile": SpecValue.u32(64), "ünroll": SpecValue.bool(True), "a": SpecValue.f32(-0.0)}
    assert SpecMap(values).cache_hash() == SpecMap(dict(reversed(values.items()))).cache_hash()


def cache_key_differs() -> None:
    assert SpecCacheKey(1, 2, (64, 1, 1), 3) == SpecCacheKey(1, 2, (64, 1, 1), 3)
    assert SpecCacheKey(1, 2, (64, 1, 1), 3) != SpecCacheKey(1, 2, (64, 1, 1), 4)


def vsa_halves() -> None:
    first, second = vsa_specialization_key(PROGRAM, 0x11), vsa_specialization_key(PROGRAM, 0x22)
    assert first >> 64 == second >> 64 == int.from_bytes(fingerprint(PROGRAM)[:8], "little")
    assert (first & (1 << 64) - 1, second & (1 << 64) - 1) == (0x11, 0x22)


def lengths_in_artifact_key() -> None:
    keys = {
        versioned_specialization_artifact_key(*fields)
        for fields in ((1, "ab", "cd"), (1, "abc", "d"), (2, "ab", "cd"), (1, "", "abcd"))
    }
    assert len(keys) == 4


def dtype_hashes() -> None:
    hashes = {SpecValue.dtype(t).cache_hash() for t in TYPES}
    assert len(hashes) == len(TYPES)
    assert {t.tag for t in TYPES} == {*range(1, 0x1F), 0x80}
    for dtype, tag in TYPES.items():
        assert SpecValue.dtype(dtype).cache_hash() == SpecValue.dtype(dtype).cache_hash() == 4 | tag << 8
    zeros = (SpecValue.u32(0), SpecValue.i32(0), SpecValue.f32(0.0), SpecValue.bool(False))
    assert not hashes & {zero.cache_hash() for zero in zeros}


GUARDS = dict(
    zip(
        CHECKS,
        (insertion_order, cache_key_differs, vsa_halves, lengths_in_artifact_key, dtype_hashes),
        strict=True,
    )
)


@pytest.mark.parametrize("check", CHECKS)
def test_cases(check: str) -> None:
    """Each sentence of the contract's cases, in order."""
    GUARDS[check]()


@pytest.mark.parametrize(
    ("value", "tag", "payload", "number"),
    [
        (SpecValue.u32(0), 0, 0, 0.0),
        (SpecValue.u32(0xFFFFFFFF), 0, 0xFFFFFFFF, 4294967295.0),
        (SpecValue.i32(-1), 1, 0xFFFFFFFF, -1.0),
        (SpecValue.i32(-(1 << 31)), 1, 0x80000000, -2147483648.0),
        (SpecValue.f32(1.5), 2, 0x3FC00000, 1.5),
        (SpecValue.f32(-0.0), 2, 0x80000000, -0.0),
        (SpecValue.f32(float("inf")), 2, 0x7F800000, float("inf")),
        (SpecValue.f32(1e-45), 2, 1, 2.0**-149),
        (SpecValue.bool(True), 3, 1, 1.0),
        (SpecValue.bool(False), 3, 0, 0.0),
        (SpecValue.dtype(DataType.F16), 4, 9, 9.0),
        (SpecValue.dtype(DataType.of("opaque", 1)), 4, 0x80, 128.0),
    ],
    ids=repr,
)
def test_value_hash(value: SpecValue, tag: int, payload: int, number: float) -> None:
    """Tag below, payload of 32 bits above it; and the same value as a float."""
    assert value.cache_hash() == tag | payload << 8
    assert struct.pack("<d", value.as_pipeline_f64()) == struct.pack("<d", number)


def fnv(content: bytes) -> int:
    digest = 0xCBF29CE484222325
    for byte in content:
        digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
    return digest


def test_map_hash() -> None:
    """Entries by their UTF-8 bytes, which is not the order of UTF-16; none gives the offset basis."""
    assert SpecMap().cache_hash() == 0xCBF29CE484222325
    assert fnv(b"foobar") == 0x85944171F73967E8  # of the published test vectors
    names = ["\uff5e", "\U0001f600", "b", "B", "ba", ""]
    values = {name: SpecValue.u32(place) for place, name in enumerate(names)}
    order = ["", "B", "b", "ba", "\uff5e", "\U0001f600"]
    expected = fnv(b"".join(n.encode() + struct.pack("<Q", values[n].cache_hash()) for n in order))
    assert SpecMap(values).cache_hash() == expected
    assert list(SpecMap(values)) == order
    assert list(SpecMap(values).to_numeric_constants().items()) == [(n, float(names.index(n))) for n in order]


def test_artifact_key_layout() -> None:
    """The bytes that are hashed, written out; names are counted in bytes."""
    spec, backend = "é", b"cuda\0"
    expected = blake3(
        b"vyre-specialization-artifact-key-v1\0version\0\x07\x00\x00\x00"
        b"\0spec\0\x02\x00\x00\x00\x00\x00\x00\x00\xc3\xa9"
        b"\0backend\0\x05\x00\x00\x00\x00\x00\x00\x00cuda\0"
    ).hexdigest()
    assert versioned_specialization_artifact_key(7, spec, backend) == expected


def test_cache_key_fields() -> None:
    """The fields by their names; a key from a map has the map's hash."""
    specs = SpecMap({"k": SpecValue.u32(1)})
    key = SpecCacheKey.of(1, 2, [64, 2, 1], specs)
    assert key == SpecCacheKey(
        shader_hash=1, binding_signature=2, workgroup_size=(64, 2, 1), spec_hash=specs.cache_hash()
    )
    assert {key: "kernel"}[SpecCacheKey(1, 2, (64, 2, 1), specs.cache_hash())] == "kernel"
