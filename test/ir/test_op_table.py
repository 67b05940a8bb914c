"""The op table is complete: every row is documented, and every part of the front end knows its form."""

from __future__ import annotations

import pytest

from vyre_opt.ir.arith import int_range
from vyre_opt.ir.ops import OPS, OpDef
from vyre_opt.ir.parser.simple_forms import BUILD
from vyre_opt.ir.printer import STRUCTURED_FORMS
from vyre_opt.ir.printer_forms import SIMPLE_FORMS
from vyre_opt.ir.shapes import _COUNTS
from vyre_opt.ir.type_rules import RULES
from vyre_opt.ir.types import DataType

ROWS = pytest.mark.parametrize("row", OPS.values(), ids=list(OPS))
FORMS = {row.format for row in OPS.values()}
EFFECTS = {"read", "write", "atomic", "sync", "subgroup", "trap", "control"}


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


@pytest.mark.parametrize("table", [BUILD, RULES, _COUNTS], ids=["parser", "verifier", "shapes"])
def test_every_form_is_known(table: dict[str, object]) -> None:
    """A new form must reach the parser, the type rules and the shapes, and none may outlive its rows."""
    assert set(table) == FORMS


def test_the_printer_knows_every_form() -> None:
    """Control flow has a layout of its own; every other form is one line."""
    assert set(SIMPLE_FORMS) | set(STRUCTURED_FORMS) == FORMS
    assert not set(SIMPLE_FORMS) & set(STRUCTURED_FORMS)


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
