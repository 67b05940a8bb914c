"""Affine expressions say what values are: each, evaluated, equals what the interpreter computes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from vyre_opt import dispatcher, parse
from vyre_opt.analysis.affine import AffineExpr, SymbolKind
from vyre_opt.analysis.affine_analysis import Unknown
from vyre_opt.analysis.footprint import Footprints
from vyre_opt.ir import Program

HEAD = """vyre 1
program @p workgroup(8, 4) grid(3, 2) {
  buffer @out : u32[192] write binding(0) live_out
  %lx = local_id x
  %ly = local_id y
  %wx = workgroup_id x
  %wy = workgroup_id y
  %gx = global_id x
  %gy = global_id y
  %nx = global_size x
  %c1 = const 1 : u32
  %c3 = const 3 : u32
  %c8 = const 8 : u32
  %c32 = const 32 : u32
"""
TAIL = """
  %row = mul %gy, %nx : u32
  %place = add %row, %gx : u32
  store %x, @out[%place] : u32
}
"""

AFFINE = [
    "%x = add %lx, %c3 : u32",
    "%x = sub %lx, %c8 : u32",
    "%a = mul %lx, %c3 : u32 %x = sub %c1, %a : u32",
    "%x = shl %ly, %c3 : u32",
    "%x = mul %gx, %c32 : u32",
    "%a = mul %wx, %c32 : u32 %b = mul %wy, %c3 : u32 %s = add %a, %b : u32 %x = add %s, %lx : u32",
    "%x = neg %lx : u32",
    "%x = div %gx, %c8 : u32",
    "%x = rem %gx, %c8 : u32",
    "%x = shr %gx, %c3 : u32",
    "%c7 = const 7 : u32 %x = and %gx, %c7 : u32",
    "%a = cast %lx : u32 -> u64 %b = cast %a : u64 -> u8 %x = cast %b : u8 -> u32",
    "%a = cast %lx : u32 -> i32 %m = const -5 : i32 %b = mul %a, %m : i32 %x = cast %b : i32 -> u32",
    "%n = len @out %x = sub %n, %gx : u32",
    "%n = num_workgroups y %x = add %n, %wx : u32",
]


def form_of(body: str) -> AffineExpr | Unknown:
    """The expression of %x."""
    facts = Footprints(parse(HEAD + body + TAIL).programs["p"])
    return facts.affine.expr(facts.accesses("out")[0].op.operands[0])


def evaluate(expr: AffineExpr, program: Program) -> np.ndarray:
    """The expr at every invocation, in the order of the output."""
    assert program.grid is not None
    (lx, ly, _), (gx, gy, _) = program.workgroup, program.grid
    y, x = np.meshgrid(np.arange(ly * gy), np.arange(lx * gx), indexing="ij")
    values = {
        "local_id.x": x % lx,
        "local_id.y": y % ly,
        "workgroup_id.x": x // lx,
        "workgroup_id.y": y // ly,
    }
    total = np.full(x.shape, expr.const, dtype=object)
    for symbol, coefficient in expr.terms.items():
        total = total + coefficient * values[symbol.name].astype(object)
    return total.reshape(-1)


@pytest.mark.parametrize("body", AFFINE)
def test_a_form_is_the_value_modulo_its_type(body: str) -> None:
    program = parse(HEAD + body + TAIL).programs["p"]
    facts = Footprints(program)
    store = facts.accesses("out")[0].op
    value = store.operands[0]
    expr = facts.affine.expr(value)
    assert isinstance(expr, AffineExpr), body
    assert program.grid is not None
    (got,) = dispatcher("ref").dispatch(program, [np.zeros(192, np.uint32)], program.grid)
    expected = evaluate(expr, program)
    np.testing.assert_array_equal(got, (expected % (1 << 32)).astype(np.uint32))
    low, high = expr.range()
    assert low <= expected.min(), "the range covers every value"
    assert expected.max() <= high
    exact = facts.affine.exact(value)
    assert (exact is not None) == (0 <= low and high < 1 << 32)


@pytest.mark.parametrize(
    "body",
    [
        "%a = sub %gx, %c8 : u32 %x = mul %a, %lx : u32",
        "%a = sub %gx, %c8 : u32 %x = div %a, %c3 : u32",
        "%a = sub %gx, %c8 : u32 %x = mul_hi %a, %lx : u32",
    ],
)
def test_what_is_not_affine_has_no_form(body: str) -> None:
    assert isinstance(form_of(body), Unknown)


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        ("%x = mul %lx, %lx : u32", (0, 49)),
        ("%x = div %lx, %lx : u32", (0, 1)),
        ("%p = lt %lx, %c3 : u32 %x = select %p, %lx, %c1 : u32", (0, 2)),
        ("%p = lt %gx, %c3 : u32 %x = select %p, %lx, %c1 : u32", (0, 7)),
        ("%x = sub_sat %lx, %c3 : u32", (0, 4)),
        ("%a = sub %lx, %c1 : u32 %p = gt %lx, %c1 : u32 %x = select %p, %a, %c3 : u32", (1, 6)),
        ("%a = mul %gx, %gx : u32 %x = rem %a, %c32 : u32", (0, 31)),
        ("%a = add %gx, %c3 : u32 %x = min %a, %c8 : u32", (3, 8)),
    ],
)
def test_a_value_of_small_range_is_a_symbol_of_that_range(body: str, limits: tuple[int, int]) -> None:
    expr = form_of(body)
    assert isinstance(expr, AffineExpr)
    ((symbol, coefficient),) = expr.terms.items()
    assert (symbol.kind, coefficient, symbol.range) == (SymbolKind.VALUE, 1, limits)


BY_LANE = [
    "%a = add %lx, %c1 : u32 %x = min %a, %c3 : u32",
    "%a = sub_sat %lx, %c3 : u32 %b = mul %a, %c8 : u32 %x = add %b, %ly : u32",
    "%a = mul %ly, %c8 : u32 %b = add %a, %lx : u32 %q = div %b, %c3 : u32 %x = add %q, %lx : u32",
    "%a = sub %lx, %c8 : u32 %x = mul %a, %lx : u32",
    "%a = sub %lx, %c3 : u32 %x = min %a, %c8 : u32",
    "%p = lt %lx, %ly : u32 %q = eq %lx, %c3 : u32 %b = and %p, %q : bool %x = select %b, %ly, %c32 : u32",
]


@pytest.mark.parametrize("body", BY_LANE)
def test_what_depends_on_local_ids_alone_is_known_by_lane(body: str) -> None:
    program = parse(HEAD + body + TAIL).programs["p"]
    facts = Footprints(program)
    assert program.grid is not None
    by_lane = facts.affine.lane_values.of(facts.accesses("out")[0].op.operands[0])
    assert by_lane is not None
    (got,) = dispatcher("ref").dispatch(program, [np.zeros(192, np.uint32)], program.grid)
    np.testing.assert_array_equal(got.reshape(8, 24), np.tile(np.reshape(by_lane, (4, 8)), (2, 3)))


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ("%q = div %lx, %c3 : u32 %r = rem %lx, %c3 : u32 %t = mul %q, %c3 : u32 %x = add %t, %r : u32", "local_id.x"),
        ("%m = sub %nx, %c1 : u32 %x = min %lx, %m : u32", "local_id.x"),
        ("%a = max %ly, %c1 : u32 %b = min %ly, %c1 : u32 %s = add %a, %b : u32 %x = add %s, %wx : u32",
         "workgroup_id.x + local_id.y + 1"),
    ],
)  # fmt: skip
def test_terms_of_single_lanes_are_put_together_where_they_are_affine(body: str, form: str) -> None:
    assert str(form_of(body)) == form


@pytest.mark.parametrize(
    "body",
    [
        "%q = div %lx, %c3 : u32 %r = rem %lx, %c3 : u32 %x = add %q, %r : u32",
        "%q = div %lx, %c3 : u32 %r = rem %gx, %c3 : u32 %t = mul %q, %c3 : u32 %x = add %t, %r : u32",
        "%x = min %lx, %c3 : u32",
    ],
)
def test_what_is_affine_in_some_lanes_stays_as_it_is(body: str) -> None:
    expr = form_of(body)
    assert isinstance(expr, AffineExpr)
    assert SymbolKind.VALUE in {symbol.kind for symbol in expr.terms}


def test_a_value_the_workgroup_agrees_on_is_a_symbol() -> None:
    """Equal pure ops on equal expressions are one symbol, whether or not cse ran."""
    body = """
      %a = mul %wx, %nx : u32
      %b = mul %wx, %wy : u32
      %c = mul %wx, %wy : u32
      %d = sub %b, %c : u32
      %x = add %d, %a : u32"""
    expr = form_of(body)
    assert isinstance(expr, AffineExpr)
    assert {s.kind for s in expr.terms} == {SymbolKind.GROUP}
    assert re.fullmatch(r"\d+\*workgroup_id.x", str(expr)), "b - c cancels"
