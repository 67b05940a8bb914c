"""Reductions and scans combine in the order that docs/reference/language.md fixes, on every target, in all bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import each

from vyre_opt import DiagnosticError, dispatcher, parse, verify
from vyre_opt.lowering.common.workgroup_reductions import with_subgroup_reductions

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]

INTS: dict[str, Combine] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
FLOATS: dict[str, Combine] = {"add": np.add, "mul": np.multiply, "min": np.fmin, "max": np.fmax}
NEUTRAL = {"add": 0, "mul": 1, "or": 0, "xor": 0}
STORED = {"f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8"} | {
    f"{kind}{bits}": f"{kind}{bits // 8}" for kind in "ui" for bits in (8, 16, 32, 64)
}
LANES = (1, 2, 7, 31, 32, 33, 40, 64, 96, 100, 256, 257, 288, 300, 512, 643, 992, 1023, 1024)


def fold(v: np.ndarray, op: Combine) -> np.ndarray:
    """One value of up to 32, as an array: 16 and more onto the first, 8 and more, and so on."""
    for distance in (16, 8, 4, 2, 1):
        low, high = v[:distance], v[distance : 2 * distance]
        v = np.concatenate((op(low[: len(high)], high), low[len(high) :]))
    return v


def run(v: np.ndarray, op: Combine) -> np.ndarray:
    for distance in (1, 2, 4, 8, 16):
        v = np.concatenate((v[:distance], op(v[:-distance], v[distance:])))
    return v


def subgroups(v: np.ndarray) -> list[np.ndarray]:
    return [v[k : k + 32] for k in range(0, len(v), 32)]


def expected(v: np.ndarray, op: Combine, neutral: np.ndarray) -> list[np.ndarray]:
    """Of subgroups and of the workgroup: the reduction, the inclusive scan, the exclusive one."""
    parts = subgroups(v)
    scans = [run(part, op) for part in parts]
    of_subgroups = [
        np.concatenate([np.repeat(fold(part, op), len(part)) for part in parts]),
        np.concatenate(scans),
        np.concatenate([part for scan in scans for part in (neutral, scan[:-1])]),
    ]
    total = fold(np.concatenate([fold(part, op) for part in parts]), op)
    before = run(np.concatenate([scan[-1:] for scan in scans]), op)
    inclusive, exclusive = [scans[0]], [neutral, scans[0][:-1]]
    for s, scan in enumerate(scans[1:]):
        inclusive.append(op(before[s : s + 1], scan))
        exclusive += [before[s : s + 1], op(before[s : s + 1], scan[:-1])]
    return [*of_subgroups, np.repeat(total, len(v)), np.concatenate(inclusive), np.concatenate(exclusive)]


def to_bf16(x: np.ndarray) -> np.ndarray:
    """The nearest bf16, as an f32: to even, without NaN or overflow."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded: np.ndarray = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    return rounded.view(np.float32)


def text(dtype: str, combine: str, lanes: int) -> str:
    """Each form, of an element for each lane; those of a workgroup stand in a loop, too."""
    forms = [f"reduce<{combine}>", f"scan<inclusive, {combine}>", f"scan<exclusive, {combine}>"]
    values = [f"{scope}_{form}" for scope in ("subgroup", "workgroup") for form in forms]
    buffers = [f"buffer @y{n} : {dtype}[{lanes}] write binding({n}) live_out" for n in range(1, 10)]
    body = [
        f"%y{n} = {value} %x : {dtype}\n store %y{n}, @y{n}[%i] : {dtype}"
        for n, value in enumerate(values, 1)
    ]
    inner = [
        f"%z{n} = {value} %x : {dtype}\n store %z{n}, @y{n + 3}[%i] : {dtype}"
        for n, value in enumerate(values[3:], 4)
    ]
    width = next(w for w in (4, 3, 1) if lanes % w == 0)
    nl = "\n"
    return f"""vyre 2
    program @p workgroup({width}, {lanes // width}) {{
      buffer @x : {dtype}[{lanes}] read binding(0)
      {nl.join(buffers)}
      %lx = local_id x
      %ly = local_id y
      %row = mul %ly, {width} : u32
      %i = add %row, %lx : u32
      %x = load @x[%i] : {dtype}
      {nl.join(body)}
      for %k = 0 to 2 step 1 {{
        {nl.join(inner)}
      }}
    }}"""


def numbers(dtype: str, lanes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """As the oracle takes them, and as they are stored."""
    stored = np.dtype(STORED[dtype])
    if dtype[0] in "ui":
        info = np.iinfo(stored)
        values = rng.integers(info.min, info.max, lanes, stored, endpoint=True)
        return values, values
    values = rng.uniform(0.5, 1.5, lanes) * rng.choice((-1, 1), lanes)
    values[rng.random(lanes) < 0.05] = -0.0
    if dtype == "bf16":
        exact = to_bf16(values)
        return exact, (exact.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(stored), values.astype(stored)


def bits(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.dtype.itemsize}")


def cases() -> list[tuple[str, str, int]]:
    """Each combiner of each type, at sizes that go round."""
    pairs = [(dtype, combine) for dtype in STORED for combine in (INTS if dtype[0] in "ui" else FLOATS)]
    return [(*pair, LANES[k * 7 % len(LANES)]) for k, pair in enumerate(pairs)] + [
        ("f32", "add", lanes) for lanes in LANES[::2]
    ]


def test_the_order_is_that_of_the_language() -> None:
    """By ref, by the cpu, and by ref after the reductions of workgroups were taken apart; seventy programs, four seconds."""

    def check(case: tuple[str, str, int]) -> None:
        dtype, combine, lanes = case
        values, stored = numbers(dtype, lanes, np.random.default_rng(lanes))
        op = (INTS if dtype[0] in "ui" else FLOATS)[combine]
        exact = (lambda a, b: to_bf16(op(a, b))) if dtype == "bf16" else op
        ends = {"min": "max", "max": "min"}
        if combine in ends and dtype[0] in "ui":
            neutral = getattr(np.iinfo(values.dtype), ends[combine])
        elif combine in ends:
            neutral = np.inf if combine == "min" else -np.inf
        else:
            neutral = ~values.dtype.type(0) if combine == "and" else NEUTRAL[combine]
        with np.errstate(over="ignore"):
            wanted = expected(values, exact, np.array([neutral], values.dtype))
        program = parse(text(dtype, combine, lanes)).programs["p"]
        inputs = [stored, *[np.zeros_like(stored)] * 9]
        for target, each_program in (
            ("ref", program),
            ("cpu", program),
            ("ref", with_subgroup_reductions(program)),
        ):
            outputs = dispatcher(target).dispatch(each_program, inputs, 1)
            for n, (got, want) in enumerate(zip(outputs, [*wanted, *wanted[3:]], strict=True)):
                want = want.view(np.uint32) >> 16 if dtype == "bf16" else bits(want)
                assert np.array_equal(bits(got), want), (target, n)

    each(cases(), check)


def test_a_condition_by_a_reduction_is_one_for_the_workgroup() -> None:
    """So a barrier may stand there, on compiled targets as well: one, few and many subgroups, and a short last one."""

    def check(lanes: int) -> None:
        module = parse(f"""vyre 2
        program @p workgroup({lanes}) {{
          buffer @x : u32[?] read binding(0)
          buffer @y : u32[?] write binding(1) live_out
          buffer @t : u32[{lanes}] workgroup
          %g = global_id x
          %l = local_id x
          %a = load @x[%g] : u32
          %most = workgroup_reduce<max> %a : u32
          %some = gt %most, 3 : u32
          if %some {{
            store %a, @t[%l] : u32
            barrier workgroup
            %mirrored = sub {lanes - 1}, %l : u32
            %b = load @t[%mirrored] : u32
            %e = workgroup_scan<exclusive, add> %b : u32
            store %e, @y[%g] : u32
          }} else {{
            store %most, @y[%g] : u32
          }}
        }}""")
        assert not [problem for problem in verify(module) if problem.severity == "error"]
        x = np.random.default_rng(lanes).integers(0, 9, 2 * lanes, np.uint32)
        x[:lanes] %= 3
        second = x[lanes:]
        reversed_sums = np.cumsum(second[::-1], dtype=np.uint32) - second[::-1]
        want = np.concatenate((np.repeat(x[:lanes].max(), lanes), reversed_sums))
        for target in ("ref", "cpu"):
            (y,) = dispatcher(target).dispatch(module.programs["p"], [x, np.zeros_like(x)], 2)
            assert np.array_equal(y, want), target

    each((20, 32, 256, 300, 1024), check)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if %p { %r = workgroup_reduce<add> %a : u32 }", "workgroup_reduce in control flow that may differ within a workgroup"),
        ("if %q { %r = workgroup_scan<inclusive, add> %a : u32 }", "may differ within a workgroup"),
        ("%r = workgroup_reduce<add> %p : bool", "cannot combine bool by add"),
        ("%r = workgroup_reduce<and> %f : f32", "cannot combine f32 by and"),
        ("%r = workgroup_reduce<nand> %a : u32", "combine is add, mul, min, max, and, or, xor, not nand"),
        ("%r = workgroup_scan<add> %a : u32", "workgroup_scan"),
    ],
)  # fmt: skip
def test_bad_input_is_told(body: str, message: str) -> None:
    """`%q` is the same in a subgroup, which is not enough."""
    program = f"""vyre 2
    program @p workgroup(64) {{
      %a = local_id x
      %s = subgroup_id
      %f = cast %a : u32 -> f32
      %p = lt %a, 5 : u32
      %q = lt %s, 1 : u32
      {body}
    }}"""
    try:
        problems = verify(parse(program))
    except DiagnosticError as error:
        problems = error.diagnostics
    assert any(message in str(problem) for problem in problems)
    assert all(problem.loc is not None for problem in problems)


def test_its_memory_is_counted() -> None:
    """Two elements for each subgroup, by turns in two buffers; each type has its own."""
    from vyre_opt.analysis.buffer_layout import BufferLayout

    def memory(body: str, lanes: int = 256) -> int:
        program: Any = parse(f"""vyre 2
        program @p workgroup({lanes}) {{
          %a = local_id x
          %d = cast %a : u32 -> f64
          {body}
        }}""").programs["p"]
        size = BufferLayout(program).workgroup
        assert size == sum(b.size_bytes or 0 for b in with_subgroup_reductions(program).buffers.values())
        return size

    one = "%r{} = workgroup_reduce<add> %a : u32\n"
    assert memory(one.format(1)) == 2 * 8 * 4
    assert memory("".join(one.format(n) for n in range(5))) == 2 * 2 * 8 * 4
    assert memory("for %k = 0 to 2 step 1 {" + "".join(one.format(n) for n in range(5)) + "}") == 2 * 8 * 4
    assert memory(one.format(1) + "%d2 = workgroup_scan<inclusive, mul> %d : f64") == 2 * 8 * (4 + 8)
    assert memory(one.format(1), lanes=32) == 0
