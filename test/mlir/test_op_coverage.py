"""Every op of the table can be written as MLIR, at each type that it takes, but for those of which MLIR has nothing like."""

from __future__ import annotations

import pytest
from support.each import each
from support.op_samples import op_samples

from vyre_opt.ir import OPS, OpDef
from vyre_opt.mlir.emit import emit_mlir
from vyre_opt.mlir.helpers.arithmetic import ARITHMETIC
from vyre_opt.mlir.op_map import EMITTED
from vyre_opt.mlir.refusals import refusals

pytest.importorskip("xdsl")

UNLIKE_MLIR = ("debug_print", "breakpoint")
"""Ops that refusals.py refuses by name."""


def is_unlike_mlir(row: OpDef) -> bool:
    return row.kernel is not None or row.name in UNLIKE_MLIR or row.format.startswith(("matrix_", "slice_"))


def test_each_op_is_written() -> None:
    """A new op needs a row of op_map.py or a helper, a new format a row of VALUE_OPS or its kin."""

    def written(row: OpDef) -> None:
        for module in op_samples(row):
            refused = [d.message for program in module.programs.values() for d in refusals(program, module)]
            if is_unlike_mlir(row):
                assert refused
            elif row.name != "barrier":  # of which that of a grid is refused
                assert not refused
                assert emit_mlir(module)

    each(OPS.values(), written, lambda row: row.name)


CLASSES = {"int": "su", "float": "wh", "num": "suwh", "bits": "sub"}
"""Types that a row takes -> their classes in op_map.py."""


def test_each_type_is_written() -> None:
    def written(row: OpDef) -> None:
        if row.name not in ARITHMETIC:
            assert [c for c in CLASSES[row.types] if (row.name, c) not in EMITTED] == []

    rows = [row for row in OPS.values() if row.format in ("unary", "binary", "ternary")]
    each(rows, written, lambda row: row.name)
