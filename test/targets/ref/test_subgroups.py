"""Subgroup ops: 32 consecutive lanes, the last subgroup of a workgroup maybe fewer."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.each import each

COMBINE: dict[str, tuple[Callable[[int, int], int], int]] = {
    # combiner -> function on i32 values, identity
    "add": (lambda a, b: a + b, 0),
    "mul": (lambda a, b: a * b, 1),
    "min": (min, 2**31 - 1),
    "max": (max, -(2**31)),
    "and": (lambda a, b: a & b, -1),
    "or": (lambda a, b: a | b, 0),
    "xor": (lambda a, b: a ^ b, 0),
}
SIZE, GROUPS = 80, 3  # subgroups of 32, 32 and 16 lanes


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def run(ref: Any, body: str, values: np.ndarray, result: str = "i32") -> np.ndarray:
    text = f"""program @p workgroup({SIZE}) {{
      buffer @x : i32[?] read binding(0)
      buffer @y : {result}[?] write binding(1) live_out
      %g = global_id x
      %x = load @x[%g] : i32
      {body}
      store %y, @y[%g] : {result}
    }}"""
    (y,) = ref(text, [values, np.zeros(len(values), {"i32": np.int32, "u32": np.uint32}[result])], GROUPS)
    return y


def subgroups(values: np.ndarray) -> list[np.ndarray]:
    return [part for group in values.reshape(GROUPS, SIZE) for part in (group[:32], group[32:64], group[64:])]


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(4).integers(-(2**31), 2**31, SIZE * GROUPS).astype(np.int32)


@pytest.mark.parametrize("combine", COMBINE)
def test_reduce_and_scan(ref: Any, values: np.ndarray, combine: str) -> None:
    """All combiners, whole and partial subgroups; an exclusive scan starts with the identity."""
    step, identity = COMBINE[combine]
    total = run(ref, f"%y = subgroup_reduce<{combine}> %x : i32", values)
    upto = run(ref, f"%y = subgroup_scan<inclusive, {combine}> %x : i32", values)
    before = run(ref, f"%y = subgroup_scan<exclusive, {combine}> %x : i32", values)
    for x, t, u, b in zip(*map(subgroups, (values, total, upto, before)), strict=True):
        running = [wrap(reduce(step, map(int, x[: k + 1]))) for k in range(len(x))]
        assert list(u) == running
        assert list(b) == [identity, *running[:-1]]
        assert set(t) == {running[-1]}


def test_shuffle(ref: Any, values: np.ndarray) -> None:
    """A source outside the subgroup, or in no lane of the last one, gives a lane its own value."""

    def check(case: tuple[str, int]) -> None:
        mode, amount = case
        body = f"%k = const {amount} : u32\n %y = subgroup_shuffle<{mode}> %x, %k : i32"
        result = run(ref, body, values)
        for x, y in zip(subgroups(values), subgroups(result), strict=True):
            for lane, own in enumerate(x):
                source = {"idx": amount, "up": lane - amount, "down": lane + amount, "xor": lane ^ amount}[
                    mode
                ]
                assert y[lane] == (x[source] if 0 <= source < len(x) else own), lane

    each(product(["idx", "up", "down", "xor"], [0, 1, 7, 17, 31, 32, 40]), check)


def test_ballot(ref: Any, values: np.ndarray) -> None:
    body = "%zero = const 0 : i32\n %p = lt %x, %zero : i32\n %y = subgroup_ballot %p"
    result = run(ref, body, values, "u32")
    for x, y in zip(subgroups(values), subgroups(result), strict=True):
        assert set(y) == {sum(1 << lane for lane, v in enumerate(x) if v < 0)}


def test_only_active_lanes_take_part(ref: Any) -> None:
    """Without checks, a divergent op combines the lanes that are there."""
    text = """program @p workgroup(32) {
      buffer @y : u32[32] write binding(0) live_out
      buffer @z : u32[32] write binding(1) live_out
      %l = local_id x
      %one = const 1 : u32
      %bit = and %l, %one : u32
      %odd = eq %bit, %one : u32
      if %odd {
        %s = subgroup_scan<exclusive, add> %l : u32
        store %s, @y[%l] : u32
        %n = subgroup_shuffle<up> %l, %one : u32
        store %n, @z[%l] : u32
      }
    }"""
    y, z = ref(text, [np.zeros(32, np.uint32)] * 2, 1, checks=False)
    odd = list(range(1, 32, 2))
    assert list(y[1::2]) == [sum(odd[:k]) for k in range(16)]
    assert list(z[1::2]) == odd


def test_floats_are_combined_as_a_tree(ref: Any) -> None:
    """Lane 0 adds 16, then 8, 4, 2 and 1 to its own, rounding each time; all lanes get its total."""
    x = np.random.default_rng(5).normal(size=32).astype(np.float32)
    text = """program @p workgroup(32) {
      buffer @x : f32[32] read binding(0)
      buffer @y : f32[32] write binding(1) live_out
      %l = local_id x
      %x = load @x[%l] : f32
      %s = subgroup_reduce<add> %x : f32
      store %s, @y[%l] : f32
    }"""
    (y,) = ref(text, [x, np.zeros(32, np.float32)], 1)
    sixteen = x[:16] + x[16:]
    eight = sixteen[:8] + sixteen[8:]
    four = eight[:4] + eight[4:]
    two = four[:2] + four[2:]
    assert set(y) == {two[0] + two[1]}
