"""Atomics act as if the lanes came one after the other in the order of their invocations."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.each import each

ATOMICS: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, v: old + v,
    "min": min,
    "max": max,
    "and": lambda old, v: old & v,
    "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
    "exchange": lambda old, v: v,
}


def program(op: str, dtype: str, values: str) -> str:
    return f"""program @p workgroup(32) {{
      buffer @place : u32[?] read binding(0)
      buffer @v : {dtype}[?] read binding(1)
      buffer @w : {dtype}[?] read binding(2)
      buffer @cells : {dtype}[?] read_write binding(3) live_in live_out
      buffer @old : {dtype}[?] write binding(4) live_out
      %g = global_id x
      %i = load @place[%g] : u32
      %v = load @v[%g] : {dtype}
      %w = load @w[%g] : {dtype}
      %o = {op}<seq_cst> @cells[%i], {values} : {dtype}
      store %o, @old[%g] : {dtype}
    }}"""


def test_integer_atomics(ref: Any) -> None:
    """Old values and final contents, with many lanes on few elements, against one lane at a time."""

    def check(case: tuple[str, str]) -> None:
        name, dtype = case
        rng = random.Random(name + dtype)
        kind = np.dtype({"u8": "u1", "i32": "i4", "u64": "u8"}[dtype])
        low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
        place = [rng.choice((0, 1, 2, 2, 2, 9, rng.randrange(16))) for _ in range(256)]
        v = [rng.randint(low, high) for _ in range(256)]
        cells = [rng.randint(low, high) for _ in range(16)]
        inputs = [np.array(place, np.uint32), *(np.array(a, kind) for a in (v, v, cells, [0] * 256))]
        found_cells, found_old = ref(program(f"atomic_{name}", dtype, "%v"), inputs, 8)
        old = []
        for i, value in zip(place, v, strict=True):
            old.append(cells[i])
            cells[i] = (ATOMICS[name](cells[i], value) - low) % (1 << 8 * kind.itemsize) + low
        assert list(found_old) == old
        assert list(found_cells) == cells

    each(product(ATOMICS, ["u8", "i32", "u64"]), check)


def test_compare_exchange(ref: Any) -> None:
    """Only a lane that finds what it expects replaces it; later lanes see the new value."""
    rng = random.Random(1)
    place = [rng.randrange(4) for _ in range(128)]
    expected, new = ([rng.randrange(3) for _ in range(128)] for _ in range(2))
    cells = [0, 1, 2, 0]
    inputs = [np.array(a, np.uint32) for a in (place, expected, new, cells, [0] * 128)]
    found_cells, found_old = ref(program("atomic_compare_exchange", "u32", "%v, %w"), inputs, 4)
    old = []
    for i, e, n in zip(place, expected, new, strict=True):
        old.append(cells[i])
        cells[i] = n if cells[i] == e else cells[i]
    assert list(found_old) == old
    assert list(found_cells) == cells


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_float_add_rounds_after_each_lane(ref: Any, kind: Any) -> None:
    """Not a sum rounded at the end: each addition rounds, in lane order."""
    values = np.random.default_rng(2).normal(size=96).astype(kind)
    cells = np.zeros(1, kind)
    inputs = [np.zeros(96, np.uint32), values, values, cells, np.zeros(96, kind)]
    name = {np.float32: "f32", np.float16: "f16"}[kind]
    found_cells, found_old = ref(program("atomic_add", name, "%v"), inputs, 3)
    running = kind(0)
    for value, old in zip(values, found_old, strict=True):
        assert old == running
        running = kind(running + value)
    assert found_cells[0] == running


def test_a_histogram_of_lanes_that_agree_on_the_place(ref: Any) -> None:
    """One uniform index, tens of thousands of lanes in several batches."""
    text = """program @p workgroup(256) {
      buffer @n : u32[1] read_write binding(0) live_in live_out
      %zero = const 0 : u32
      %one = const 1 : u32
      %o = atomic_add<relaxed> @n[%zero], %one : u32
    }"""
    (n,) = ref(text, [np.array([5], np.uint32)], 600)
    assert n[0] == 5 + 600 * 256
