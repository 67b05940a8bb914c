"""Fragments beside the formulas of the PTX ISA (sections "Matrix fragments for mma.m16n8k16" and its neighbours)."""

from __future__ import annotations

import pytest

from vyre_opt.ir import DataType as D
from vyre_opt.lowering.common.matrix_fragments import MMA, ROWS

Place = tuple[int, int]


def places(dtype: D, lane: int) -> list[Place]:
    """Row and column of each element that a lane holds, in their order."""
    fragment = MMA.fragment(dtype)
    high, low = divmod(lane, fragment.low_lanes)
    return [
        (
            row + fragment.high[0] * high + fragment.low[0] * low,
            column + fragment.high[1] * high + fragment.low[1] * low,
        )
        for row, column in fragment.slots
    ]


def of_16_bits(lane: int) -> dict[str, list[Place]]:
    """m16n8k16 with .f16 or .bf16."""
    group, thread = divmod(lane, 4)
    return {
        "a": [
            (
                group if i < 2 or 4 <= i < 6 else group + 8,
                thread * 2 + (i & 1) if i < 4 else thread * 2 + (i & 1) + 8,
            )
            for i in range(8)
        ],
        "b": [(thread * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(4)],
    }


def of_tf32(lane: int) -> dict[str, list[Place]]:
    """m16n8k8 with .tf32."""
    group, thread = divmod(lane, 4)
    return {
        "a": [(group + (8 if i in (1, 3) else 0), thread + (4 if i >= 2 else 0)) for i in range(4)],
        "b": [(thread + 4 * i, group) for i in range(2)],
    }


def of_8_bits(lane: int) -> dict[str, list[Place]]:
    """m16n8k32 with .s8."""
    group, thread = divmod(lane, 4)
    return {
        "a": [
            (
                group if i < 4 or 8 <= i < 12 else group + 8,
                thread * 4 + (i & 3) + (16 if i >= 8 else 0),
            )
            for i in range(16)
        ],
        "b": [(thread * 4 + (i & 3) + (16 if i >= 4 else 0), group) for i in range(8)],
    }


@pytest.mark.parametrize(
    ("element", "depth", "formulas"),
    [(D.F16, 16, of_16_bits), (D.BF16, 16, of_16_bits), (D.TF32, 8, of_tf32), (D.I8, 32, of_8_bits)],
    ids=["f16", "bf16", "tf32", "i8"],
)
def test_one_instruction(element, depth, formulas):
    for lane in range(32):
        expected = formulas(lane)
        assert places(D.matrix(16, depth, element, "a"), lane) == expected["a"]
        assert places(D.matrix(depth, 8, element, "b"), lane) == expected["b"]


@pytest.mark.parametrize("total", [D.F32, D.I32, D.BF16, D.I8], ids=str)
def test_sums(total):
    """c of all these instructions."""
    for lane in range(32):
        group, thread = divmod(lane, 4)
        c = [(group + (8 if i >= 2 else 0), thread * 2 + (i & 1)) for i in range(4)]
        assert places(D.matrix(16, 8, total, "acc"), lane) == c


def test_a_sum_is_a_left_factor_as_it_is():
    for lane in range(32):
        for rows, columns in ((16, 16), (32, 32), (16, 64)):
            total, factor = D.matrix(rows, columns, D.F32, "acc"), D.matrix(rows, columns, D.BF16, "a")
            assert places(total, lane) == places(factor, lane)


@pytest.mark.parametrize("layout", [MMA, ROWS], ids=["mma", "rows"])
@pytest.mark.parametrize(
    "dtype",
    [
        D.matrix(64, 32, D.F32, "acc"),
        D.matrix(16, 128, D.I32, "acc"),
        D.matrix(32, 64, D.F16, "a"),
        D.matrix(16, 8, D.TF32, "a"),
        D.matrix(64, 32, D.I8, "b"),
        D.matrix(16, 8, D.BF16, "b"),
    ],
    ids=str,
)
def test_each_element_is_in_one_place(layout, dtype):
    fragment = layout.fragment(dtype)
    seen = [
        (r + h * fragment.high[0] + w * fragment.low[0], c + h * fragment.high[1] + w * fragment.low[1])
        for lane in range(32)
        for h, w in [divmod(lane, fragment.low_lanes)]
        for r, c in fragment.slots
    ]
    rows, columns = dtype.shape
    assert sorted(seen) == [(r, c) for r in range(rows) for c in range(columns)]
