"""Atomics on elements of every type, in storage and workgroup memory, by threads that contend; without one they lose updates."""

from __future__ import annotations

import math
import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.atomic_programs import CELLS, FLOATS, INTEGERS, LANES, array, atomic_program, numbers
from support.each import each

from vyre_opt import dispatcher

TARGETS = ("ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu))
ODD = (0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, 2.0**-24, math.nan, -math.nan, 3.0)
GROUPS = 8


def run(
    target: str, program: Any, dtype: str, places: Any, v: Any, cells: Any, w: Any = None
) -> tuple[Any, Any]:
    """The cells and the old values, as numbers."""
    count = len(places)
    arrays = [array(each, dtype) for each in (v, v if w is None else w, cells, np.zeros(count))]
    found = dispatcher(target).dispatch(program, [np.asarray(places, np.uint32), *arrays], count // LANES)
    cells, old = (numbers(np.asarray(each), dtype) for each in found)
    return cells, old


def own_cells(places: Any, in_workgroup: bool) -> Any:
    """The cell of each invocation among all, where each workgroup has its own."""
    return places + np.arange(len(places)) // LANES * CELLS if in_workgroup else places


def key(number: float) -> tuple[float, float]:
    """The order of floats in which -0.0 is below 0.0."""
    return number, math.copysign(1.0, number)


@pytest.mark.parametrize("target", TARGETS)
def test_minima_and_maxima_of_floats(target: str) -> None:
    """NaNs of either sign, in memory and added, are ignored, and -0.0 is below 0.0."""

    def check(case: tuple[str, str, bool, str]) -> None:
        op, dtype, in_workgroup, order = case
        rng = random.Random(str(case))
        rows = GROUPS if in_workgroup else 1
        cells = [rng.choice(ODD) for _ in range(CELLS * rows)]
        places = np.array([rng.randrange(CELLS) for _ in range(GROUPS * LANES)])
        pool = [rng.sample(ODD, 3) for _ in range(CELLS * rows)]
        own = own_cells(places, in_workgroup)
        v = [rng.choice(pool[cell]) for cell in own]
        found, old = run(target, atomic_program(op, dtype, in_workgroup, order), dtype, places, v, cells)
        for cell, (start, end) in enumerate(zip(cells, found, strict=True)):
            seen = [start, *(x for x, at in zip(v, own, strict=True) if at == cell)]
            known = [x for x in seen if not math.isnan(x)]
            if not known:
                assert math.isnan(end)
                continue
            assert key(float(end)) == key((min if op == "min" else max)(known, key=key)), (seen, end)
        # an element only ever goes one way, and starts as it was
        for cell in range(len(cells)):
            olds = [float(x) for x, at in zip(old, own, strict=True) if at == cell]
            allowed = [key(x) for x in (cells[cell], *pool[cell]) if not math.isnan(x)]
            assert all(math.isnan(x) or key(x) in allowed for x in olds)

    relaxed = product(("min", "max"), FLOATS, (False, True), ("relaxed",))
    each((*relaxed, ("min", "f32", False, "acq_rel"), ("max", "bf16", False, "acq_rel")), check)


@pytest.mark.parametrize("target", TARGETS)
def test_no_addition_is_lost(target: str) -> None:
    """Ones: the old values of an element are all numbers below its sum, once each."""

    def check(case: tuple[str, bool]) -> None:
        dtype, in_workgroup = case
        count = 2 * LANES if dtype in ("u8", "i8", "bf16") else 1024
        places = (
            np.arange(count) % CELLS if in_workgroup else np.random.default_rng(1).integers(0, CELLS, count)
        )
        rows = count // LANES if in_workgroup else 1
        own = own_cells(places, in_workgroup)
        program = atomic_program(
            "add", dtype, in_workgroup, flags="" if dtype in INTEGERS else " fastmath<reassoc>"
        )
        found, old = run(target, program, dtype, places, np.ones(count), np.zeros(CELLS * rows))
        sums = np.bincount(own, minlength=CELLS * rows)
        assert list(found) == list(sums)
        for cell, total in enumerate(sums):
            assert sorted(old[own == cell]) == list(range(total))

    each(
        [
            ("u8", False),
            ("u16", True),
            ("u64", True),
            ("f16", False),
            ("bf16", True),
            ("f32", True),
            ("f64", False),
        ],
        check,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_integers_of_all_widths(target: str) -> None:
    """All bits of elements of 8 and 16 bits, beside neighbours in the same word."""
    ops = {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "min": np.minimum,
        "max": np.maximum,
        "add": np.add,
    }

    def check(case: tuple[str, str, bool]) -> None:
        op, dtype, in_workgroup = case
        rng = np.random.default_rng(len(op) * 7 + int(dtype[1:]))
        info = np.iinfo(array(0, dtype).dtype)
        count = 4 * LANES
        cells, v = (
            rng.integers(info.min, info.max, n, array(0, dtype).dtype, endpoint=True)
            for n in (CELLS * (4 if in_workgroup else 1) - (not in_workgroup), count)
        )
        places = rng.integers(0, CELLS - 1, count)
        found, _ = run(target, atomic_program(op, dtype, in_workgroup), dtype, places, v, cells)
        expected = cells.copy()
        with np.errstate(over="ignore"):
            ops[op].at(expected, own_cells(places, in_workgroup), v)
        np.testing.assert_array_equal(found, expected)

    each(((op, *kind) for op in ops for kind in (("u8", True), ("i16", False))), check)


@pytest.mark.parametrize("target", TARGETS)
def test_exchanges(target: str) -> None:
    """Each value that was in an element is given once, or is there at the end; of those that compare, one wins."""

    def check(case: tuple[str, bool]) -> None:
        dtype, in_workgroup = case
        count = 2 * LANES
        rows = 2 if in_workgroup else 1
        places = np.random.default_rng(3).integers(0, CELLS, count)
        own = own_cells(places, in_workgroup)
        v = np.arange(count) % 120 + 1
        found, old = run(
            target, atomic_program("exchange", dtype, in_workgroup), dtype, places, v, np.zeros(CELLS * rows)
        )
        for cell in range(CELLS * rows):
            assert sorted([*old[own == cell], found[cell]]) == sorted([0, *v[own == cell]])
        if dtype in FLOATS:
            return
        program = atomic_program("compare_exchange", dtype, in_workgroup)
        found, old = run(target, program, dtype, places, np.zeros(count), np.zeros(CELLS * rows), w=v)
        for cell in np.unique(own):
            winner = own == cell
            assert (old[winner] == 0).sum() == 1
            assert found[cell] == v[winner & (old == 0)][0]

    each([("i8", False), ("u16", True), ("f16", False), ("bf16", True)], check)


def test_threads_add_up() -> None:
    """Enough workgroups for all threads of the cpu, on one element each of three types."""
    count = 1 << 16
    for dtype, value in (("i16", 1), ("f32", 1.0), ("f16", 0.0)):
        places = np.zeros(count, np.uint32)
        v = np.full(count, value)
        found, _ = run("cpu", atomic_program("add", dtype), dtype, places, v, np.full(CELLS, 5))
        total = 5 + value * count
        assert found[0] == (total - 65536 if dtype == "i16" else total)
    rng = np.random.default_rng(4)
    v = rng.normal(size=count).astype(np.float32)
    for op, pick in (("min", np.min), ("max", np.max)):
        found, _ = run(
            "cpu", atomic_program(op, "f32"), "f32", np.zeros(count, np.uint32), v, np.zeros(CELLS)
        )
        assert found[0] == pick(v)
