"""The op table is complete: every row is documented, and every part of the front end knows its format."""

from __future__ import annotations

import pytest

from vyre_opt.ir.arith import int_range
from vyre_opt.ir.builder import Builder
from vyre_opt.ir.formats import FORMATS
from vyre_opt.ir.ops import OPS, OpDef
from vyre_opt.ir.types import DataType

ROWS = pytest.mark.parametrize("row", OPS.values(), ids=list(OPS))
EFFECTS = {"read", "write", "atomic", "sync", "wait", "subgroup", "trap", "print", "control"}


@ROWS
def test_a_row_is_documented(row: OpDef) -> None:
    """docs/ops.md is made of these lines, so each is one sentence that ends."""
    assert row.doc.endswith(".")
    assert "\n" not in row.doc


@ROWS
def test_a_row_is_consistent(row: OpDef) -> None:
    """Purity is the absence of effects; only known effects exist; words are chosen from a list."""
    assert row.effects <= EFFECTS
    assert row.is_pure == (not row.effects)
    assert all(attr.choices for attr in row.attrs if attr.kind == "word")
    assert row.ulp >= 0


def test_formats_are_those_of_the_table() -> None:
    """A format says how an op is parsed, checked and printed, so each op has one, and none outlives its rows."""
    assert set(FORMATS) == {row.format for row in OPS.values()}
    assert all(name == format.name for name, format in FORMATS.items())


@pytest.mark.parametrize("name", [n for n, row in OPS.items() if FORMATS[row.format].results == 1])
def test_an_op_that_gives_a_value_has_a_method(name: str) -> None:
    """By its format's `build`, or written out in the class."""
    b = Builder("p")
    assert callable(getattr(b, name))


@pytest.mark.parametrize(
    "row", [r for r in OPS.values() if r.fold_int and r.format == "binary"], ids=lambda r: r.name
)
def test_commutative_rows_commute(row: OpDef) -> None:
    """cse swaps the operands of a commutative op, so its fold may not care about their order."""
    low, high = int_range(DataType.I8)
    pairs = [(a, b) for a in (low, -3, 0, 5, high) for b in (-7, 1, 2, high)]
    assert row.fold_int is not None
    if row.commutative:
        assert all(row.fold_int(a, b, DataType.I8) == row.fold_int(b, a, DataType.I8) for a, b in pairs)
    else:
        assert any(row.fold_int(a, b, DataType.I8) != row.fold_int(b, a, DataType.I8) for a, b in pairs)
