"""The op table is complete: every row is documented, and every part of the front end knows its format."""

from __future__ import annotations

import pytest
from support.each import each

from vyre_opt.ir import OPS, Builder, DataType, OpDef
from vyre_opt.ir.arith import int_range
from vyre_opt.ir.formats import FORMATS
from vyre_opt.ir.op_builders import BUILDERS
from vyre_opt.ir.op_rules import OP_RULES
from vyre_opt.syntax.op_syntax import SYNTAX

EFFECTS = {
    "read",
    "write",
    "atomic",
    "sync",
    "wait",
    "subgroup",
    "workgroup",
    "trap",
    "fault",
    "print",
    "control",
}


def name(row: OpDef) -> str:
    return row.name


def test_rows_are_documented() -> None:
    """docs/reference/ops.md is made of these lines, so each is one sentence that ends."""

    def check(row: OpDef) -> None:
        assert row.doc.endswith(".")
        assert "\n" not in row.doc

    each(OPS.values(), check, name)


def test_version_1_of_the_format_gets_no_more_ops() -> None:
    """A text of version 1 that has a new op would be read by this reader, and by no reader of version 1: write since=2."""
    assert sum(row.since == 1 for row in OPS.values()) == 98


def test_rows_are_consistent() -> None:
    """Purity is the absence of effects; only known effects exist; words are chosen from a list."""

    def check(row: OpDef) -> None:
        assert row.effects <= EFFECTS
        assert row.is_pure == (not row.effects)
        assert all(attr.choices for attr in row.attrs if attr.kind == "word")
        assert row.ulp >= 0

    each(OPS.values(), check, name)


def test_formats_are_those_of_the_table() -> None:
    """A format says how an op is parsed, checked and printed, so each op has one, and none outlives its rows."""
    assert list(FORMATS) == list(SYNTAX) == list(OP_RULES)
    assert set(FORMATS) == {row.format for row in OPS.values()}
    assert set(BUILDERS) < set(FORMATS)
    assert all(name == format.name for name, format in [*FORMATS.items(), *SYNTAX.items()])


def test_an_op_that_gives_a_value_has_a_method() -> None:
    """By its format's row of BUILDERS, or written out in the class."""
    b = Builder("p")
    names = [row.name for row in OPS.values() if FORMATS[row.format].results == 1]
    assert [name for name in names if not callable(getattr(b, name, None))] == []


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
