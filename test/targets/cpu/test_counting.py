"""Atomics whose old values nobody takes: combined in registers where all are on one element, or in memory of the workgroup."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Program, parse
from vyre_opt.lowering.host.row_runs import counts_in_registers
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
}


def _program(dtype: str, body: str, more: str = "", workgroup: str = "64") -> str:
    return f"""program @p workgroup({workgroup}) {{
      buffer @x : {dtype}[?] read binding(0)
      buffer @y : {dtype}[?] read_write binding(1) live_in live_out
      {more}
      %i = global_id x
      %n = len @x
      %zero = const 0 : u32
      %one = const 1 : u32
      %inside = lt %i, %n : u32
      if %inside {{
        %v = load @x[%i] : {dtype}
        {body}
      }}
    }}"""


def _values(rng: random.Random, dtype: str, count: int) -> np.ndarray:
    bits = int(dtype[1:])
    low, high = (-(1 << bits - 1), 1 << bits - 1) if dtype[0] == "i" else (0, 1 << bits)
    return np.array([rng.randrange(low, high) for _ in range(count)], f"{dtype[0]}{bits // 8}")


def _wrapped(value: int, dtype: str) -> int:
    bits = int(dtype[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> bits - 1 else value


def in_registers(text: str) -> bool:
    return counts_in_registers(parse(f"vyre 1\n{text}").programs["p"])


@pytest.mark.parametrize("dtype", ["u8", "i16", "u32", "i32", "u64", "i64"])
def test_integers_of_one_element(agree: Any, dtype: str) -> None:
    """Each op on an element of its own, which holds something before; some lanes, and none beyond the end."""
    rng = random.Random(dtype)
    for count in (1, 31, 64, rng.randint(65, 400)):
        x, before = _values(rng, dtype, count), _values(rng, dtype, 2)
        for name, combine in COMBINE.items():
            text = _program(dtype, f"%o = atomic_{name}<relaxed> @y[%one], %v : {dtype}")
            assert in_registers(text)
            (after,) = agree(text, [x, before], -(-count // 64))
            expected = reduce(combine, map(int, x), int(before[1]))
            assert after.tolist() == [before[0], _wrapped(expected, dtype)]


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["add", "min", "max"])
def test_floats_of_one_element(agree: Any, dtype: str, name: str) -> None:
    """Sums of small numbers, which are exact in any order; a minimum ignores NaNs and takes -0.0 for less than 0.0."""
    kind, flags = np.dtype(f"f{int(dtype[1:]) // 8}"), "fastmath<reassoc>" if name == "add" else ""
    rng = np.random.default_rng(5)
    for special in ([], [0.0, -0.0], [np.nan, 3.0], [np.inf, 1.0]):
        x = np.concatenate([rng.integers(-9, 9, 100), special]).astype(kind)
        if name == "add":
            x = np.where(np.isfinite(x), x, 1).astype(kind)
        text = _program(dtype, f"%o = atomic_{name}<relaxed> @y[%zero], %v {flags} : {dtype}")
        assert in_registers(text)
        (after,) = agree(text, [x, np.ones(1, kind)], 2)
        numbers = [float(v) for v in x if v == v]
        expected = {"add": sum, "min": min, "max": max}[name]([1.0, *numbers])
        assert after[0] == expected


def test_an_element_that_nobody_asks_for(agree: Any, faults: Any) -> None:
    """It may lie outside of the buffer, and a minimum of nothing leaves what is there, the bits of a NaN too."""
    text = _program("f32", "%o = atomic_min<relaxed> @y[%one], %v : f32")
    nothing = np.zeros(0, np.float32)
    (after,) = agree(text, [nothing, np.array([1, -0.0], np.float32)], 3)
    assert np.signbit(after[1])
    agree(text, [nothing, np.zeros(1, np.float32)], 3)
    error = faults(text, [np.zeros(70, np.float32), np.zeros(1, np.float32)], 2)
    assert "atomic_min out of bounds of @y" in str(error)


def test_a_condition_that_python_writes_with_and(agree: Any) -> None:
    text = """program @p workgroup(64) {
      buffer @x : u8[?] read binding(0)
      buffer @y : u32[1] read_write binding(1) live_in live_out
      %i = global_id x
      %n = len @x
      %zero = const 0 : u32
      %one = const 1 : u32
      %inside = lt %i, %n : u32
      %both = if %inside -> bool {
        %v = load @x[%i] : u8
        %seven = const 7 : u8
        %is_seven = eq %v, %seven : u8
        yield %is_seven
      } else {
        %no = const false : bool
        yield %no
      }
      %k = add %i, %one : u32
      if %both {
        %j = sub %k, %i : u32
        %o = atomic_add<relaxed> @y[%zero], %j : u32
      }
    }"""
    assert in_registers(text)
    for count in (0, 1, 63, 200):
        x = np.random.default_rng(count).integers(5, 9, count).astype(np.uint8)
        (after,) = agree(text, [x, np.array([4], np.uint32)], 4)
        assert after[0] == 4 + (x == 7).sum()


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("%o = atomic_add<relaxed> @y[%zero], %v : u32 %k = add %o, %one : u32 store %k, @z[%i] : u32", "z"),
        ("%o = atomic_add<relaxed> @y[%zero], %v : u32 %k = load @y[%one] : u32 store %k, @z[%i] : u32", "z"),
        ("%o = atomic_add<relaxed> @y[%i], %v : u32", ""),
        ("%o = atomic_add<relaxed> @y[%v], %one : u32", ""),
        ("%o = atomic_add<seq_cst> @y[%zero], %v : u32", ""),
        ("%o = atomic_add<relaxed> @y[%zero], %v : u32 %p = atomic_max<relaxed> @y[%one], %v : u32", ""),
        ("%o = atomic_exchange<relaxed> @y[%zero], %v : u32", ""),
        ("for %k = 0 to 3 step 1 { %o = atomic_add<relaxed> @y[%k], %v : u32 yield }", ""),
    ],
    ids=["old values", "also read", "own", "anywhere", "ordered", "two ops", "exchange", "in turn"],
)
def test_what_is_not_combined_in_registers(body: str, more: str) -> None:
    assert not in_registers(_program("u32", body, "buffer @z : u32[?] write binding(2)" if more else ""))


@pytest.mark.parametrize("seed", range(24))
def test_random_counting(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several elements, loops, branches and a launch in rows: the interpreter's results, and the faults of runs by workgroups."""
    rng = random.Random(seed)
    kinds = {name: rng.choice([*COMBINE]) for name in ("y", "z")}

    def count(value: str) -> str:
        name = rng.choice([*kinds])
        at = rng.choice(["%zero", "%one", "%two"])
        return f"%o{rng.getrandbits(60)} = atomic_{kinds[name]}<relaxed> @{name}[{at}], {value} : u32"

    body = [count("%v"), count(rng.choice(["%j", "%i", "%one"]))]
    end = rng.choice(["3", "%i"])
    body.append(f"for %k = 0 to {end} step 1 {{ %w = add %v, %k : u32 {count('%w')} }}")
    body.append(f"%odd = and %v, %one : u32 %c = eq %odd, %one : u32 if %c {{ {count('%v')} }}")
    chosen = "\n".join(rng.sample(body, rng.randint(1, len(body))))
    text = f"""vyre 1
    program @p workgroup({rng.choice(["64", "33, 2", "16, 16"])}) {{
      buffer @x : u32[?, ?] read binding(0)
      buffer @y : u32[?] read_write binding(1) live_in live_out
      buffer @z : u32[?] read_write binding(2) live_in live_out
      %j = global_id x
      %i = global_id y
      %zero = const 0 : u32
      %one = const 1 : u32
      %two = const 2 : u32
      %n = len @x, 1
      %m = len @x, 0
      %a = lt %j, %n : u32
      %b = lt %i, %m : u32
      %ab = and %a, %b : bool
      if %ab {{
        %v = load @x[%i, %j] : u32
        {chosen}
      }}
    }}"""
    program = parse(text).programs["p"]
    shape = rng.randint(1, 20), rng.randint(1, 150)
    generator = np.random.default_rng(seed)
    arrays = [generator.integers(0, 1 << 32, shape, np.uint32)]
    arrays += [generator.integers(0, 1 << 32, rng.choice([2, 3, 3, 3]), np.uint32) for _ in kinds]
    grid = -(-shape[1] // program.workgroup[0]), -(-shape[0] // program.workgroup[1])
    outcome = _outcome(program, arrays, grid)
    if isinstance(outcome, str):
        monkeypatch.setattr("vyre_opt.lowering.host.program.row_runs", lambda *_: None)
        monkeypatch.setattr("vyre_opt.targets.cpu.compiler._LOADED", OrderedDict())
        assert outcome == _outcome(program, arrays, grid)
        return
    assert counts_in_registers(program)
    expected = dispatcher("ref").dispatch(program, arrays, grid)
    for mine, theirs in zip(outcome, expected, strict=True):
        assert np.array_equal(mine, theirs)


def _outcome(program: Program, arrays: list[np.ndarray], grid: tuple[int, int]) -> list[np.ndarray] | str:
    """The outputs of a run, or its fault in words."""
    try:
        return CpuDispatcher(opt=0, cache=False).dispatch(program, arrays, grid)
    except ProgramError as error:
        return str(error)


@pytest.mark.parametrize("index", ["u8", "u16", "u32", "i32", "u64", "i64"])
@pytest.mark.parametrize("dtype", ["u32", "u64", "u8", "f32"])
def test_in_memory_of_the_workgroup(agree: Any, index: str, dtype: str) -> None:
    """Elements that several lanes of a subgroup ask for, by whole subgroups and by a part of the last one."""
    flags = "fastmath<reassoc>" if dtype == "f32" else ""
    text = f"""program @p workgroup(80) {{
      buffer @x : {index}[?] read binding(0)
      buffer @w : {dtype}[?] read binding(1)
      buffer @y : {dtype}[?] read_write binding(2) live_in live_out
      buffer @tile : {dtype}[100] workgroup
      %i = global_id x
      %l = local_id x
      %zero = const 0 : u32
      %at = load @x[%i] : {index}
      %v = load @w[%i] : {dtype}
      %none = cast %zero : u32 -> {dtype}
      for %k = %l to 100 step 80 {{ store %none, @tile[%k] : {dtype} }}
      barrier workgroup
      %o = atomic_add<relaxed> @tile[%at], %v {flags} : {dtype}
      barrier workgroup
      %g = workgroup_id x
      %hundred = const 100 : u32
      %first = mul %g, %hundred : u32
      for %k = %l to 100 step 80 {{
        %to = add %first, %k : u32
        %counted = load @tile[%k] : {dtype}
        store %counted, @y[%to] : {dtype}
      }}
    }}"""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 100, 160).astype(f"{index[0]}{int(index[1:]) // 8}")
    x[40:] = rng.integers(97, 100, 120)
    w = rng.integers(0, 200, 160).astype(f"{dtype[0]}{int(dtype[1:]) // 8}")
    (after,) = agree(text, [x, w, np.zeros(200, w.dtype)], 2)
    expected = np.zeros((2, 100), w.dtype)
    np.add.at(expected, (np.arange(160) // 80, x.astype(np.int64)), w)
    assert np.array_equal(after, expected.reshape(-1))
